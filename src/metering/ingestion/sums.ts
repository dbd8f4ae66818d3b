import type { Names } from '../../core/db/client.js';
import { when } from '../../core/db/sql.js';
import { burnCredits } from '../credits/statements.js';
import { countedDimensions, OTHER_SQL } from '../entitlements/dimensions.js';
import { noteRaised } from '../thresholds/statements.js';

interface Sums {
  now: string;
  /**
   * An earlier CTE with org_id, product_id, unit_cap, limits, thresholds and subjects_since of the events'
   * entitlements. Rows may repeat.
   */
  entitled: string;
  /** Whether the thresholds of the events can be reported, as `noted`. */
  hasThresholds: boolean;
  /** Whether `inserted` has a `subject` column. */
  hasSubjects: boolean;
  /** Whether `inserted` has a `dimensions` column. */
  hasDimensions: boolean;
  /** Whether `entitled` also has livemode, dimensions, month and is_other, which saves looking up each combination. */
  knowsOthers?: boolean;
  /** Whether `inserted` has credit_price. */
  burns: boolean;
  /** Age in ms from which events report only the thresholds of the current month. Default: they are never so old. */
  oldMs?: number | undefined;
}

/**
 * CTEs that add the rows of `inserted` to the sums: totals, hours, subjects, then credits, each in primary-key order
 * and after the one before. Everything that records events uses them, so a total is always the sum of its events. If
 * webhook endpoints listen, `noted` holds the threshold evaluations that were queued.
 */
export function addToSums(t: Names, sums: Sums): string[] {
  const { now, entitled, hasThresholds, hasSubjects, burns, oldMs } = sums;
  const last = hasSubjects ? 'by_subject' : 'charted';
  const after = `(select count(*) from ${last}) >= 0`;
  return [
    hourly(sums),
    raised(t, sums),
    charted(t, sums),
    ...(hasSubjects ? [bySubject(t, sums)] : []),
    ...(burns ? [burnCredits(t, { from: 'hourly', now, after })] : []),
    ...(hasThresholds ? [noteRaised(t, now, entitled, oldMs)] : []),
  ];
}

/** Hours begin at whole hours of UTC. */
const hourOf = "date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00')";

const hourly = ({ hasThresholds, hasDimensions, burns }: Sums): string => `hourly as materialized (
  select org_id, product_id, livemode, metric, api_key_id,
    ${hourOf} as hour,
    sum(quantity) as quantity, count(*) as events${when(hasThresholds, ', max(occurred_at) as latest_at')}${when(hasDimensions, ', dimensions')}${when(burns, ', sum(quantity * credit_price) as credits')}
  from inserted
  group by 1, 2, 3, 4, 5, 6${when(hasDimensions, ', dimensions')}
)`;

const raised = (t: Names, { hasThresholds }: Sums): string => `raised as (
  insert into ${t('usage_totals')} as t (org_id, period, livemode, product_id, metric, quantity, events)
  select org_id, date_trunc('month', hour at time zone 'UTC')::date as period, livemode, product_id, metric,
    sum(quantity), sum(events)
  from hourly
  group by 1, 2, 3, 4, 5
  order by 1, 2, 3, 4, 5
  on conflict (org_id, period, livemode, product_id, metric)
  do update set quantity = t.quantity + excluded.quantity, events = t.events + excluded.events
  returning org_id, period, livemode, product_id, metric, quantity${when(hasThresholds, ', lowered, unreached, unreached_terms')}
)`;

function charted(t: Names, sums: Sums): string {
  const { hasDimensions, hasSubjects, burns } = sums;
  const columns = `org_id, product_id, livemode, hour, metric, api_key_id${when(hasDimensions, ', dimensions')}, quantity, events`;
  const places = hasDimensions ? '1, 2, 3, 4, 5, 6, 7' : '1, 2, 3, 4, 5, 6';
  return `charted as (
  insert into ${t('usage_hours')} as h (${columns})
  ${hasDimensions ? selectCounted(t, sums) : `select ${columns} from hourly`}
  where (select count(*) from raised) > 0
  ${when(hasDimensions, `group by ${places}`)} order by ${places}
  on conflict (org_id, product_id, livemode, hour, metric, api_key_id, dimensions)
  do update set quantity = h.quantity + excluded.quantity, events = h.events + excluded.events${when(hasSubjects || burns, ' returning 1')}
)`;
}

