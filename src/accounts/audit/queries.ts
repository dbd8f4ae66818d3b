import { and, desc, eq, gte, inArray, lt, notInArray, or, sql, type SQL } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Orm, Tx } from '../../core/db/client.js';
import { addRows, storeRows, textArray, queryRows, matches } from '../../core/db/sql.js';
import { firstIdOf } from '../../core/ids.js';
import { DAY_MS } from '../../core/time.js';
import { memberships, organizations, users } from '../organizations/table.js';
import { genesisHash, OPERATOR_CHAIN } from './chain.js';
import type { AuditFilter } from './filter.js';
import { auditChains, auditLog, byOperators, operatorChain, operatorLog } from './table.js';

export type ChainEnd = Pick<typeof auditChains.$inferSelect, 'seq' | 'hash'>;
type LinkedRow = typeof operatorLog.$inferInsert & ChainEnd;

/** Creates a missing end in the same statement, so that two transactions cannot both begin the chain. */
export async function lockOperatorChain(tx: Tx): Promise<ChainEnd> {
  const [end] = await tx
    .insert(operatorChain)
    .values({ seq: 0, hash: genesisHash(OPERATOR_CHAIN) })
    .onConflictDoUpdate({ target: operatorChain.id, set: { seq: sql`${operatorChain.seq}` } })
    .returning();
  return end!;
}

/** In order of id. By Organization. */
export async function lockChains(tx: Tx, orgIds: readonly string[]): Promise<Map<string, ChainEnd>> {
  const firsts = [...new Set(orgIds)]
    .toSorted()
    .map((orgId) => ({ orgId, seq: 0, hash: genesisHash(orgId) }));
  const onConflict = sql`on conflict (org_id) do update set seq = audit_chains.seq
    returning org_id::text as "orgId", seq::float8 as seq, hash`;
  const ends = await addRows<ChainEnd & { orgId: string }>(tx, auditChains, firsts, { onConflict });
  return new Map(ends.map((end) => [end.orgId, end]));
}

export async function insertOperatorRow(tx: Tx, row: LinkedRow): Promise<void> {
  await tx.insert(operatorLog).values(row);
  await tx.update(operatorChain).set({ seq: row.seq, hash: row.hash });
}

export async function insertRows(tx: Tx, rows: readonly (LinkedRow & { orgId: string })[]): Promise<void> {
  await addRows(tx, auditLog, rows);
  const ends = new Map(rows.map(({ orgId, seq, hash }) => [orgId, { orgId, seq, hash }]));
  await storeRows(tx, auditChains, [auditChains.orgId], [...ends.values()]);
}

export type AuditRow = typeof auditLog.$inferSelect;

/**
 * Newest first. Ids begin with a timestamp, so they sort chronologically.
 * @param without beginnings of an action, a space and a target
 * @param isLive leaves out what is for tests
 */
export function listAuditRows(
  orm: Orm,
  orgId: string,
  filter: Omit<AuditFilter, 'object'>,
  {
    before,
    limit,
    without,
    isLive,
  }: { before?: string | undefined; limit: number; without?: readonly string[]; isLive?: boolean },
): Promise<AuditRow[]> {
  return orm
    .select()
    .from(auditLog)
    .where(
      and(
        isListed(orgId, filter, before),
        isLive ? sql`${auditLog.details} ->> 'livemode' is distinct from 'false'` : undefined,
        without &&
          sql`not (${auditLog.action} || ' ' || ${auditLog.target}) ^@ any (${textArray(without)}::text[])`,
      ),
    )
    .orderBy(desc(auditLog.id))
    .limit(limit);
}

const isListed = (
  orgId: string,
  { action, actor, from, to }: Omit<AuditFilter, 'object'>,
  before: string | undefined,
) =>
  and(
    eq(auditLog.orgId, orgId),
    action === undefined ? undefined : eq(auditLog.action, action),
    actor === undefined ? undefined : eq(auditLog.actor, actor),
    isWithin(auditLog.id, from, to, before),
  );

interface SearchRange {
  before: string | undefined;
  limit: number;
  /** A search with few matches must not scan the whole log. */
  scan: number;
}

