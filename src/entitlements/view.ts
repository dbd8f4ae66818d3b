import { compareDecimals, subtractDecimals } from '../decimal.js';
import { exact, toJson } from '../http/json.js';
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

/** The results of a check as JSON, one per slug, in order. */
export function checkResultsJson(slugs: string[], balances: (Balance | undefined)[]): string {
  return `{"results":[${slugs.map((slug, i) => checkResultJson(slug, balances[i])).join(',')}]}`;
}

/** Checks that went together in one query share their balances, and so the JSON made from them. */
const made = new WeakMap<Balance, string>();

function checkResultJson(productSlug: string, balance: Balance | undefined): string {
  if (!balance) {
    return `{"productSlug":${JSON.stringify(productSlug)},"allowed":false,"reason":"entitlement_required","kind":null,"unitCap":null,"used":null,"remaining":null,"overCap":false}`;
  }
  let json = made.get(balance);
  if (json === undefined) {
    const { kind, unitCap, used } = balance;
    const isLive = kind === 'live';
    json = toJson({
      productSlug,
      allowed: isLive,
      reason: isLive ? null : 'entitlement_read_only',
      kind,
      unitCap: exact(unitCap),
      used: exact(used),
      remaining: exact(unitCap === null ? null : subtractDecimals(unitCap, used)),
      overCap: unitCap !== null && compareDecimals(used, unitCap) > 0,
    });
    made.set(balance, json);
  }
  return json;
}
