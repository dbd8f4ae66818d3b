import { and, eq, inArray, sql, type SQL } from 'drizzle-orm';
import {
  addRows,
  columnArrays,
  queryRow,
  queryRows,
  selectRow,
  selectRows,
  storeRows,
  textArray,
  timeJson,
  timeText,
} from '../../core/db/sql.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { toPlain } from '../../core/decimal.js';
import { accountOf, accountTypes } from '../credits/statements.js';
import { creditAccounts, creditGrants, type CreditEntryKind } from '../credits/table.js';
import { emptyAccount, type Account, type Entry, type HeldGrant } from './account.js';

/** Every statement names the account, so it runs on one shard. */
export interface AccountId {
  orgId: string;
  livemode: boolean;
}

export const ownRows = (row: string, { orgId, livemode }: AccountId): SQL =>
  sql`${sql.raw(row)}.org_id = ${orgId}::uuid and ${sql.raw(row)}.livemode = ${livemode}`;

/** One item per grant, overdraft or entry; null instead of an empty array. */
type Arrays<Name extends string> = Record<Name, string[] | null>;
type AccountArrays = Arrays<'grants' | 'rests' | 'starts' | 'ends' | 'scopes' | 'debtors' | 'debts'> &
  Record<'priorities' | 'percents' | 'days', number[]>;
export type BurnArrays = AccountArrays & Arrays<'kinds' | 'from' | 'for' | 'hours' | 'took'>;

const accountJson = (row: string): string =>
  `'grants', ${row}.grants, 'rests', ${row}.rests::text[], 'starts', ${row}.starts, 'ends', ${row}.ends, 'scopes', ${row}.scopes,
    'priorities', ${row}.priorities, 'percents', ${row}.roll_percents, 'days', ${row}.roll_days, 'debtors', ${row}.debtors, 'debts', ${row}.debts::text[]`;
export const burnJson = (row: string): SQL =>
  sql.raw(`json_build_object(${accountJson(row)}, 'kinds', ${row}.took_kinds, 'from', ${row}.took_from, 'for', ${row}.took_for,
    'hours', ${row}.took_hours, 'took', ${row}.took::text[])`);

const toMs = (time: string): number => (time === 'infinity' ? Infinity : Date.parse(time));
const toTime = (ms: number): string => (ms === Infinity ? 'infinity' : new Date(ms).toISOString());

const toAccount = (one: AccountArrays): Account => ({
  grants: (one.grants ?? []).map((id, i) => ({
    id,
    rest: toPlain(one.rests![i]!),
    startsMs: toMs(one.starts![i]!),
    endsMs: toMs(one.ends![i]!),
    scope: one.scopes![i]!,
    priority: one.priorities[i]!,
    rollPercent: one.percents[i]!,
    rollDays: one.days[i]!,
  })),
  overdrafts: (one.debtors ?? []).map((productId, i) => ({ productId, amount: toPlain(one.debts![i]!) })),
});

/** After `gauge_burn`, with the entries to write. */
export interface Burnt {
  account: Account;
  entries: Entry[];
}

export const toBurnt = (one: BurnArrays, at: Date): Burnt => ({
  account: toAccount(one),
  entries: (one.kinds ?? []).map((kind, i) => ({
    kind: kind as CreditEntryKind,
    grantId: one.from![i]!,
    productId: one.for![i]!,
    at: at.toISOString(),
    hour: new Date(one.hours![i]!).toISOString(),
    amount: toPlain(one.took![i]!),
  })),
});

/** In the order of `accountTypes`. */
const columnsOf = ({ grants, overdrafts }: Account) => ({
  grants: grants.map(({ id }) => id),
  rests: grants.map(({ rest }) => rest),
  starts: grants.map(({ startsMs }) => toTime(startsMs)),
  ends: grants.map(({ endsMs }) => toTime(endsMs)),
  scopes: grants.map(({ scope }) => scope),
  priorities: grants.map(({ priority }) => String(priority)),
  rollPercents: grants.map(({ rollPercent }) => String(rollPercent)),
  rollDays: grants.map(({ rollDays }) => String(rollDays)),
  debtors: overdrafts.map(({ productId }) => productId),
  debts: overdrafts.map(({ amount }) => amount),
});

