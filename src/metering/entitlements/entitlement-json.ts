import { createRecentMap } from '../../core/collections.js';
import { compareDecimals, isDecimalAbove, multiplyDecimals, subtractDecimals } from '../../core/decimal.js';
import { parseJson } from '../../core/http/body.js';
import { exact, toJson } from '../../core/http/json.js';
import { parseInput, requireFew } from '../../core/http/validate.js';
import { monthRange } from '../../core/time.js';
import type { Balance, Credits, CurrentEntitlement } from './reader.js';
import type { Features } from './features.js';
import type { Dimensions } from './dimensions.js';
import { declaredLimitJson, isBeyond, limitJson, type LimitState } from './limits.js';
import { toExactDecimals } from './exact-number.js';
import { creditPriceJson, priceFor } from './price.js';
import { entitlementCheckSchema, MAX_SLUGS } from './schema.js';

const MAX_REMEMBERED = 500;
const MAX_REMEMBERED_LENGTH = 4_096;
/** At most 500, each up to 4 KB. Entries never go stale, because they depend only on the body. */
const remembered = createRecentMap<string, Check>(MAX_REMEMBERED);

export interface Check {
  slugs: string[];
  openings: string[];
  /** One per slug. */
  quantities: string[];
  /** One per slug; undefined if no item names a subject. */
  subjects?: (string | undefined)[] | undefined;
  dimensions?: (Dimensions | undefined)[] | undefined;
}

/** Clients repeat bodies. Equal ones share one list of slugs, by which the reader groups calls. */
export function parseCheck(text: string): Check {
  let check = remembered.get(text);
  if (check === undefined) {
    check = validate(parseJson(text), text);
    if (text.length <= MAX_REMEMBERED_LENGTH) remembered.set(text, check);
  }
  return check;
}

const openingOf = (slug: string): string => `{"productSlug":${JSON.stringify(slug)},`;

export const singleCheck = (slug: string, quantity: string): Check => ({
  slugs: [slug],
  openings: [openingOf(slug)],
  quantities: [quantity],
});

function validate(value: unknown, text: string): Check {
  const { productSlugs, items } = (value ?? {}) as { productSlugs?: unknown; items?: unknown };
  for (const sent of [productSlugs, items])
    requireFew(sent, 'A check can have', MAX_SLUGS, sent === items ? 'items' : 'slugs');
  const check = parseInput(entitlementCheckSchema, value);
  const slugs = check.productSlugs ?? check.items!.map(({ productSlug }) => productSlug);
  const openings = slugs.map(openingOf);
  if (check.productSlugs) return { slugs, openings, quantities: slugs.map(() => '0') };
  const asked = check.items!;
  return {
    slugs,
    openings,
    quantities: toExactDecimals(text, 'items', 'quantity').map((quantity) => quantity ?? '0'),
    subjects: asked.some(({ subject }) => subject) ? asked.map(({ subject }) => subject) : undefined,
    dimensions: asked.some(({ dimensions }) => dimensions)
      ? asked.map(({ dimensions }) => dimensions)
      : undefined,
  };
}

/** `remaining` is never negative, and is null without a cap. */
export function toEntitlementView(entitlement: CurrentEntitlement) {
  const { productSlug, productName, kind, usageMetric, unitCap, used, period, startsAtMs, endsAtMs } =
    entitlement;
  const { perSubject = [] } = entitlement.subject ?? {};
  const { credits } = entitlement;
  return {
    productSlug,
    productName,
    kind,
    usageMetric: usageMetric || null,
    unitCap: exact(unitCap),
    used: exact(used),
    remaining: exact(unitCap === null ? null : subtractDecimals(unitCap, used)),
    period: monthRange(period),
    limits: entitlement.limits.map(limitJson),
    ...(perSubject.length > 0 ? { limitsPerSubject: perSubject.map(declaredLimitJson) } : {}),
    ...(credits
      ? { credits: { ...creditPriceJson(credits.price), available: exact(credits.available) } }
      : {}),
    features: JSON.parse(entitlement.features) as Features,
    startsAt: new Date(startsAtMs).toISOString(),
    endsAt: endsAtMs === null ? null : new Date(endsAtMs).toISOString(),
  };
}

/** Identical calls share one query and the JSON of its results. */
const madeResults = new WeakMap<(Balance | undefined)[], string>();

export function checkResultsJson(
  check: Check,
  balances: (Balance | undefined)[],
  ofSubjects?: LimitState[][],
): string {
  if (ofSubjects) {
    const own = balances.map(
      (balance, i) => balance && { ...balance, limits: [...balance.limits, ...ofSubjects[i]!] },
    );
    return checkResultsJson(check, own);
  }
  let json = madeResults.get(balances);
  if (json === undefined) {
    json = '{"results":[';
    for (const i of check.slugs.keys()) json += (i === 0 ? '' : ',') + checkResultJson(check, i, balances[i]);
    json += ']}';
    madeResults.set(balances, json);
  }
  return json;
}

/** Assembled by hand ("JSON and HTTP by hand" in bench/README.md). Postgres's decimals are valid JSON numbers. */
export function checkResultJson(check: Check, i: number, balance: Balance | undefined): string {
  const { openings, quantities, dimensions } = check;
  const opening = openings[i]!;
  const quantity = quantities[i]!;
  if (!balance)
    return `${opening}"allowed":false,"reason":"entitlement_required","kind":null,"unitCap":null,"used":null,"remaining":null,"overCap":false,"limits":[],"features":{}}`;
  const { kind, unitCap, used, limits, features } = balance;
  const reason = findRefusal(balance, quantity, dimensions?.[i]);
  const verdict = reason ? `"allowed":false,"reason":"${reason}"` : '"allowed":true,"reason":null';
  const limitList = limits.length === 0 ? '[]' : toJson(limits.map(limitJson));
  const remaining = unitCap === null ? null : subtractDecimals(unitCap, used);
  const isOver = remaining === '0' && compareDecimals(used, unitCap!) > 0;
  return `${opening}${verdict},"kind":"${kind}","unitCap":${unitCap},"used":${used},"remaining":${remaining},"overCap":${isOver},"limits":${limitList},"features":${features}}`;
}

/** Why a check denies the quantity. */
export function findRefusal(balance: Balance | undefined, quantity: string, dimensions?: Dimensions) {
  if (!balance) return 'entitlement_required';
  const { kind, limits, credits } = balance;
  if (kind !== 'live') return 'entitlement_read_only';
  if (limits.some((limit) => limit.enforcement === 'block' && isBeyond(limit, quantity)))
    return 'limit_reached';
  return credits !== undefined && isBeyondCredits(credits, quantity, dimensions)
    ? 'credits_exhausted'
    : undefined;
}

/** For a quantity of zero, whether no credits are left. */
function isBeyondCredits(
  { price, available }: Credits,
  quantity: string,
  dimensions: Dimensions | undefined,
): boolean {
  const isForZero = quantity === '0';
  if (price.enforcement !== 'block' || (isForZero && available !== '0')) return false;
  const unitPrice = priceFor(price, dimensions);
  const isBeyond = isForZero || compareDecimals(multiplyDecimals(quantity, unitPrice), available) > 0;
  return isBeyond && isDecimalAbove(unitPrice, '0');
}
