import { columnArrays, numericArray, textArray, when } from '../../core/db/sql.js';
import type { Names, Run, Template } from '../../core/db/client.js';
import { addDecimals, compareDecimals, isDecimalAbove, subtractDecimals } from '../../core/decimal.js';
import { durationMs, endOfWindow, isBeyond, takenOf, type LimitState } from './limits.js';

export interface Subject {
  orgId: string;
  productId: string;
  livemode: boolean;
  metric: string;
  /** If set, reads only the limits per subject; otherwise only the others. */
  subject?: string | undefined;
}

/** In declared order as `l`, with the bounds of their windows as `v`. */
const declaredLimits = (
  row: string,
  now: string,
  { condition, since }: { condition: string; since: string },
): string => `
cross join lateral (
  select ord, l ->> 'window' as name, (l ->> 'quantity')::numeric as quantity, l ->> 'enforcement' as enforcement,
    case when l ->> 'window' like 'calendar%' then substr(l ->> 'window', 10) end as unit
  from jsonb_array_elements(${row}.limits) with ordinality as j (l, ord)
  where ${condition}
  offset 0
) l
cross join lateral (
  select case when l.unit is null then ${since}
      else date_trunc(l.unit, ${now} at time zone 'UTC') at time zone 'UTC' end as since,
    case when l.unit is not null
      then (date_trunc(l.unit, ${now} at time zone 'UTC') + ('1 ' || l.unit)::interval) at time zone 'UTC' end as until
  offset 0
) v`;

const rollingStart = (now: string): string =>
  `${now} - make_interval(secs => extract(epoch from l.name::interval)::float8)`;

const perSubject = (now: string) => ({
  condition: `l ->> 'per' = 'subject'`,
  since: `date_bin('5 minutes', ${rollingStart(now)}, timestamptz '2000-01-01 00:00:00+00')`,
});

/** Like `limitUsage`, for a row with a subject. Windows start at multiples of five minutes, rounded outward. */
export const subjectUsage = (
  t: Names,
  row: string,
  now: string,
): string => `${declaredLimits(row, now, perSubject(now))}
cross join lateral (
  select coalesce(sum(quantity) filter (where v.until is null or slot < v.until), 0) as used,
    coalesce(sum(quantity) filter (where slot >= v.until), 0) as ahead
  from ${t('usage_subjects')}
  where org_id = ${row}.org_id and product_id = ${row}.product_id and livemode = ${row}.livemode and subject = ${row}.subject
    and slot >= v.since and metric = ${row}.metric
) u`;

/** A rolling window takes parts of hours at its edges. Tables are read apart, so missing corrections cost nothing. */
const changesAtEdges = (table: string, quantity: string, subject: string, now: string): string => {
  const own = `l.unit is null and e.org_id = ${subject}.org_id and e.product_id = ${subject}.product_id and e.livemode = ${subject}.livemode
      and e.metric = ${subject}.metric`;
  return `
    select w.sign * ${quantity}, false from ${table} e where ${own} and e.occurred_at >= w.begins and e.occurred_at < w.ends
    union all
    select moved.quantity, moved.is_ahead from ${table} e
    cross join lateral (values (-${quantity}, false), (${quantity}, true)) as moved (quantity, is_ahead)
    where ${own} and e.occurred_at > ${now}`;
};

/**
 * Joins each limit `l`, except those per subject, to its sums `u` in one snapshot. Whole hours come from the sums, a
 * month from its total; in the hour in which a rolling window starts, the shorter part is read event by event. Events
 * dated after the window count as `ahead`: a sender's clock may be ahead, and a settled reservation must not free room.
 * @param subject name of a row with org_id, product_id, livemode, metric and limits
 * @param now a timestamptz
 */