/** In order of id. By Organization. Take all locks on sums before calling this. */
export async function lockAccounts(tx: Tx, orgIds: readonly string[], livemode: boolean) {
  const ids = [...new Set(orgIds)].toSorted();
  // A sharded database could not lock rows of several groups by `for update`.
  const accounts = ids.map((orgId) => ({ orgId, livemode }));
  const onConflict = sql`on conflict (org_id, livemode) do update set reached = credit_accounts.reached`;
  await addRows(tx, creditAccounts, accounts, { onConflict });
  const rows = await queryRows(tx)<{ orgId: string; account: AccountArrays }>`
    select a.org_id::text as "orgId", ${sql.raw(`json_build_object(${accountJson('a')})`)} as account
    from credit_accounts a where a.org_id = any (${textArray(ids)}::uuid[]) and a.livemode = ${livemode}`;
  return new Map(rows.map(({ orgId, account }) => [orgId, toAccount(account)]));
}

export const lockAccount = async (tx: Tx, { orgId, livemode }: AccountId): Promise<Account> =>
  (await lockAccounts(tx, [orgId], livemode)).get(orgId)!;

/** The hour is that of the usage, RFC 3339. */
export type Demand = Record<'productId' | 'hour' | 'credits', string>;

/** Writes nothing. */
export async function burn(tx: Orm, account: Account, at: Date, demands: readonly Demand[] = []) {
  const types = Object.values(accountTypes);
  const columns = Object.values(columnsOf(account)).map(
    (values, i) => sql`${textArray(values)}::${sql.raw(types[i]!)}`,
  );
  const [productIds, hours, credits] = columnArrays(demands, 'productId', 'hour', 'credits');
  const row = await queryRow(tx)<{ burnt: BurnArrays }>`
    select ${burnJson('f')} as burnt from gauge_burn(${sql.join(columns, sql`, `)}, ${productIds}::uuid[],
      ${hours}::timestamptz[], ${credits}::numeric[], ${at.toISOString()}::timestamptz) f`;
  return toBurnt(row!.burnt, at);
}

/** With the entries to write. */
export type ChangedAccount = AccountId & Burnt;

/** Entries with the same key are added up. */
export async function writeAccounts(tx: Tx, changed: readonly ChangedAccount[]): Promise<void> {
  const accounts = changed.map(({ orgId, livemode, account }) => ({
    orgId,
    livemode,
    ...columnsOf(account),
  }));
  await storeRows(tx, creditAccounts, [creditAccounts.orgId, creditAccounts.livemode], accounts);
  const entries = changed.flatMap(({ orgId, livemode, entries: own }) =>
    own.map((entry) => ({ orgId, livemode, ...entry })),
  );
  if (entries.length === 0) return;
  await tx.execute(sql`insert into credit_entries as e (org_id, livemode, product_id, at, hour, grant_id, kind, amount)
    select "orgId", livemode, "productId", at, hour, "grantId", kind, sum(amount)
    from json_to_recordset(${JSON.stringify(entries)}::json)
      as x ("orgId" uuid, livemode bool, "productId" uuid, at timestamptz, hour timestamptz, "grantId" uuid, kind text, amount numeric)
    group by 1, 2, 3, 4, 5, 6, 7
    order by 1, 2, 3, 4, 5, 6, 7
    on conflict (org_id, livemode, product_id, at, hour, grant_id, kind) do update set amount = e.amount + excluded.amount`);
}

export const writeAccount = (tx: Tx, id: AccountId, account: Account, entries: readonly Entry[]) =>
  writeAccounts(tx, [{ ...id, account, entries: [...entries] }]);

/** As created, with the sums of its ledger entries. */
export interface GrantRow extends Omit<
  typeof creditGrants.$inferSelect,
  'orgId' | 'productIds' | 'actor' | 'startsAt' | 'expiresAt' | 'createdAt' | 'voidedAt'
