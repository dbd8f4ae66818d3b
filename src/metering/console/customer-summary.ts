import { sql, type SQL } from 'drizzle-orm';
import { toFlag, type CustomerFacts, type CustomerSummary } from '../../console/customer-summary.js';
import type { GroupTables } from '../../core/db/client.js';
import { wholeTables } from '../../core/db/shards.js';
import { queryRows, textArray, timeJson, timeText } from '../../core/db/sql.js';
import {
  formatCount,
  formatDecimal,
  formatGrowth,
  formatMonth,
  formatRounded,
  formatShare,
  formatShortDay,
  inSentence,
  toNamedOptions,
} from '../../core/pages/format.js';
import type { Context } from '../../core/http/context.js';
import { ExactNumber } from '../../core/http/json.js';
import { DAY_MS, HOUR_MS, monthOf, monthRange } from '../../core/time.js';
import { burnJson, toBurnt, type BurnArrays } from '../credit-grants/queries.js';
import { accountOf } from '../credits/statements.js';
import { lastDays, toUseTrend, toUseTrends } from '../dashboard/overview.js';
import { toCap } from '../entitlements/caps.js';
import { readFullestLimits, type FullestLimit } from '../entitlements/limit-queries.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { readSubjectLimits } from '../entitlements/pages.js';
import { listCurrentUse } from '../events/current-use.js';
import { effectiveCap, NO_METRIC } from '../entitlements/table.js';
import { readEventPage } from '../events/events.js';
import { readProductSums } from '../events/page-queries.js';
import { toEventView } from '../reports/event-view.js';
import { listRefills } from '../plans/grants.js';
import { listPlans } from '../plans/queries.js';
import type { Definition } from '../plans/schema.js';
import { balanceOf } from '../reports/credits/ledger.js';
import { paceRange, project, type ProjectedGrant } from '../reports/credits/view.js';
import { addMonths } from '../reports/period.js';
import { listMoments } from './customer-moments.js';
import { newCustomer } from './plan-pages.js';
import { nameWindow } from '../window-name.js';
import { findStripeProblem } from '../stripe/comparison.js';

const SOON_DAYS = 7;
const SILENT_DAYS = 14;

/** Five-minute sums by subject read for each limit: for a page's rows, and for the figures of all customers. */
const SHOWN_SUMS = 100_000;
const COUNTED_SUMS = 5_000;

