import { compareDecimals, subtractDecimals } from '../core/decimal.js';
import { exact } from '../core/http/json.js';
import { monthRange } from '../usage/answer.js';
import type { Balance, CurrentEntitlement } from './reader.js';

/** An entitlement as clients see it. `remaining` never goes below 0; null where there is no cap. */
export function toEntitlementView(entitlement: CurrentEntitlement) {
  const { productSlug, productName, kind, usageMetric, unitCap, used, period, startsAtMs, endsAtMs } =
    entitlement;
  return {
    productSlug,
    productName,
    kind,
    usageMetric,
    unitCap: exact(unitCap),
    used: exact(used),
    remaining: exact(unitCap === null ? null : subtractDecimals(unitCap, used)),
    period: monthRange(period),
    startsAt: new Date(startsAtMs).toISOString(),
    endsAt: endsAtMs === null ? null : new Date(endsAtMs).toISOString(),
  };
}

/** Calls that went together in one query and asked the same share their answer, and so the JSON made from it. */
const madeResults = new WeakMap<(Balance | undefined)[], string>();

/** The results of a check as JSON, one per slug, in order. */
export function checkResultsJson(slugs: string[], balances: (Balance | undefined)[]): string {
  let json = madeResults.get(balances);
  if (json === undefined) {
    json = `{"results":[${slugs.map((slug, i) => checkResultJson(slug, balances[i])).join(',')}]}`;
    madeResults.set(balances, json);
  }
  return json;
}

/**
 * Put together by hand: a check of 50 slugs makes 50 of these, and the general way took a third of the whole call. The
 * decimals stand as Postgres wrote them, digit by digit, which is how JSON writes numbers, too.
 */
function checkResultJson(productSlug: string, balance: Balance | undefined): string {
  const slug = JSON.stringify(productSlug);
  if (!balance) {
    return `{"productSlug":${slug},"allowed":false,"reason":"entitlement_required","kind":null,"unitCap":null,"used":null,"remaining":null,"overCap":false}`;
  }
  const { kind, unitCap, used } = balance;
  const verdict =
    kind === 'live' ? '"allowed":true,"reason":null' : '"allowed":false,"reason":"entitlement_read_only"';
  const remaining = unitCap === null ? null : subtractDecimals(unitCap, used);
  const isOver = remaining === '0' && compareDecimals(used, unitCap!) > 0;
  return `{"productSlug":${slug},${verdict},"kind":"${kind}","unitCap":${unitCap},"used":${used},"remaining":${remaining},"overCap":${isOver}}`;
}