export const limitUsage = (t: Names, subject: string, now: string): string => `${declaredLimits(
  subject,
  now,
  {
    condition: `l -> 'per' is null`,
    since: rollingStart(now),
  },
)}
cross join lateral (
  select first_hour, least(first_hour, first) as begins, greatest(first_hour, first) as ends, case when first < first_hour then 1 else -1 end as sign
  from (
    select v.since + interval '1 microsecond' as first, case when l.unit is not null then v.since
      when v.since < begun + interval '30 minutes' then begun else begun + interval '1 hour' end as first_hour
    from (select date_bin('1 hour', v.since, timestamptz '2000-01-01 00:00:00+00') as begun) hour
  ) edge
  offset 0
) w
cross join lateral (
  select coalesce(sum(quantity) filter (where not is_ahead), 0) as used, coalesce(sum(quantity) filter (where is_ahead), 0) as ahead
  from (
    select quantity, month.is_ahead from (values (v.since, false), (v.until, true)) as month (begins, is_ahead)
    cross join lateral (
      select quantity from ${t('usage_totals')}
      where org_id = ${subject}.org_id and livemode = ${subject}.livemode and product_id = ${subject}.product_id
        and metric = ${subject}.metric and period = (month.begins at time zone 'UTC')::date
      limit 1
    ) total
    where l.unit = 'month'
    union all
    select quantity, v.until is not null and hour >= v.until from ${t('usage_hours')}
    where l.unit is distinct from 'month' and org_id = ${subject}.org_id and product_id = ${subject}.product_id
      and livemode = ${subject}.livemode and hour >= w.first_hour and metric = ${subject}.metric
    union all ${changesAtEdges(t('usage_events'), 'e.quantity', subject, now)}
    union all ${changesAtEdges(t('usage_corrections'), '(e.quantity - e.previous_quantity)', subject, now)}
  ) part
) u`;

/**
 * As `held` and `held_until`, for a row with org_id, product_id, livemode and metric. The order matches the only index
 * that includes the quantity: a planner without statistics might otherwise read every expired hold.
 */
export const heldFor = (t: Names, subject: string, now: string, condition = ''): string => `(
  select coalesce(sum(quantity), 0) as held, min(expires_at) as held_until from (
    select quantity, expires_at from ${t('usage_reservations')}
    where org_id = ${subject}.org_id and product_id = ${subject}.product_id and livemode = ${subject}.livemode and metric = ${subject}.metric
      and settled_at is null and released_at is null and expires_at > ${now}${condition}
    order by expires_at
  ) hold
)`;

export const heldForSubject = (t: Names, row: string, now: string): string =>
  heldFor(t, row, now, ` and subject = ${row}.subject and subject <> ''`);

/** $1 org, $2 product, $3 livemode, $4 metric, per entitlement · $5 now */
export const readLimitStates: Template = {
  name: 'limits_read',
  text: (t) => selectStates(t, false),
};

/** Like `readLimitStates`, for limits per subject. $6 subject, per entitlement */
const readSubjectStates: Template = {
  name: 'limits_read_subjects',
  text: (t) => selectStates(t, true),
};

const selectStates = (t: Names, isNamed: boolean): string => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[]${when(isNamed, ', $6::text[]')}) with ordinality
    as d (org_id, product_id, livemode, metric${when(isNamed, ', subject')}, ord)${t.held}
)
select (s.ord - 1)::text as place, trim_scale(l.quantity)::text as quantity, l.name as "window", l.enforcement${when(isNamed, ', s.subject')},
  trim_scale(u.used)::text as used, trim_scale(u.ahead)::text as ahead, trim_scale(s.held)::text as held