> {
  /** Times are RFC 3339 in UTC. */
  startsAt: string;
  expiresAt: string | null;
  createdAt: string;
  voidedAt: string | null;
  /** Null if the grant pays for every product. */
  productSlugs: string[] | null;
  /** Expired or forfeited. */
  lost: string;
  hasRolled: boolean;
  /** When some of the grant's credits last expired. */
  lastExpiry: string | null;
  /** Product ids separated by spaces; '' for every product. */
  scope: string;
}

export const selectGrants = (
  id: AccountId,
  where: SQL,
): SQL => sql`select json_build_object('id', g.id, 'grantKey', g.grant_key,
      'amount', trim_scale(g.amount)::text, 'priority', g.priority, 'startsAt', ${sql.raw(timeJson('g.starts_at'))},
      'expiresAt', ${sql.raw(timeJson('g.expires_at'))}, 'productSlugs', (select json_agg(slug order by slug) from products where id = any (g.product_ids)),
      'rolloverPercent', g.rollover_percent, 'rolloverDays', g.rollover_days, 'livemode', g.livemode, 'reason', g.reason,
      'createdAt', ${sql.raw(timeJson('g.created_at'))}, 'voidedAt', ${sql.raw(timeJson('g.voided_at'))}, 'voidReason', g.void_reason,
      'request', g.request, 'lost', c.lost, 'hasRolled', c.has_rolled, 'lastExpiry', c.last_expiry, 'scope', coalesce(array_to_string(g.product_ids, ' '), '')) as row
    from credit_grants g
    cross join lateral (
      select trim_scale(coalesce(sum(amount) filter (where kind <> 'roll'), 0))::text as lost,
        coalesce(bool_or(kind = 'roll'), false) as has_rolled,
        ${sql.raw(timeJson(`max(hour) filter (where kind = 'expire')`))} as last_expiry
      from credit_entries e
      where ${ownRows('e', id)} and e.grant_id = g.id and kind in ('expire', 'roll', 'void')
    ) c
    where ${ownRows('g', id)} and ${where}`;

export const findGrant = async (orm: Orm, id: AccountId, grantKey: string): Promise<GrantRow | undefined> =>
  (await selectRow<{ row: GrantRow }>(orm, selectGrants(id, sql`g.grant_key = ${grantKey}`)))?.row;

export const insertGrant = (tx: Tx, grant: typeof creditGrants.$inferInsert): Promise<unknown> =>
  tx.insert(creditGrants).values(grant);

/** @param isKeyFree later grants can then have their keys */
export async function setVoided(
  tx: Tx,
  grants: readonly { orgId: string; id: string }[],
  livemode: boolean,
  { reason, at, isKeyFree = false }: { reason: string; at: Date; isKeyFree?: boolean },
) {
  const orgIds = [...new Set(grants.map(({ orgId }) => orgId))];
  const ids = grants.map(({ id }) => id);
  await tx
    .update(creditGrants)
    .set({
      voidedAt: at,
      voidReason: reason,
      ...(isKeyFree && { grantKey: sql`${creditGrants.grantKey} || ' voided ' || ${creditGrants.id}::text` }),
    })
    .where(
      and(
        inArray(creditGrants.orgId, orgIds),
        eq(creditGrants.livemode, livemode),
        inArray(creditGrants.id, ids),
      ),
    );
}

export const listProductIds = async (orm: Orm, slugs: readonly string[]): Promise<Map<string, string>> => {
  const rows = await queryRows(orm)<{ slug: string; id: string }>`
    select slug, id::text from products where slug = any (${textArray(slugs)}::text[])`;
  return new Map(rows.map(({ slug, id }) => [slug, id]));
};