export const customerSummary: CustomerSummary = {
  columns: [
    { id: 'plan', label: 'Plan' },
    { id: 'month', label: 'This month', isNumber: true, isLargestFirst: true },
    { id: 'share', label: 'Cap or limit', isLargestFirst: true },
    { id: 'left', label: 'Credits left', isNumber: true },
    { id: 'end', label: 'Runs out' },
    { id: 'last', label: 'Last event', isLargestFirst: true },
  ],
  view: 'metering/console/customer-cells',
  csvColumns: [
    'plan',
    'credits_this_month',
    'events_this_month',
    'share_of_cap',
    'share_of_cap_product',
    'share_of_limit',
    'share_of_limit_product',
    'credits_left',
    'runs_out',
    'last_event',
  ],
  header: 'metering/console/customer-figures',
  signals: [
    { id: 'credits', label: 'Out of credits', isState: true, path: '/credits', urgency: 3 },
    { id: 'soon', label: 'Running out soon', isState: true, path: '/credits', urgency: 3 },
    { id: 'near', label: 'Near a cap or limit', isState: true, path: '', urgency: 2 },
    { id: 'over', label: 'Over a cap or limit', isState: true, path: '', urgency: 3 },
    { id: 'trial', label: `Trial over, or within ${SOON_DAYS} days of its end`, path: '/plan', urgency: 1 },
    { id: 'silent', label: `No events for ${SILENT_DAYS} days`, path: '/keys', urgency: 0 },
    { id: 'stripe', label: 'Shared Stripe customer', path: '', urgency: 1 },
  ],
  plans: {
    list: async (orm) => {
      const plans = await listPlans(orm, { after: undefined, limit: 500 });
      return toNamedOptions([{ slug: '-', name: 'No plan' }, ...plans]);
    },
    // A sharded database refuses a subquery about each row.
    isOn: (plan) =>
      plan === '-'
        ? sql`o.id not in (select org_id from organization_plans where ended_at is null)`
        : sql`o.id in (select org_id from organization_plans where plan = ${plan} and ended_at is null)`,
  },
  async read({ shards }, nowMs, orgIds, withTrends) {
    const now = new Date(nowMs);
    const asked = [textArray(orgIds), now.toISOString(), withTrends ? SHOWN_SUMS : COUNTED_SUMS];
    const groups = await Promise.all(
      shards.groups.map(async (group) => {
        const [rows, limits] = await Promise.all([
          group.select<FactsRow>((t) => selectFacts(t, nowMs, orgIds, withTrends)),
          group.run<FullestLimit>(readFullestLimits, asked),
        ]);
        const limitOf = new Map(limits.map((limit) => [limit.orgId, limit]));
        return rows.map((row) => [row.orgId, toFacts(row, limitOf.get(row.orgId), now)] as const);
      }),
    );
    return new Map(groups.flat());
  },
  tiles(facts) {
    const count = (signal: string) => String(facts.filter(({ signals }) => signals.includes(signal)).length);
    const burned = facts.map(({ keys }) => Number(keys.month)).filter((credits) => credits > 0);
    const month = formatRounded(burned.reduce((sum, credits) => sum + credits, 0));
    return [
      { label: 'Credits this month', value: month, query: { sort: '-month' } },
      { label: 'Near cap or limit', value: count('near'), query: { signal: 'near' }, tone: 'warn' },
      { label: 'Running out soon', value: count('soon'), query: { signal: 'soon' }, tone: 'bad' },
    ];
  },
  listMoments,
  panel: { view: 'metering/console/use-panel', aside: 'metering/console/latest-events', read: readUsePanel },
  actions: [
    { label: 'Change plan', path: '/plan' },
    { label: 'Grant credits', path: '/credits/grant' },
  ],
  newCustomer,
};

/** Live. Decimals are text, which keeps all their digits. */
interface FactsRow extends Record<'orgId' | 'createdAt' | 'burned' | 'pace' | 'today', string> {
  firstAt: string | null;
  lastEvent: string | null;
  plan:
    | (Pick<Definition, 'grants' | 'trial'> &
        Record<'name' | 'anchor' | 'grantedUntil', string> & { trialEndsAt: string | null })
    | null;
  /** The product with the largest share of its cap used; without caps, the one with the most usage. */
  use: (Record<'slug' | 'name' | 'metric' | 'used', string> & { cap: string | null; events: number }) | null;
  /** Null without an account of credits. */
  account: BurnArrays | null;
  paceProducts: string[] | null;
  isOlder: boolean;
  isSharing: boolean;
  /** Burned until the same time of last month; null without trends. */
  burnedBefore: string | null;
  /** Credits of an account by day, otherwise events; null without trends. */
  days: { start: number; quantity: string }[] | null;
}

const cap = sql.raw(effectiveCap('e', 'p'));
const text = (decimal: SQL): SQL => sql`trim_scale(${decimal})::text`;
const at = (ms: number | Date): SQL => sql`${new Date(ms).toISOString()}::timestamptz`;

