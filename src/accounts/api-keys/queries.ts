import {
  and,
  asc,
  count,
  desc,
  eq,
  getTableColumns,
  gt,
  gte,
  inArray,
  isNotNull,
  isNull,
  lt,
  lte,
  min,
  or,
  sql,
  type SQL,
} from 'drizzle-orm';
import { alias, type PgColumn } from 'drizzle-orm/pg-core';
import type { Orm, Tx } from '../../core/db/client.js';
import { firstRow, hasRow, matches } from '../../core/db/sql.js';
import { managingRoles, memberships, users } from '../organizations/table.js';
import { apiKeyCalls, apiKeyDirectory, apiKeys, apiKeyScopeUse } from './table.js';

export type KeyState = 'active' | 'grace' | 'expired' | 'revoked';

const keySuccessor = alias(apiKeys, 'successor');

const {
  orgId: _orgId,
  hashedSecret: _hashedSecret,
  serviceKeyId,
  archivedAt: _archivedAt,
  watchedUntil: _watchedUntil,
  ...shown
} = getTableColumns(apiKeys);

const keyMetadata = { ...shown, successorId: keySuccessor.id };

const isSuccessor = matches(keySuccessor, { orgId: apiKeys.orgId, rotatedFromId: apiKeys.id });

const selectKeys = (orm: Orm) => orm.select(keyMetadata).from(apiKeys).leftJoin(keySuccessor, isSuccessor);

/** An Organization's people cannot change the rows of service keys. */
const isOwnKey = (orgId: string) => and(eq(apiKeys.orgId, orgId), isNull(apiKeys.serviceKeyId));

export type KeyRow = NonNullable<Awaited<ReturnType<typeof findKey>>>;

export const findKey = (orm: Orm, orgId: string, id: string) =>
  firstRow(selectKeys(orm).where(and(isOwnKey(orgId), eq(apiKeys.id, id))));

export async function listKeyNames(orm: Orm, orgId: string): Promise<Map<string, string>> {
  const rows = await orm
    .select({ id: apiKeys.id, name: apiKeys.name })
    .from(apiKeys)
    .where(eq(apiKeys.orgId, orgId));
  return new Map(rows.map(({ id, name }) => [id, name]));
}

export const hasKeyOfHash = (orm: Orm, orgId: string, hashedSecret: string): Promise<boolean> =>
  hasRow(orm.select({ id: apiKeys.id }).from(apiKeys).where(matches(apiKeys, { hashedSecret, orgId })));

/** Newest first. `afterId` always exists, because keys are never deleted. */
export function listKeys(orm: Orm, orgId: string, { limit, afterId }: { limit: number; afterId?: string }) {
  return selectKeys(orm)
    .where(and(isOwnKey(orgId), afterId === undefined ? undefined : isBeyond(orgId, '<', afterId)))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
}

/** Older with `<`, newer with `>`. The subquery's key goes by the same names. */
const isBeyond = (orgId: string, side: '<' | '>', id: string, first = sql`true`): SQL =>
  sql`(${first}, ${apiKeys.createdAt}, ${apiKeys.id}) ${sql.raw(side)} (select ${first}, ${apiKeys.createdAt}, ${apiKeys.id} from api_keys where ${apiKeys.orgId} = ${orgId} and ${apiKeys.id} = ${id})`;

const isWorking = (now: Date): SQL =>
  sql`coalesce(least(${apiKeys.revokedAt}, ${apiKeys.expiresAt}) > ${now.toISOString()}::timestamptz, true)`;

export async function insertKey(tx: Tx, row: typeof apiKeys.$inferInsert): Promise<void> {
  const { hashedSecret, orgId } = row;
  await tx.insert(apiKeyDirectory).values({ hashedSecret, orgId }).onConflictDoNothing();
  await tx.insert(apiKeys).values(row);
}

export const updateKey = (
  tx: Tx,
  orgId: string,
  id: string,
  values: { name?: string; expiresAt?: Date; revokedAt?: Date },
): Promise<unknown> => tx.update(apiKeys).set(values).where(matches(apiKeys, { orgId, id }));

export const isAnyKeyWatched = (orm: Orm, now: Date): Promise<boolean> =>
  hasRow(orm.select({ id: apiKeys.id }).from(apiKeys).where(gt(apiKeys.watchedUntil, now)).limit(1));

