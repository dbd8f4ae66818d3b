import type { Orm } from '../../core/db/client.js';
import { toJson } from '../../core/http/json.js';
import { listFeatures, mergeFeatures } from '../entitlements/features.js';
import { nameWindow } from '../window-name.js';
import { stateOf } from './organization-plans.js';
import { readProducts } from './plans.js';
import { findOrganizationPlan, findPlan } from './queries.js';
import { definitionJson } from './schema.js';
import type { Definition } from './table.js';

export interface ChangeLine {
  sign: '+' | '−' | '~';
  text: string;
}

/** Fields by the name of each part. */
function partsOf(definition: Definition | undefined): Map<string, Record<string, unknown>> {
  if (!definition) return new Map();
  const { entitlements, grants, trial } = definitionJson(definition);
  return new Map<string, Record<string, unknown>>([
    ...entitlements.map(({ productSlug, ...fields }) => [`entitlement ${productSlug}`, fields] as const),
    ...grants.map(({ key, ...fields }) => [`credits ${key}`, fields] as const),
    ...(trial ? [['trial', { ...trial }] as const] : []),
  ]);
}

const write = (value: unknown): string => (value === undefined ? 'not set' : toJson(value));

/** Lists what a change of the definition adds, removes and changes. */
export function listChanges(before: Definition | undefined, after: Definition | undefined): ChangeLine[] {
  const [old, wanted] = [partsOf(before), partsOf(after)];
  return [...new Set([...old.keys(), ...wanted.keys()])].toSorted().flatMap((name): ChangeLine[] => {
    const [from, to] = [old.get(name), wanted.get(name)];
    if (!to) return [{ sign: '−', text: name }];
    if (!from) return [{ sign: '+', text: `${name} ${toJson(to)}` }];
    const fields = [...new Set([...Object.keys(from), ...Object.keys(to)])].filter(
      (field) => write(from[field]) !== write(to[field]),
    );
    return fields.map((field) => ({
      sign: '~',
      text: `${name}, ${field}: ${write(from[field])} → ${write(to[field])}`,
    }));
  });
}

/** Of a plan, so that a page stays small. */
const SHOWN_PRODUCTS = 8;

/** As the dashboard of a customer on each of the plans shows them. */
export async function readContents(orm: Orm, definitions: readonly Definition[]) {
  const slugs = definitions.flatMap(({ entitlements }) => entitlements.map(({ productSlug }) => productSlug));
  const products = await readProducts(orm, slugs);
  return definitions.map(({ entitlements, grants, trial }) => ({
    grants,
    trialDays: trial?.days,
    hidden: Math.max(0, entitlements.length - SHOWN_PRODUCTS),
    entitlements: entitlements
      .slice(0, SHOWN_PRODUCTS)
      .map(({ productSlug, kind, unitCap, limits = [], features = null }) => {
        const product = products.get(productSlug)!;
        return {
          productSlug,
          name: product.name,
          metric: product.usageMetric,
          kind,
          cap: unitCap === undefined ? product.unitCap : unitCap,
          limits: limits.map(({ window, ...limit }) => ({ ...limit, window: nameWindow(window) })),
          features: listFeatures(toJson(mergeFeatures(product.features, features))),
        };
      }),
  }));
}

/** Undefined if the Organization is on no plan. */
export async function readPlanView(orm: Orm, orgId: string, now: Date) {
  const row = await findOrganizationPlan(orm, orgId);
  if (!row) return undefined;
  const { name, definition } = (await findPlan(orm, row.plan, row.version))!;
  return { ...row, name, definition, state: stateOf(row, now) };
}