/** Each part is a lookup by an index that begins with the Organization. */
function selectFacts(t: GroupTables, nowMs: number, orgIds: readonly string[], withTrends: boolean): SQL {
  const month = monthOf(nowMs);
  const monthMs = Date.parse(monthRange(month).start);
  const { from, today } = paceRange(new Date(nowMs));
  const lastMonthMs = addMonths(new Date(monthMs), -1).getTime();
  // Reports of usage also compare whole hours.
  const passedMs = (Math.floor((nowMs - monthMs) / HOUR_MS) + 1) * HOUR_MS;
  const sameTimeMs = Math.min(lastMonthMs + passedMs, monthMs);
  const isListed = (column: SQL) => sql`${column} = any (${textArray(orgIds)}::uuid[])`;
  const first = at(lastDays(new Date(nowMs)).from.getTime());
  const days = sql`select coalesce(json_agg(json_build_object('start', extract(epoch from day at time zone 'UTC') * 1000, 'quantity', quantity::text)), '[]') as days from (
      select (h.hour at time zone 'UTC')::date as day, sum(h.events)::float8 as quantity
      from ${t('entitlements')} n
      join ${t('usage_hours')} h on h.org_id = o.id and h.product_id = n.product_id and h.livemode and h.hour >= ${first}
      where n.org_id = o.id and a.account is null group by 1
      union all
      select (at at time zone 'UTC')::date, sum(case kind when 'burn' then amount else -amount end)::float8
      from ${t('credit_entries')}
      where org_id = o.id and livemode and at >= ${first} and kind in ('burn', 'return') and a.account is not null group by 1) d`;
  return sql`
    select o.id::text as "orgId", ${timeText(sql`o.created_at`)} as "createdAt", pl.plan, u.use, a.account, coalesce(l.burned, '0') as burned, coalesce(l.pace, '0') as pace, coalesce(l.today, '0') as today,
      l.products as "paceProducts", l.first_at as "firstAt", coalesce(l.is_older, false) as "isOlder", e.last_event as "lastEvent",
      exists (${sharers(sql`o.id`, t)}) as "isSharing", d.days, (
        select ${text(sql`sum(case kind when 'burn' then amount else -amount end)`)} from ${t('credit_entries')}
        where ${withTrends} and org_id = o.id and livemode and at >= ${at(lastMonthMs)} and at < ${at(sameTimeMs)} and kind in ('burn', 'return')
      ) as "burnedBefore"
    from (select o.id, o.created_at from ${t('organizations')} o where ${t.owns(sql`o.id`)} and ${isListed(sql`o.id`)}) o
    left join lateral (
      select json_build_object('name', pl.name, 'anchor', ${sql.raw(timeJson('op.anchor'))}, 'trialEndsAt', ${sql.raw(timeJson('op.trial_ends_at'))}, 'grantedUntil', ${sql.raw(timeJson('op.granted_until'))}, 'grants', v.definition -> 'grants', 'trial', v.definition -> 'trial') as plan from ${t('organization_plans')} op join ${t('plans')} pl on pl.slug = op.plan join ${t('plan_versions')} v on v.plan = op.plan and v.version = op.version
      where op.org_id = o.id and op.ended_at is null
    ) pl on true
    left join (
      select distinct on (n.org_id) n.org_id, json_build_object('slug', p.slug, 'name', p.name, 'metric', p.usage_metric, 'used', ${text(sql`c.used`)},
        'cap', ${text(sql`c.cap`)}, 'events', coalesce(sum(t.events) over (partition by n.org_id), 0)) as use
      from (
        select t.org_id, t.product_id from ${t('usage_totals')} t
        where ${isListed(sql`t.org_id`)} and t.period = ${month}::date and t.livemode and t.quantity > 0
        union
        select e.org_id, e.product_id from ${t('entitlements')} e
        where ${isListed(sql`e.org_id`)} and e.kind = 'live' and e.starts_at <= ${at(nowMs)} and (e.ends_at is null or e.ends_at > ${at(nowMs)})
      ) n
      join ${t('products')} p on p.id = n.product_id and p.usage_metric <> ${NO_METRIC}
      left join ${t('usage_totals')} t on t.org_id = n.org_id and t.period = ${month}::date and t.livemode and t.product_id = n.product_id
        and t.metric = p.usage_metric
      left join ${t('entitlements')} e on e.org_id = n.org_id and e.product_id = p.id and p.archived_at is null
      cross join lateral (
        select coalesce(t.quantity, 0) as used, case when e.org_id is not null then ${cap} end as cap
      ) c
      order by n.org_id, case when c.cap = 0 then sign(c.used) * 1e30 else c.used / c.cap end desc nulls last, c.used desc, p.slug
    ) u on u.org_id = o.id
    left join lateral (
      select ${burnJson('f')} as account from ${t('credit_accounts')} a
      cross join lateral gauge_burn(${sql.raw(accountOf('a'))}, '{}', '{}', '{}', ${at(nowMs)}) f
      where a.org_id = o.id and a.livemode limit 1
    ) a on true
    left join lateral (
      select ${text(sql`sum(month)`)} as burned, ${text(sql`sum(week)`)} as pace, ${text(sql`sum(today)`)} as today, json_agg(product_id) filter (where first_at is not null) as products,
        ${timeText(sql`min(first_at)`)} as first_at,
        (select at from ${t('credit_entries')} where org_id = o.id and livemode and at < ${at(from)} and kind = 'burn'
          order by at desc limit 1) is not null as is_older
      from (
        select product_id, sum(credits) filter (where at >= ${at(monthMs)}) as month, sum(credits) filter (where at >= ${at(from)}) as week, sum(credits) filter (where at >= ${at(today)}) as today,
          min(at) filter (where at >= ${at(from)}) as first_at
        from (
          select product_id, at, case kind when 'burn' then amount else -amount end as credits from ${t('credit_entries')}
          where org_id = o.id and livemode and at >= ${at(Math.min(monthMs, from.getTime()))} and at < ${at(nowMs + 1)} and kind in ('burn', 'return')
        ) e
        group by 1
      ) e
    ) l on a.account is not null
    left join lateral (
      select ${timeText(sql`max(e.occurred_at)`)} as last_event from ${t('entitlements')} n
      cross join lateral (
        select occurred_at from ${t('usage_events')}
        where org_id = o.id and product_id = n.product_id and livemode order by occurred_at desc limit 1
      ) e
      where n.org_id = o.id
    ) e on true
    left join lateral (${withTrends ? days : sql`select null::json as days`}) d on true`;
}

