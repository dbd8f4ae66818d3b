import { isDeepStrictEqual } from 'node:util';
import { groupBy } from '../../core/collections.js';
import type { Orm } from '../../core/db/client.js';
import { toJson } from '../../core/http/json.js';
import { formatCount, formatDecimal } from '../../core/pages/format.js';
import { listFeatures, mergeFeatures } from '../entitlements/features.js';
import { defaultThresholds } from '../entitlements/limits.js';
import { listGrantsOf, type Product } from '../entitlements/queries.js';
import type { UsageLimit } from '../entitlements/table.js';
import { namePeriod, nameWindow } from '../window-name.js';
import { stateOf } from './organization-plans.js';
import { readProducts } from './plans.js';
import { findMovedAt, findOrganizationPlan, findPlan } from './queries.js';
import type { Definition, PlanGrant } from './schema.js';

export interface ChangeLine {
  sign: '+' | '−' | '~' | '=';
  text: string;
  /** For an entitlement only. */
  productSlug?: string | undefined;
  /** This month's usage, where the change limits it. */
  used?: { quantity: string; metric: string; isOver: boolean } | undefined;
}

interface Part {
  title: string;
  fields: Readonly<Record<string, unknown>>;
  productSlug?: string;
}

type Terms = Definition['entitlements'][number];

/** By a name that is unique within the plan. */
function partsOf(definition: Definition | undefined, products: ReadonlyMap<string, Product>) {
  const { entitlements = [], grants = [], trial } = definition ?? {};
  return new Map<string, Part>([
    ...entitlements.map(({ productSlug, ...fields }) => {
      const product = products.get(productSlug);
      const title = product?.name ?? productSlug;
      const ofProduct = product && product.usageMetric !== '' ? { ofProduct: product.unitCap } : undefined;
      const unitCap = fields.unitCap === undefined ? ofProduct : fields.unitCap;
      return [`entitlement ${productSlug}`, { title, fields: { ...fields, unitCap }, productSlug }] as const;
    }),
    ...nameGrants(grants, products).map(
      (grant) => [`grant ${grant.key} ${grant.every}`, toGrantPart(grant)] as const,
    ),
    ...(trial ? [['trial', toTrialPart(trial, products)] as const] : []),
  ]);
}

/** Names the products that they pay for. */
const nameGrants = (grants: readonly PlanGrant[], products: ReadonlyMap<string, Product>): PlanGrant[] =>
  grants.map(({ productSlugs, ...grant }) => ({
    ...grant,
    ...(productSlugs && { productSlugs: productSlugs.map((slug) => products.get(slug)?.name ?? slug) }),
  }));

const toGrantPart = ({ key, every, ...fields }: PlanGrant) => ({
  title: `${{ month: 'Monthly', week: 'Weekly', day: 'Daily' }[every]} credits${key === 'credits' ? '' : ` (${key})`}`,
  fields,
});

const toTrialPart = (trial: NonNullable<Definition['trial']>, products: ReadonlyMap<string, Product>) => ({
  title: 'Trial',
  fields: { ...trial, ...(trial.grants && { grants: nameGrants(trial.grants, products) }) },
});

/** All products that it names. */
export const slugsIn = ({ entitlements, grants, trial }: Definition): string[] => [
  ...entitlements.map(({ productSlug }) => productSlug),
  ...[...grants, ...(trial?.grants ?? [])].flatMap(({ productSlugs }) => productSlugs ?? []),
];

type Values = Omit<Terms, 'productSlug' | 'unitCap'> & {
  unitCap?: string | null | { ofProduct: string | null };
} & Omit<PlanGrant, 'key' | 'every'> &
  NonNullable<Definition['trial']>;

/** The words for each field. An undefined value is the default. */
const phrases: { [Field in keyof Values]-?: (value: Values[Field] | undefined) => string } = {
  kind: (kind) => (kind === 'live' ? 'live' : 'read-only'),
  unitCap: (cap = null) =>
    cap === null
      ? 'no cap'
      : typeof cap === 'string'
        ? `cap ${formatDecimal(cap)}`
        : `the product’s cap: ${cap.ofProduct === null ? 'none' : formatDecimal(cap.ofProduct)}`,
  limits: (limits = []) =>
    limits.map((limit) => `${nameLimit(limit)}: at most ${writeLimit(limit)}`).join(', ') || 'no limits',
  thresholds: (percents) => `warnings at ${(percents ?? defaultThresholds).join(', ')}%`,
  features: (features = {}) =>
    listFeatures(toJson(features))
      .map(({ name, value }) => `${name}: ${features[name] === null ? 'removed' : value}`)
      .join(', ') || 'the product’s features',
  amount: (amount) => formatDecimal(amount!),
  expires: (expires) => (expires === null ? 'never expire' : 'expire at the end of the period'),
  priority: (priority) => `priority ${priority ?? 'default'}`,
  rollover: (rollover) =>
    rollover
      ? `${rollover.percent}% rolls over for ${formatCount(Number(rollover.for.slice(1, -1)), 'day')}`
      : 'no rollover',
  productSlugs: (slugs) => `pay for ${slugs?.join(', ') ?? 'all products'}`,
  days: (days) => formatCount(days!, 'day'),
  grants: (grants) =>
    grants?.map((grant) => writePart(toGrantPart(grant))).join('; ') ?? 'the plan’s credits',
};