/** A combination of dimensions beyond the limit has no hours of its own. */
function selectCounted(t: Names, { entitled, knowsOthers }: Sums): string {
  const month = `date_trunc('month', o.hour at time zone 'UTC')::date`;
  const counted = knowsOthers
    ? `case when (o.org_id, o.product_id, o.livemode, o.dimensions, ${month})
        in (select org_id, product_id, livemode, dimensions, month from ${entitled} where is_other) then ${OTHER_SQL} else o.dimensions end`
    : countedDimensions(t, 'o', month);
  return `select org_id, product_id, livemode, hour, metric, api_key_id, counted, sum(quantity), sum(events)
  from (
    select o.*, ${counted} as counted from hourly o
  ) h`;
}

/**
 * The rows need no order, because each statement that changes a month's subjects has locked the month's total, and
 * sorting all events would cost 5%.
 */
const bySubject = (t: Names, { now, entitled, burns }: Sums): string => `by_subject as (
  insert into ${t('usage_subjects')} as s (org_id, product_id, livemode, subject, slot, metric, quantity, events)
  select org_id, product_id, livemode, subject, ${slotOf} as slot, metric, sum(quantity), count(*)
  from inserted
  where subject <> '' and (select count(*) from charted) > 0
  group by 1, 2, 3, 4, 5, 6
  having (org_id, product_id) in (select org_id, product_id from ${entitled} where subjects_since <= ${now})
  on conflict (org_id, product_id, livemode, subject, slot, metric)
  do update set quantity = s.quantity + excluded.quantity, events = s.events + excluded.events${when(burns, ' returning 1')}
)`;

const slotOf = "date_bin('5 minutes', occurred_at, timestamptz '2000-01-01 00:00:00+00')";

/** Adds the rows of the CTE `corrected` to the totals in primary-key order and before the hours, as events do. */
export const addToTotals = (table: (name: string) => string): string => `
  insert into ${table('usage_totals')} as t (org_id, period, livemode, product_id, metric, quantity, events, lowered)
  select org_id, date_trunc('month', occurred_at at time zone 'UTC')::date as period, livemode, product_id, metric,
    sum(quantity - previous_quantity), 0, sum(greatest(previous_quantity - quantity, 0))
  from corrected
  group by 1, 2, 3, 4, 5
  order by 1, 2, 3, 4, 5
  on conflict (org_id, period, livemode, product_id, metric)
  do update set quantity = t.quantity + excluded.quantity, lowered = t.lowered + excluded.lowered
  returning 1`;

/** Like `addToTotals`, for the hours. @param after a condition that is true once the totals have been adjusted */
export const addToHours = (table: (name: string) => string, after = 'true'): string => `
  insert into ${table('usage_hours')} as h (org_id, product_id, livemode, hour, metric, api_key_id, dimensions, quantity, events)
  select org_id, product_id, livemode, ${hourOf} as hour, metric, api_key_id,
    dimensions, sum(quantity - previous_quantity), 0
  from corrected
  where ${after}
  group by 1, 2, 3, 4, 5, 6, 7
  order by 1, 2, 3, 4, 5, 6, 7
  on conflict (org_id, product_id, livemode, hour, metric, api_key_id, dimensions)
  do update set quantity = h.quantity + excluded.quantity
  returning 1`;

/** Like `addToHours`, for the subjects, after the hours. */
export const addToSubjects = (table: (name: string) => string, after = 'true'): string => `
  insert into ${table('usage_subjects')} as s (org_id, product_id, livemode, subject, slot, metric, quantity, events)
  select org_id, product_id, livemode, subject, ${slotOf} as slot, metric, sum(quantity - previous_quantity), 0
  from corrected
  where subject <> '' and ${after}
  group by 1, 2, 3, 4, 5, 6
  order by 1, 2, 3, 4, 5, 6
  on conflict (org_id, product_id, livemode, subject, slot, metric)
  do update set quantity = s.quantity + excluded.quantity`;