/** The same Stripe customer pays for their usage. */
const sharers = (orgId: SQL, t: GroupTables = wholeTables): SQL =>
  sql`select other.slug, other.name from ${t('organizations')} own
    join ${t('organizations')} other on other.stripe_customer_id = own.stripe_customer_id and other.id <> own.id
    where own.id = ${orgId}`;

function toFacts(row: FactsRow, fullest: FullestLimit | undefined, now: Date): CustomerFacts {
  const { use, burned, lastEvent, days } = row;
  const plan = row.plan?.name;
  const caps = toCaps(use, fullest);
  const tightest = caps.toSorted((a, b) => b.share - a.share)[0];
  const share = tightest && toKey(tightest);
  const credits = toCredits(row, now);
  const last = lastEvent === null ? undefined : new Date(lastEvent);
  const trial = row.plan?.trialEndsAt ? toTrial(new Date(row.plan.trialEndsAt), now) : undefined;
  const silentSince = now.getTime() - SILENT_DAYS * DAY_MS;
  const isSilent = use !== null && (last ?? new Date(row.createdAt)).getTime() <= silentSince;
  const isSoon = credits?.end !== undefined && credits.end.getTime() - now.getTime() < SOON_DAYS * DAY_MS;
  const signals = {
    credits: credits?.isOut,
    soon: isSoon,
    near: caps.some(({ isNear, isOver }) => isNear || isOver),
    over: caps.some(({ isOver }) => isOver),
    trial: trial?.isSoon,
    silent: isSilent,
    stripe: row.isSharing,
  };
  return {
    keys: {
      plan: plan?.toLowerCase(),
      // Customers that burn no credits come below, by their events.
      month: Number(burned) || -1 / (1 + (credits ? 0 : (use?.events ?? 0))),
      share,
      left: credits && Number(credits.balance),
      end: credits?.isOut
        ? 0
        : (credits?.end?.getTime() ?? (credits?.isCovered || credits?.isLater ? Infinity : undefined)),
      last: last?.getTime(),
    },
    signals: Object.entries(signals).flatMap(([id, isMet]) => (isMet ? [id] : [])),
    degree: share !== undefined && signals.near ? share / (1 + share) : 0,
    words: plan,
    flags: [
      ...toFlag('bad', credits?.isOut, 'Out of credits', '/credits'),
      ...toFlag('bad', isSoon && !credits?.isOut, 'Credits run out soon', '/credits'),
      ...toFlag('warn', row.isSharing, 'Shared Stripe customer', '/settings'),
      ...caps.flatMap(({ isOver, isNear, kind, slug }) => [
        ...toFlag('bad', isOver, `Over a ${kind}`, `/entitlement?product=${slug}`),
        ...toFlag('warn', isNear, `Near a ${kind}`, `/entitlement?product=${slug}`),
      ]),
      ...toFlag('warn', trial?.isSoon, trial?.flag ?? '', '/plan'),
      ...toFlag('warn', isSilent && last, last ? `No events for ${daysOf(last, now)} days` : '', '/keys'),
      ...toFlag('info', use && !last, 'No events yet', '/keys'),
    ],
    latest: { label: 'Last event', at: last },
    cells: [
      plan ?? null,
      credits ? new ExactNumber(burned) : null,
      use?.events ?? 0,
      ...['cap', 'limit'].flatMap((kind) => {
        const own = caps.find((one) => one.kind === kind);
        return own ? [toKey(own), own.slug] : [null, null];
      }),
      credits ? new ExactNumber(credits.balance) : null,
      credits?.end ?? null,
      last ?? null,
    ],
    data: {
      plan,
      trial,
      use,
      share,
      percent: tightest && formatShare(tightest.used, tightest.unitCap),
      tightest,
      burned,
      growth: formatGrowth(burned, row.burnedBefore ?? '0'),
      isEarly: now.getUTCDate() === 1,
      burnedBefore: row.burnedBefore,
      when: `at this point of ${formatMonth(addMonths(now, -1))}`,
      credits,
      isSoon,
      last,
      trend: days && toUseTrend(credits ? 'Credits' : 'Events', days, lastDays(now)),
    },
  };
}