from (
  select d.*, e.limits, h.held
  from d
  cross join lateral ${(isNamed ? heldForSubject : heldFor)(t, 'd', '$5::timestamptz')} h
  cross join lateral (select limits from ${t('entitlements')} where org_id = d.org_id and product_id = d.product_id limit 1) e
  where e.limits is not null
) s${(isNamed ? subjectUsage : limitUsage)(t, 's', '$5::timestamptz')}
order by s.ord, l.ord`;

/** In declared order and one snapshot. */
export async function readLimits(run: Run, subjects: readonly Subject[], nowMs: number) {
  const states: LimitState[][] = subjects.map(() => []);
  for (const isNamed of [false, true]) {
    const places = subjects.flatMap(({ subject }, i) => ((subject !== undefined) === isNamed ? [i] : []));
    if (places.length === 0) continue;
    const own = places.map((i) => subjects[i]!);
    const rows = await run<LimitRow & { place: string }>(isNamed ? readSubjectStates : readLimitStates, [
      ...columnArrays(own, 'orgId', 'productId', 'livemode', 'metric'),
      new Date(nowMs).toISOString(),
      ...(isNamed ? columnArrays(own, 'subject') : []),
    ]);
    for (const row of rows) states[places[Number(row.place)]!]!.push(toLimitState(row, nowMs));
  }
  return states;
}

export type LimitRow = Omit<LimitState, 'resetsAtMs' | 'per'>;

export const toLimitState = (row: LimitRow, nowMs: number): LimitState => ({
  quantity: row.quantity,
  window: row.window,
  enforcement: row.enforcement,
  ...(row.subject === undefined ? {} : { per: 'subject', subject: row.subject }),
  used: row.used,
  ahead: row.ahead,
  held: row.held,
  resetsAtMs: endOfWindow(row.window, nowMs),
});

/** When an exhausted rolling window has room again. */
export async function addFreeTimes(
  run: Run,
  subjects: readonly Subject[],
  states: readonly LimitState[][],
  nowMs: number,
): Promise<void> {
  const reached = states.flatMap((own, s) =>
    own
      .filter((state) => state.resetsAtMs === undefined && isBeyond(state, '0'))
      .map((state) => ({ state, subject: subjects[s]!, more: '0' })),
  );
  const freeAt = await findFreeTimes(run, reached, nowMs);
  for (const [i, { state }] of reached.entries()) state.resetsAtMs = freeAt[i];
}

/** Separate rows with the event's time. */
const countedEvents = (t: Names): string => `(
      select org_id, product_id, livemode, occurred_at, metric, quantity from ${t('usage_events')}
      union all
      select org_id, product_id, livemode, occurred_at, metric, quantity - previous_quantity from ${t('usage_corrections')}
    )`;

/**
 * Finds the hour from the hourly sums, then the event within it.
 * $1 org, $2 product, $3 livemode, $4 metric, $5 start of the window, $6 units that must leave, per question · $7
 * whether more than $6 must leave
 */
export const findLeavingEvents: Template = {
  name: 'limits_find_leaving',
  text: (t) => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[], $5::timestamptz[], $6::numeric[], $7::bool[]) with ordinality
    as d (org_id, product_id, livemode, metric, since, needed, is_more, ord)${t.held}
)
select (d.ord - 1)::text as place, (extract(epoch from e.occurred_at) * 1000)::text as "atMs"
from d
cross join lateral (
  select date_bin('1 hour', d.since, timestamptz '2000-01-01 00:00:00+00') + interval '1 hour' as first_hour
) w
cross join lateral (
  select hour, through - quantity as before from (
    select hour, quantity, sum(quantity) over (order by hour) as through from (
      select w.first_hour - interval '1 hour' as hour, coalesce(sum(quantity), 0) as quantity from ${countedEvents(t)} e
      where org_id = d.org_id and product_id = d.product_id and livemode = d.livemode and metric = d.metric
        and occurred_at > d.since and occurred_at < w.first_hour
      union all
      select hour, sum(quantity) from ${t('usage_hours')}
      where org_id = d.org_id and product_id = d.product_id and livemode = d.livemode and metric = d.metric and hour >= w.first_hour
      group by hour
    ) part
  ) summed
  where case when d.is_more then through > d.needed else through >= d.needed end
  order by hour
  limit 1
) h
cross join lateral (
  select occurred_at from (
    select occurred_at, sum(quantity) over (order by occurred_at) as through from ${countedEvents(t)} e
    where org_id = d.org_id and product_id = d.product_id and livemode = d.livemode and metric = d.metric
      and occurred_at > d.since and occurred_at >= h.hour and occurred_at < h.hour + interval '1 hour'
  ) summed
  where case when d.is_more then h.before + through > d.needed else h.before + through >= d.needed end
  order by occurred_at
  limit 1
) e`,
};

/** For a subject: the end of the five-minute slot. $8 subject, per question */
const findLeavingSlots: Template = {
  name: 'limits_find_leaving_slots',
  text: (t) => `
${t.with} d as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[], $5::timestamptz[], $6::numeric[], $7::bool[], $8::text[]) with ordinality
    as d (org_id, product_id, livemode, metric, since, needed, is_more, subject, ord)${t.held}
)
select (d.ord - 1)::text as place, (extract(epoch from s.slot + interval '5 minutes') * 1000)::text as "atMs"
from d
cross join lateral (
  select slot from (
    select slot, sum(quantity) over (order by slot) as through from ${t('usage_subjects')}
    where org_id = d.org_id and product_id = d.product_id and livemode = d.livemode and subject = d.subject
      and slot >= date_bin('5 minutes', d.since, timestamptz '2000-01-01 00:00:00+00') and metric = d.metric
  ) summed
  where case when d.is_more then through > d.needed else through >= d.needed end
  order by slot
  limit 1
) s`,
};

/** The fullest of each Organization, of those in effect. A limit per subject counts for the one with the largest sum. */
export interface FullestLimit extends Record<
  'orgId' | 'slug' | 'name' | 'window' | 'quantity' | 'used',
  string
> {
  subject: string | null;
}