/** The full granted amount remains. */
export const toHeldGrant = (row: GrantRow): HeldGrant => ({
  id: row.id,
  rest: row.amount,
  startsMs: Date.parse(row.startsAt),
  endsMs: toMs(row.expiresAt ?? 'infinity'),
  scope: row.scope,
  priority: row.priority,
  rollPercent: row.rolloverPercent ?? 0,
  rollDays: row.rolloverDays ?? 0,
});

/** With its own grants and the newest others. */
export const selectAccount = (id: AccountId, at: Date, others: number): SQL =>
  sql`select ${burnJson('f')} as burnt,
    (select json_object_agg(id, json_build_object('slug', slug, 'name', name)) from products where id = any (f.debtors)) as debtors,
    (select json_agg(k.row) from (${selectGrants(id, sql`g.id = any (f.grants)`)}) k) as kept,
    (select json_agg(k.row) from (${selectGrants(id, sql`g.id <> all (f.grants) order by g.id desc limit ${others}`)}) k) as others
  from credit_accounts a
  cross join lateral gauge_burn(${sql.raw(accountOf('a'))}, '{}', '{}', '{}', ${at.toISOString()}::timestamptz) f
  where ${ownRows('a', id)}`;

export interface AccountRead extends Burnt {
  /** By id; these have an overdraft. */
  debtors: Record<string, { slug: string; name: string }>;
  grants: GrantRow[];
}

export async function readAccount(orm: Orm, id: AccountId, at: Date, others: number): Promise<AccountRead> {
  const row = await selectRow<{
    burnt: BurnArrays;
    debtors: AccountRead['debtors'] | null;
    kept: GrantRow[] | null;
    others: GrantRow[] | null;
  }>(orm, selectAccount(id, at, others));
  if (!row) return { account: emptyAccount, entries: [], debtors: {}, grants: [] };
  return {
    ...toBurnt(row.burnt, at),
    debtors: row.debtors ?? {},
    grants: [...(row.kept ?? []), ...(row.others ?? [])],
  };
}

export const selectHeld = (id: AccountId, at: Date): SQL =>
  sql`select trim_scale(coalesce(sum(quantity * credit_price), 0))::text as held from usage_reservations r
  where ${ownRows('r', id)} and expires_at > ${at.toISOString()}::timestamptz and settled_at is null and released_at is null and credit_price > 0`;

export const readHeld = async (orm: Orm, id: AccountId, at: Date): Promise<string> =>
  (await selectRow<{ held: string }>(orm, selectHeld(id, at)))!.held;

/** Identifies an entry within an account. Times have microseconds. */
export type EntryPosition = Omit<Entry, 'amount'>;

export interface EntryRow
  extends Entry, Record<'productSlug' | 'productName' | 'grantKey' | 'grantReason', string | null> {
  isMatch: boolean;
  /** The search did not examine older entries. */
  isLastScanned: boolean;
}

