import type { Orm } from '../../core/db/client.js';
import { toJson } from '../../core/http/json.js';
import { formatDecimal } from '../../core/pages/format.js';
import { listFeatures, mergeFeatures } from '../entitlements/features.js';
import { nameWindow } from '../window-name.js';
import { stateOf } from './organization-plans.js';
import { readProducts } from './plans.js';
import { findOrganizationPlan, findPlan } from './queries.js';
import { definitionJson, type Definition, type PlanGrant } from './schema.js';

export interface ChangeLine {
  sign: '+' | '−' | '~';
  text: string;
}

/** Fields by the name of each part. */
function partsOf(definition: Definition | undefined): Map<string, Record<string, unknown>> {
  if (!definition) return new Map();
  const { entitlements, grants, trial } = definitionJson(definition);
  return new Map<string, Record<string, unknown>>([
    ...entitlements.map(({ productSlug, ...fields }) => [`Entitlement to ${productSlug}`, fields] as const),
    ...grants.map(({ key, ...fields }) => [nameGrant(key, fields.every), fields] as const),
    ...(trial ? [['Trial', { ...trial }] as const] : []),
  ]);
}

const nameGrant = (key: string, every: PlanGrant['every']): string =>
  `${{ month: 'Monthly', week: 'Weekly', day: 'Daily' }[every]} credits${key === 'credits' ? '' : ` (${key})`}`;

/** Other fields have their names in the definition. The amount is what a grant is about. */
const labels: Record<string, string> = { unitCap: 'cap', productSlugs: 'products', amount: '' };

const labelOf = (field: string): string => labels[field] ?? field;

function write(field: string, value: unknown): string {
  if (value === undefined) return 'not set';
  if (value === null) return field === 'unitCap' ? 'no cap' : 'never';
  const text = toJson(value);
  return /^\d+(\.\d+)?$/.test(text) ? formatDecimal(text) : typeof value === 'string' ? value : text;
}

/** Lists what a change of the definition adds, removes and changes. */
export function listChanges(before: Definition | undefined, after: Definition | undefined): ChangeLine[] {
  const [old, wanted] = [partsOf(before), partsOf(after)];
  return [...new Set([...old.keys(), ...wanted.keys()])].toSorted().flatMap((name): ChangeLine[] => {
    const [from, to] = [old.get(name), wanted.get(name)];
    if (!to) return [{ sign: '−', text: name }];
    if (!from) {
      const parts = Object.entries(to).map(([field, value]) =>
        `${labelOf(field)} ${write(field, value)}`.trim(),
      );
      return [{ sign: '+', text: `${name}: ${parts.join(', ')}` }];
    }
    const fields = [...new Set([...Object.keys(from), ...Object.keys(to)])].filter(
      (field) => write(field, from[field]) !== write(field, to[field]),
    );
    return fields.map((field) => ({
      sign: '~',
      text: `${[name, labelOf(field)].filter(Boolean).join(', ')}: ${write(field, from[field])} → ${write(field, to[field])}`,
    }));
  });
}

/** Each plan shows this many at most, so that a page stays small. */
const SHOWN_PRODUCTS = 8;

/** With what the dashboard of a customer on each of the plans shows. */
export async function withContents<T extends { definition: Definition }>(orm: Orm, plans: readonly T[]) {
  const slugs = plans.flatMap(({ definition }) =>
    definition.entitlements.map(({ productSlug }) => productSlug),
  );
  const products = await readProducts(orm, slugs);
  const toContents = ({ entitlements, grants, trial }: Definition) => ({
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
  });
  return plans.map((plan) => ({ ...plan, contents: toContents(plan.definition) }));
}

/** Undefined if the Organization is on no plan. */
export async function readPlanView(orm: Orm, orgId: string, now: Date) {
  const row = await findOrganizationPlan(orm, orgId);
  if (!row) return undefined;
  const { name, definition } = (await findPlan(orm, row.plan, row.version))!;
  return { ...row, name, definition, state: stateOf(row, now) };
}