/** Live. $1 orgs, $2 now, $3 newest five-minute sums to read for each limit per subject */
export const readFullestLimits: Template = {
  name: 'limits_read_fullest',
  text: (t) => `
${t.with} s as materialized (
  select e.org_id, e.product_id, true as livemode, p.usage_metric as metric, p.slug, p.name, e.limits
  from unnest($1::uuid[]) as d (org_id)${t.held}
  join ${t('entitlements')} e on e.org_id = d.org_id and e.limits is not null and e.kind = 'live'
    and e.starts_at <= $2::timestamptz and (e.ends_at is null or e.ends_at > $2::timestamptz)
  join ${t('products')} p on p.id = e.product_id and p.archived_at is null
)
select distinct on (f.org_id) f.org_id::text as "orgId", f.slug, f.name, f."window", f.subject, trim_scale(f.quantity)::text as quantity,
  trim_scale(f.used)::text as used
from (
  select s.org_id, s.slug, s.name, l.name as "window", null as subject, l.quantity, u.used + u.ahead + h.held as used
  from s
  cross join lateral ${heldFor(t, 's', '$2::timestamptz')} h${limitUsage(t, 's', '$2::timestamptz')}
  union all
  select s.org_id, s.slug, s.name, l.name, u.subject, l.quantity, u.used
  from s${declaredLimits('s', '$2::timestamptz', perSubject('$2::timestamptz'))}
  cross join lateral (
    select subject, sum(quantity) as used from (
      select subject, quantity from ${t('usage_subjects')}
      where org_id = s.org_id and product_id = s.product_id and livemode = s.livemode and slot >= v.since and metric = s.metric
      order by slot desc limit $3::int
    ) newest
    group by subject order by 2 desc, 1 limit 1
  ) u
) f
order by f.org_id, case when f.quantity = 0 then sign(f.used) * 1e30 else f.used / f.quantity end desc, f.used desc, f.slug`,
};

interface FreeQuestion {
  subject: Subject;
  state: LimitState;
  /** 0 asks for any room at all. */
  more: string;
}

/** Starts with those that need the most units. Any other refusal gets the longest wait found for its window. */
const MAX_QUESTIONS = 8;

/** Undefined if waiting does not help. */
export async function findFreeTimes(run: Run, questions: readonly FreeQuestion[], nowMs: number) {
  const asked = questions.flatMap(({ subject, state, more }, place) => {
    const windowMs = durationMs(state.window);
    const needed = subtractDecimals(addDecimals(takenOf(state), more), state.quantity);
    const canLeave = compareDecimals(needed, addDecimals(state.used, state.ahead)) <= 0;
    if (windowMs === undefined || !canLeave || compareDecimals(more, state.quantity) > 0) return [];
    const window = Object.values({ ...subject, windowMs }).join(' ');
    return [{ place, subject, windowMs, window, needed, isMore: !isDecimalAbove(more, '0') }];
  });
  const distinct = new Map(asked.map((question) => [`${question.window} ${question.needed}`, question]));
  const chosen = [...distinct.values()]
    .toSorted((a, b) => compareDecimals(b.needed, a.needed))
    .slice(0, MAX_QUESTIONS);
  const freeAt: (number | undefined)[] = questions.map(() => undefined);
  if (chosen.length === 0) return freeAt;
  const found: { window: string; needed: string; atMs: number | undefined }[] = [];
  for (const isNamed of [false, true]) {
    const own = chosen.filter(({ subject }) => (subject.subject !== undefined) === isNamed);
    if (own.length === 0) continue;
    const ownSubjects = own.map(({ subject }) => subject);
    const rows = await run<{ place: string; atMs: string }>(isNamed ? findLeavingSlots : findLeavingEvents, [
      ...columnArrays(ownSubjects, 'orgId', 'productId', 'livemode', 'metric'),
      textArray(own.map(({ windowMs }) => new Date(nowMs - windowMs).toISOString())),
      numericArray(own.map(({ needed }) => needed)),
      ...columnArrays(own, 'isMore'),
      ...(isNamed ? columnArrays(ownSubjects, 'subject') : []),
    ]);
    for (const [i, { window, needed, windowMs }] of own.entries()) {
      const row = rows.find(({ place }) => Number(place) === i);
      found.push({ window, needed, atMs: row && Math.ceil(Number(row.atMs)) + windowMs });
    }
  }
  for (const { place, window, needed } of asked) {
    const own = found.filter((answer) => answer.window === window);
    freeAt[place] = (own.find((answer) => answer.needed === needed) ?? own[0])?.atMs;
  }
  return freeAt;
}