export interface EntryFilter {
  productSlug?: string | undefined;
  grantKey?: string | undefined;
  kind?: CreditEntryKind | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Per page, if no index supports the filter. */
const SCAN = 5_000;

const newestFirst = sql`at desc, product_id desc, hour desc, grant_id desc, kind desc`;

const isWithin = (id: AccountId, { productSlug, from, to }: EntryFilter) =>
  and(
    ownRows('e', id),
    productSlug === undefined
      ? undefined
      : sql`e.product_id = (select id from products where slug = ${productSlug})`,
    from === undefined ? undefined : sql`e.at >= ${from}::timestamptz`,
    to === undefined ? undefined : sql`e.at < ${to}::timestamptz`,
  );

const isMatch = (id: AccountId, { grantKey, kind }: EntryFilter) =>
  and(
    sql`true`,
    grantKey === undefined
      ? undefined
      : sql`e.grant_id = (select id from credit_grants g where ${ownRows('g', id)} and grant_key = ${grantKey})`,
    kind === undefined ? undefined : sql`e.kind = ${kind}`,
  );

/** Key of the event whose credits came back with the entry; empty if it was not one event. */
const correctedEvent = ({ orgId }: AccountId, entry: SQL) => sql`(
  select coalesce(min(c.idempotency_key), '') from (
    select idempotency_key, occurred_at from usage_corrections where org_id = ${orgId}::uuid and product_id = ${entry}.product_id
      and occurred_at >= ${entry}.hour and occurred_at < ${entry}.hour + interval '1 hour' limit 100
  ) c join usage_events v on v.org_id = ${orgId}::uuid and v.idempotency_key = c.idempotency_key and v.received_at = ${entry}.at
  where ${entry}.kind = 'return' having count(distinct c.idempotency_key) = 1)`;

export function selectEntries(
  id: AccountId,
  { productSlug, grantKey, kind, from, to }: EntryFilter,
  { after, limit }: { after: EntryPosition | undefined; limit: number },
): SQL {
  const isSearch = grantKey !== undefined || kind !== undefined;
  const scan = isSearch ? SCAN : limit + 1;
  const conditions = and(
    isWithin(id, { productSlug, from, to }),
    // Redundant, but lets Postgres use the index.
    after &&
      sql`e.at <= ${after.at}::timestamptz and (e.at, e.product_id, e.hour, e.grant_id, e.kind)
        < (${after.at}::timestamptz, ${after.productId}::uuid, ${after.hour}::timestamptz, ${after.grantId}::uuid, ${after.kind})`,
  );
  return sql`select ${timeText(sql`m.at`)} as at, m.product_id::text as "productId", ${timeText(sql`m.hour`)} as hour, m.grant_id::text as "grantId", m.kind,
    p.slug as "productSlug", p.name as "productName", g.grant_key as "grantKey", g.reason as "grantReason", trim_scale(m.amount)::text as amount, ${correctedEvent(id, sql`m`)} as event, m.is_match as "isMatch", m.place = ${scan} as "isLastScanned"
  from (
    select e.*, ${isMatch(id, { grantKey, kind })} as is_match, row_number() over (order by ${newestFirst}) as place
    from (select * from credit_entries e where ${conditions} order by ${newestFirst} limit ${scan}) e
  ) m
  left join products p on p.id = m.product_id
  left join credit_grants g on ${ownRows('g', id)} and g.id = m.grant_id
  where m.is_match or m.place = ${scan}
  order by m.place limit ${limit + 1}`;
}

export const listEntries = (
  orm: Orm,
  id: AccountId,
  filter: EntryFilter,
  range: { after: EntryPosition | undefined; limit: number },
): Promise<EntryRow[]> => selectRows(orm, selectEntries(id, filter, range));

/** The newest days (UTC) with matching entries, found by one step in the index each, and their sums by kind, product and grant. */
export const selectEntryDays = (id: AccountId, filter: EntryFilter, days: number): SQL => {
  const rows = sql`credit_entries e where ${isWithin(id, filter)} and ${isMatch(id, filter)}`;
  return sql`with recursive found (day, place) as (
    (select date_trunc('day', e.at, 'UTC'), 1 from ${rows} order by e.at desc limit 1)
    union all
    select (select date_trunc('day', e.at, 'UTC') from ${rows} and e.at < found.day order by e.at desc limit 1), place + 1
    from found where found.day is not null and place < ${days}
  )
  select ${timeText(sql`d.day`)} as day, ${timeText(sql`s.at`)} as at, ${timeText(sql`s.hour`)} as hour, s.kind, s.count,
    p.slug as "productSlug", p.name as "productName", g.grant_key as "grantKey", g.reason as "grantReason", trim_scale(s.amount)::text as amount,
    case when s.count = 1 then ${correctedEvent(id, sql`s`)} else '' end as event
  from found d
  cross join lateral (
    select e.kind, e.product_id, e.grant_id, count(*)::int as count, max(e.at) as at, max(e.hour) as hour, sum(e.amount) as amount
    from ${rows} and e.at >= d.day and e.at < d.day + interval '24 hours'
    group by 1, 2, 3
  ) s
  left join products p on p.id = s.product_id
  left join credit_grants g on ${ownRows('g', id)} and g.id = s.grant_id
  order by s.at desc, s.amount desc`;
};