function toCaps(use: FactsRow['use'], limit: FullestLimit | undefined) {
  const cap = use && toCap({ unitCap: use.cap, usedThisMonth: use.used });
  const ofLimit = limit && toCap({ unitCap: limit.quantity, usedThisMonth: limit.used })!;
  const name = limit && `${limit.subject ?? limit.name}, ${inSentence(nameWindow(limit.window))}`;
  return [
    ...(cap ? [{ ...cap, kind: 'cap', slug: use.slug, name: use.name }] : []),
    ...(ofLimit ? [{ ...ofLimit, kind: 'limit', slug: limit.slug, name }] : []),
  ];
}

const toKey = ({ share }: { share: number }): number => (share === Infinity ? 1 : share);

const daysOf = (from: Date, to: Date): number => Math.floor((to.getTime() - from.getTime()) / DAY_MS);

function toTrial(endsAt: Date, now: Date) {
  const days = Math.ceil((endsAt.getTime() - now.getTime()) / DAY_MS);
  if (days <= 0) return { endsAt, isSoon: true, note: 'Trial over', flag: 'Trial over' };
  const left = formatCount(days, 'day');
  return { endsAt, isSoon: days <= SOON_DAYS, note: `Trial, ${left} left`, flag: 'Trial ends soon' };
}