/** Writes nothing if the mark was renewed recently. */
export async function watchKey(orm: Orm, orgId: string, id: string, now: Date): Promise<void> {
  const isNearlyOver = or(
    isNull(apiKeys.watchedUntil),
    lt(apiKeys.watchedUntil, new Date(now.getTime() + WATCHED_MS / 2)),
  );
  await orm
    .update(apiKeys)
    .set({ watchedUntil: new Date(now.getTime() + WATCHED_MS) })
    .where(and(matches(apiKeys, { orgId, id }), isNearlyOver));
}

/** Longer than the polling interval of the key's page. */
const WATCHED_MS = 30_000;

/** Each creation or rotation inserted exactly one row. Keys created by the system do not count. */
export async function countKeyChanges(orm: Orm, orgId: string, since: Date, atMost: number) {
  const newest = orm
    .select({ createdAt: apiKeys.createdAt })
    .from(apiKeys)
    .where(and(eq(apiKeys.orgId, orgId), gt(apiKeys.createdAt, since), isNotNull(apiKeys.createdBy)))
    .orderBy(desc(apiKeys.createdAt))
    .limit(atMost)
    .as('newest');
  const [row] = await orm.select({ changes: count(), oldestAt: min(newest.createdAt) }).from(newest);
  return row!;
}

export const isActiveKey = (orgId: string, now: Date) =>
  and(isOwnKey(orgId), isNull(apiKeys.revokedAt), or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now)));

export const listActivePrefixes = (orm: Orm, orgId: string, now: Date) =>
  orm
    .selectDistinctOn([apiKeys.livemode], { livemode: apiKeys.livemode, prefix: apiKeys.prefix })
    .from(apiKeys)
    .where(isActiveKey(orgId, now))
    .orderBy(apiKeys.livemode, apiKeys.createdAt);

const previous = alias(apiKeys, 'previous');

const selectDetails = (orm: Orm) =>
  orm
    .select({
      ...keyMetadata,
      serviceKeyId,
      successorPrefix: keySuccessor.prefix,
      successorCreatedAt: keySuccessor.createdAt,
      previousPrefix: previous.prefix,
      /** Null unless the creator is still a member. */
      creatorName: users.name,
    })
    .from(apiKeys)
    .leftJoin(keySuccessor, isSuccessor)
    .leftJoin(previous, matches(previous, { orgId: apiKeys.orgId, id: apiKeys.rotatedFromId }))
    .leftJoin(memberships, matches(memberships, { orgId: apiKeys.orgId, userId: apiKeys.createdBy }))
    .leftJoin(users, eq(users.id, memberships.userId));

export type KeyDetails = NonNullable<Awaited<ReturnType<typeof findKeyDetails>>>;

export const findKeyDetails = (orm: Orm, orgId: string, id: string) =>
  firstRow(selectDetails(orm).where(matches(apiKeys, { orgId, id })));

export interface KeyFilter {
  state?: KeyState | undefined;
  livemode?: boolean | undefined;
  search?: string | undefined;
}

/** Newest first, after them those that no longer work. May scan all of the Organization's keys. */
export async function listKeyDetails(
  orm: Orm,
  orgId: string,
  {
    limit,
    afterId,
    beforeId,
    filter,
    now,
  }: { limit: number; afterId?: string; beforeId?: string; filter: KeyFilter; now: Date },
): Promise<KeyDetails[]> {
  const works = isWorking(now);
  const found = selectDetails(orm)
    .where(
      and(
        isLike(orgId, filter, now),
        afterId === undefined ? undefined : isBeyond(orgId, '<', afterId, works),
        beforeId === undefined ? undefined : isBeyond(orgId, '>', beforeId, works),
      ),
    )
    .limit(limit);
  if (beforeId === undefined) return found.orderBy(desc(works), desc(apiKeys.createdAt), desc(apiKeys.id));
  return (await found.orderBy(asc(works), asc(apiKeys.createdAt), asc(apiKeys.id))).toReversed();
}

export async function countKeys(
  orm: Orm,
  orgId: string,
  { filter, now, firstId }: { filter: KeyFilter; now: Date; firstId: string | undefined },
): Promise<{ total: number; newer: number }> {
  const isNewer = firstId === undefined ? sql`false` : isBeyond(orgId, '>', firstId, isWorking(now));
  const [row] = await orm
    .select({ total: count(), newer: sql`count(*) filter (where ${isNewer})`.mapWith(Number) })
    .from(apiKeys)
    .leftJoin(keySuccessor, isSuccessor)
    .where(isLike(orgId, filter, now));
  return row!;
}