/** `object` must occur in the target or a detail. `searchedTo` is the oldest entry examined; undefined at the end. */
export async function searchAuditRows(
  orm: Orm,
  orgId: string,
  { object, ...filter }: AuditFilter & { object: string },
  { before, limit, scan }: SearchRange,
): Promise<{ rows: AuditRow[]; searchedTo: AuditRow | undefined }> {
  const where = isListed(orgId, filter, before);
  const newest = desc(auditLog.id);
  const scanned = orm.select().from(auditLog).where(where).orderBy(newest).limit(scan).as('scanned');
  const isIn = (value: SQL | PgColumn) => sql`strpos(lower(${value}), lower(${object})) > 0`;
  const value = sql`value #>> '{}'`;
  const rows = await orm
    .select()
    .from(scanned)
    .where(
      sql`${isIn(sql`${scanned.target}`)} or exists (
        select from jsonb_path_query(${scanned.details}, 'strict $.**') as value where jsonb_typeof(value) not in ('object', 'array') and ${isIn(value)})`,
    )
    .orderBy(desc(scanned.id))
    .limit(limit);
  const [last] = await orm
    .select()
    .from(auditLog)
    .where(where)
    .orderBy(newest)
    .offset(scan - 1)
    .limit(1);
  return { rows, searchedTo: last };
}

export type OperatorRow = typeof operatorLog.$inferSelect;

type OperatorFilter = Pick<AuditFilter, 'action' | 'from' | 'to'> & {
  actors?: readonly string[] | undefined;
  without?: readonly string[] | undefined;
};

interface OperatorRange {
  before?: string | undefined;
  limit: number;
}

export const listOperatorRows = (
  orm: Orm,
  { from, to, ...filter }: OperatorFilter,
  { before, limit }: OperatorRange,
): Promise<OperatorRow[]> =>
  orm
    .select()
    .from(operatorLog)
    .where(and(isChosen(operatorLog, filter), isWithin(operatorLog.id, from, to, before)))
    .orderBy(desc(operatorLog.id))
    .limit(limit);

/** A filter with few matches must not scan the whole log. */
const MAX_SCANNED = 5_000;

/** Changes to any Organization, among the newest by operators in the period. */
export async function listOperatorChanges(
  orm: Orm,
  { organization, from, to, ...filter }: OperatorFilter & Pick<AuditFilter, 'organization'>,
  { before, limit }: OperatorRange,
) {
  const where = and(byOperators(auditLog.actor), isWithin(auditLog.id, from, to, before));
  const newest = desc(auditLog.id);
  const scanned = orm.select().from(auditLog).where(where).orderBy(newest).limit(MAX_SCANNED).as('scanned');
  const { slug } = organizations;
  const rows = await orm
    .select()
    .from(scanned)
    .innerJoin(organizations, eq(organizations.id, scanned.orgId))
    .where(and(isChosen(scanned, filter), organization === undefined ? undefined : eq(slug, organization)))
    .orderBy(desc(scanned.id))
    .limit(limit);
  return rows.map(({ scanned: row, organizations: customer }) => ({ ...row, customer }));
}

const isChosen = (
  columns: Record<'action' | 'actor', PgColumn>,
  { action, actors, without }: Omit<OperatorFilter, 'from' | 'to'>,
) =>
  and(
    action === undefined ? undefined : eq(columns.action, action),
    actors && inArray(columns.actor, [...actors]),
    without && notInArray(columns.action, [...without]),
  );

const isWithin = (id: PgColumn, from?: string, to?: string, before?: string) =>
  and(
    from === undefined ? undefined : gte(id, firstIdOf(Date.parse(from))),
    to === undefined ? undefined : lt(id, firstIdOf(Date.parse(to) + DAY_MS)),
    before === undefined ? undefined : lt(id, before),
  );

/** One index lookup per distinct value, so the cost does not grow with the log. */
export const listDistinct = (orm: Orm, orgId: string, column: 'action' | 'actor', limit: number) =>
  walkDistinct(orm, sql`audit_log where org_id = ${orgId}`, column, limit);

export const listOperatorActions = (orm: Orm, limit: number) =>
  walkDistinct(orm, sql`operator_log where true`, 'action', limit);

async function walkDistinct(orm: Orm, rows: SQL, column: 'action' | 'actor', limit: number) {
  const name = sql.identifier(column);
  const found = await queryRows(orm)<{ value: string }>`with recursive found (value) as (
      (select ${name} from ${rows} order by ${name} limit 1)
      union all
      select (select ${name} from ${rows} and ${name} > found.value order by ${name} limit 1)
      from found where found.value is not null
    )
    select value from found where value is not null limit ${limit}`;
  return found.map(({ value }) => value);
}

/** `role` is null for people who have left. */
export function findPeople(orm: Orm, orgId: string, userIds: string[]) {
  return orm
    .select({ id: users.id, name: users.name, email: users.email, role: memberships.role })
    .from(users)
    .leftJoin(memberships, matches(memberships, { orgId, userId: users.id }))
    .where(inArray(users.id, userIds));
}

export const findUsers = (orm: Orm, userIds: string[], emails: string[]) =>
  orm
    .select({ id: users.id, name: users.name, email: users.email })
    .from(users)
    .where(or(inArray(users.id, userIds), inArray(users.email, emails)));