/** Undefined without an account of credits. */
function toCredits(
  { plan, account: burnt, pace, today, paceProducts, firstAt, isOlder }: FactsRow,
  now: Date,
) {
  if (!burnt) return undefined;
  const { account } = toBurnt(burnt, now);
  const nowMs = now.getTime();
  const grants = account.grants.map(({ rest, startsMs, endsMs, rollDays, scope }): ProjectedGrant => ({
    status: endsMs <= nowMs ? 'expired' : startsMs > nowMs ? 'scheduled' : 'open',
    remaining: rest,
    startsAt: new Date(startsMs).toISOString(),
    expiresAt: endsMs === Infinity ? null : new Date(endsMs).toISOString(),
    rolloverDays: rollDays,
    productSlugs: scope === '' ? null : scope.split(' '),
  }));
  const { overdrafts } = account;
  const balance = balanceOf(account, now);
  const products = (paceProducts ?? []).map((slug) => ({ slug }));
  const refills =
    plan &&
    listRefills({
      definition: plan,
      anchor: new Date(plan.anchor),
      trialEndsAt: plan.trialEndsAt === null ? null : new Date(plan.trialEndsAt),
      grantedUntil: new Date(plan.grantedUntil),
    });
  const projection = project(
    { balance, overdrafts, grants },
    refills ?? undefined,
    { quantity: pace, today, products, firstAt, isOlder },
    now,
  );
  return {
    balance,
    /** Overdrawn, or burned credits in the last days and has none left. */
    isOut: overdrafts.length > 0 || (balance === '0' && firstAt !== null),
    end: projection?.end,
    isCovered: projection?.isCovered,
    ...(projection && toPace(projection)),
    isLater: projection !== undefined && projection.end === undefined,
  };
}

/** How many credits are burned in a day, and those that begin before the end. */
function toPace({ isCovered, refill, perDay }: NonNullable<ReturnType<typeof project>>) {
  const next = refill && `${formatDecimal(refill.amount)} on ${formatShortDay(refill.at)}`;
  return { pace: `${formatRounded(perDay)} a day`, refill: next && (isCovered ? next : `with ${next}`) };
}

const PANEL_PRODUCTS = 8;

/** Nearest to the cap first, with 30 days of usage, and the latest problem with Stripe. */
async function readUsePanel({ db, clock }: Pick<Context, 'db' | 'clock'>, orgId: string) {
  const now = new Date(clock.now());
  const live = { orgId, livemode: true };
  const inEffect = await listCurrentUse(db.orm, orgId, { now, livemode: true, limit: PANEL_PRODUCTS + 1 });
  const shown = inEffect.slice(0, PANEL_PRODUCTS);
  const productIds = shown.map(({ productId }) => productId);
  const limits = await readLimitViews(
    db,
    shown.map(({ productId, usageMetric: metric }) => ({ ...live, productId, metric })),
    now.getTime(),
  );
  const perSubject = await readSubjectLimits(db, live, shown, now.getTime());
  const { events } = await readEventPage(db.orm, { ...live, productIds }, { limit: 5 });
  const days = await readProductSums(db.orm, orgId, { productIds, livemode: true, ...lastDays(now) });
  const trends = toUseTrends(days, shown, now);
  return {
    stripeProblem: await findStripeProblem(db.orm, 'org_id', orgId),
    sharers: await queryRows(db.orm)`
      ${sharers(sql`${orgId}::uuid`)} order by other.slug limit 5`,
    month: now,
    monthEnd: new Date(monthRange(monthOf(now.getTime())).end),
    events: events.map(toEventView),
    hasMoreProducts: inEffect.length > PANEL_PRODUCTS,
    products: shown.map((product, i) => ({
      ...product,
      cap: toCap(product),
      limits: limits[i]!,
      perSubject: perSubject[i]!,
      trend: trends[i]!,
    })),
  };
}