const isLike = (orgId: string, { state, livemode, search }: KeyFilter, now: Date): SQL | undefined =>
  and(
    eq(apiKeys.orgId, orgId),
    state === undefined ? undefined : isInState(state, now),
    livemode === undefined ? undefined : eq(apiKeys.livemode, livemode),
    search === undefined
      ? undefined
      : sql`(strpos(lower(${apiKeys.name}), lower(${search})) > 0 or strpos(${apiKeys.prefix}, ${search}) > 0)`,
  );

/** Equivalent to `stateOf`. */
function isInState(state: KeyState, now: Date): SQL | undefined {
  if (state === 'revoked') return isNotNull(apiKeys.revokedAt);
  if (state === 'expired') return and(isNull(apiKeys.revokedAt), lte(apiKeys.expiresAt, now));
  return and(
    isNull(apiKeys.revokedAt),
    or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now)),
    state === 'active' ? isNull(keySuccessor.id) : isNotNull(keySuccessor.id),
  );
}

export function listScopeUse(orm: Orm, orgId: string, keyIds: string[]) {
  return orm
    .select({
      keyId: apiKeyScopeUse.apiKeyId,
      scope: apiKeyScopeUse.scope,
      calls: apiKeyScopeUse.calls,
      lastUsedAt: apiKeyScopeUse.lastUsedAt,
    })
    .from(apiKeyScopeUse)
    .where(and(eq(apiKeyScopeUse.orgId, orgId), inArray(apiKeyScopeUse.apiKeyId, keyIds)));
}

/** `from` must be a whole minute. */
export async function sumCalls(
  orm: Orm,
  orgId: string,
  keyIds: string[],
  { from, stepMs }: { from: Date; stepMs: number },
): Promise<{ keyId: string; startMs: number; calls: number }[]> {
  const start = sql`date_bin(make_interval(secs => ${stepMs / 1000}), ${apiKeyCalls.minute}, timestamptz '2000-01-01 00:00:00+00')`;
  return orm
    .select({
      keyId: apiKeyCalls.apiKeyId,
      startMs: sql`(extract(epoch from ${start}) * 1000)::bigint`.mapWith(Number).as('start_ms'),
      calls: sql`sum(${apiKeyCalls.calls})::bigint`.mapWith(Number),
    })
    .from(apiKeyCalls)
    .where(
      and(eq(apiKeyCalls.orgId, orgId), inArray(apiKeyCalls.apiKeyId, keyIds), gte(apiKeyCalls.minute, from)),
    )
    .groupBy(apiKeyCalls.apiKeyId, sql`start_ms`)
    .orderBy(sql`start_ms`);
}

/** `from` must be a whole minute. */
export async function sumRefusals(orm: Orm, orgId: string, keyId: string, from: Date) {
  const sum = (column: PgColumn) => sql`coalesce(sum(${column}), 0)`.mapWith(Number);
  const { ended, unscoped, limited } = apiKeyCalls;
  const [row] = await orm
    .select({ ended: sum(ended), unscoped: sum(unscoped), limited: sum(limited) })
    .from(apiKeyCalls)
    .where(and(matches(apiKeyCalls, { orgId, apiKeyId: keyId }), gte(apiKeyCalls.minute, from)));
  return row!;
}

export function listKeyManagers(orm: Orm, orgId: string, limit: number) {
  return orm
    .select({ name: users.name, role: memberships.role })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.orgId, orgId), inArray(memberships.role, managingRoles)))
    .orderBy(desc(memberships.role), asc(users.name))
    .limit(limit);
}

export function listExpiringKeys(
  orm: Orm,
  orgId: string,
  { livemode, now, until, limit }: { livemode: boolean; now: Date; until: Date; limit: number },
) {
  return orm
    .select({
      id: apiKeys.id,
      name: apiKeys.name,
      prefix: apiKeys.prefix,
      expiresAt: apiKeys.expiresAt,
      successorId: keySuccessor.id,
    })
    .from(apiKeys)
    .leftJoin(keySuccessor, isSuccessor)
    .where(
      and(
        isOwnKey(orgId),
        eq(apiKeys.livemode, livemode),
        isNull(apiKeys.revokedAt),
        isNotNull(apiKeys.expiresAt),
        gt(apiKeys.expiresAt, now),
        lte(apiKeys.expiresAt, until),
      ),
    )
    .orderBy(asc(apiKeys.expiresAt), desc(apiKeys.id))
    .limit(limit);
}