const nameLimit = ({ window, per }: UsageLimit) => `${namePeriod(window)}${per ? ', each subject' : ''}`;

const writeLimit = ({ quantity, enforcement }: UsageLimit): string =>
  `${formatDecimal(quantity)} (${enforcement === 'block' ? 'blocks' : 'warns'})`;

/** Those of one window are the same limit, in their order. */
export function compareLimits(before: readonly UsageLimit[] = [], after: readonly UsageLimit[] = []) {
  const without = (some: readonly UsageLimit[], others: readonly UsageLimit[]) =>
    groupBy(
      some.filter((one) => !others.some((other) => isDeepStrictEqual(one, other))),
      nameLimit,
    );
  const [old, wanted] = [without(before, after), without(after, before)];
  return [...new Set([...old.keys(), ...wanted.keys()])].flatMap((name) => {
    const [was = [], will = []] = [old.get(name), wanted.get(name)];
    return Array.from({ length: Math.max(was.length, will.length) }, (_, i) => ({
      name,
      was: was[i],
      will: will[i],
    }));
  });
}

export function writeLimitChange({ name, was, will }: ReturnType<typeof compareLimits>[number]) {
  const isSame = was?.enforcement === will?.enforcement;
  const writeOne = (limit: UsageLimit) => (isSame ? formatDecimal(limit.quantity) : writeLimit(limit));
  return { label: name, was: was ? writeOne(was) : 'no limit', will: will ? writeOne(will) : 'no limit' };
}

const write = (field: string, value: unknown): string =>
  (phrases[field as keyof Values] as (value: unknown) => string)(value);

const writePart = ({ title, fields }: Part): string =>
  `${title}: ${Object.entries(fields)
    .flatMap(([field, value]) => (value === undefined ? [] : write(field, value)))
    .join(', ')}`;

/** Lists what a change of the definition adds, removes and changes. `isWhole` also lists what stays. */
export async function listChanges(
  orm: Orm,
  before: Definition | undefined,
  after: Definition | undefined,
  isWhole = false,
): Promise<ChangeLine[]> {
  const slugs = [before, after].flatMap((one) => (one ? slugsIn(one) : []));
  const products = await readProducts(orm, slugs);
  const [old, wanted] = [partsOf(before, products), partsOf(after, products)];
  return [...new Set([...old.keys(), ...wanted.keys()])].toSorted().flatMap((name): ChangeLine[] => {
    const [from, to] = [old.get(name), wanted.get(name)];
    const { productSlug } = (to ?? from)!;
    if (!to) return [{ sign: '−', text: from!.title, productSlug }];
    if (!from) return [{ sign: '+', text: writePart(to), productSlug }];
    const changes = [...new Set([...Object.keys(from.fields), ...Object.keys(to.fields)])].flatMap(
      (field): ChangeLine[] => {
        if (field === 'limits')
          return compareLimits((from.fields as Values).limits, (to.fields as Values).limits)
            .map(writeLimitChange)
            .map(({ label, was, will }) => ({ sign: '~', text: `${to.title}, ${label}: ${was} → ${will}` }));
        const [was, will] = [from, to].map(({ fields }) => write(field, fields[field]));
        const isCap = field === 'unitCap';
        const text = `${to.title}: ${was} → ${will}`;
        return was === will ? [] : [{ sign: '~', text, productSlug: isCap ? productSlug : undefined }];
      },
    );
    return isWhole && changes.length === 0 ? [{ sign: '=', text: writePart(to) }] : changes;
  });
}

export async function readOwnTerms(orm: Orm, orgId: string) {
  const grants = await listGrantsOf(orm, [orgId]);
  return grants.map(({ plan, productName, productSlug, kind, hasOwnCap, unitCap, ...own }) => ({
    isSetByHand: plan === null,
    name: productName,
    terms: {
      productSlug,
      kind,
      ...(hasOwnCap && { unitCap }),
      ...(own.limits?.length && { limits: own.limits }),
      ...(own.thresholds && { thresholds: own.thresholds }),
      ...(own.features && { features: own.features }),
    } as Terms,
  }));
}

type OwnTerms = Awaited<ReturnType<typeof readOwnTerms>>;

/** With the terms that the Organization has instead of the plan's. */
export const withOwnTerms = (definition: Definition, own: OwnTerms): Definition => ({
  ...definition,
  entitlements: definition.entitlements.map(
    (one) => own.find(({ terms }) => terms.productSlug === one.productSlug)?.terms ?? one,
  ),
});

/** Each plan shows this many at most, so that a page stays small. */
const SHOWN_PRODUCTS = 8;

/** With what the dashboard of a customer on each of the plans shows. */
export async function withContents<T extends { definition: Definition }>(orm: Orm, plans: readonly T[]) {
  const slugs = plans.flatMap(({ definition }) => slugsIn(definition));
  const products = await readProducts(orm, slugs);
  const toContents = ({ entitlements, grants, trial }: Definition) => ({
    grants: nameGrants(grants, products),
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
  const movedAt = await findMovedAt(orm, orgId);
  const since = movedAt && movedAt > row.startsAt ? movedAt : row.startsAt;
  return { ...row, name, definition, since, state: stateOf(row, now) };
}
