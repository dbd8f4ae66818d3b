import { whenKeyIsBad } from '../../accounts/api-keys/bearer-key.js';
import type { Names } from '../../core/db/client.js';
import { OPERATOR_KEY_ID } from './table.js';

/** SQL: the branches of a `case` that names what is wrong with a pair from `joinPair`, in the terms of `rules.ts`. */
export const whenPairIsBad = (now: string): string => `${whenKeyIsBad(now, 'usage:write')}
      when e.kind is null then 'entitlement_required'
      when pr.archived_at is not null then 'product_archived'
      when e.kind = 'read_only' then 'entitlement_read_only'
      when pr.usage_metric <> p.metric then 'unknown_metric'`;

/**
 * SQL: joins `p` (hashed_secret, slug) to its key `k`, its product `pr` and the entitlement `e` in effect. Lateral
 * sub-selects of one row by its whole key make the plan use indexes even if the planner misjudges table sizes.
 */
export const joinPair = (t: Names, now: string, takesOld = false): string => `
  left join lateral (
    ${
      takesOld
        ? `(${keyOf(t)})
    union all ${operatorKey}`
        : keyOf(t)
    }
  ) k on true
  left join lateral (
    select id, usage_metric, max_quantity, unit_cap, archived_at, dimensions, subjects_since, credit_price, credit_dimension, credit_prices,
      credit_enforcement
    from ${t('products')} where slug = p.slug limit 1
  ) pr on true
  left join lateral (
    select kind, has_own_cap, unit_cap, limits, thresholds from ${t('entitlements')}
    where org_id = k.org_id and product_id = pr.id
      and starts_at <= ${now} and (ends_at is null or ends_at > ${now})
    limit 1
  ) e on true`;

const keyOf = (
  t: Names,
): string => `select id, org_id, livemode, revoked_at, archived_at, expires_at, scopes from ${t('api_keys')}
    where hashed_secret = p.hashed_secret limit 1`;

/** Stands for the key of `operatorSender`. */
const operatorKey = `select '${OPERATOR_KEY_ID}'::uuid, left(p.hashed_secret, 36)::uuid, substr(p.hashed_secret, 38)::bool, null::timestamptz,
      null::timestamptz, null::timestamptz, '{usage:write}'::text[]
    where p.hashed_secret like '% %'`;

/** Only an extended variant of the statement can record the pair. Never returned to callers. */
export const NEEDS_EXTENDED = 'needs_extended_text';
/** Only a priced variant of the statement can record the pair. Never returned to callers. */
export const NEEDS_PRICED = 'needs_priced_text';
/** Internal problem code for a pair whose combination of dimensions must be listed first. Never returned to callers. */
export const NEEDS_COMBINATION = 'needs_combination';
