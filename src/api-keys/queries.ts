import { and, count, desc, eq, gt, isNotNull, isNull, lt, min, or, sql, type SQL } from 'drizzle-orm';
import { alias } from 'drizzle-orm/pg-core';
import type { Orm, Tx } from '../core/db/client.js';
import { apiKeyDirectory, apiKeys } from './table.js';

export const keySuccessor = alias(apiKeys, 'successor');

/** What may be told of a key: everything but the hash, and whether it has been rotated. */
export const keyMetadata = {
  id: apiKeys.id,
  name: apiKeys.name,
  prefix: apiKeys.prefix,
  scopes: apiKeys.scopes,
  livemode: apiKeys.livemode,
  lastUsedAt: apiKeys.lastUsedAt,
  expiresAt: apiKeys.expiresAt,
  revokedAt: apiKeys.revokedAt,
  createdAt: apiKeys.createdAt,
  createdBy: apiKeys.createdBy,
  rotatedFromId: apiKeys.rotatedFromId,
  successorId: keySuccessor.id,
};

export const isSuccessor = and(
  eq(keySuccessor.orgId, apiKeys.orgId),
  eq(keySuccessor.rotatedFromId, apiKeys.id),
);

const selectKeys = (orm: Orm) => orm.select(keyMetadata).from(apiKeys).leftJoin(keySuccessor, isSuccessor);

export type KeyRow = NonNullable<Awaited<ReturnType<typeof findKey>>>;

export async function findKey(orm: Orm, orgId: string, id: string) {
  const [row] = await selectKeys(orm).where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, id)));
  return row;
}

/** Newest first. `afterId` is the last key of the page before; keys are never deleted, so it is still there. */
export function listKeys(orm: Orm, orgId: string, { limit, afterId }: { limit: number; afterId?: string }) {
  return selectKeys(orm)
    .where(and(eq(apiKeys.orgId, orgId), afterId === undefined ? undefined : isOlderThan(orgId, afterId)))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
}

/** True for the keys that a list, newest first, shows after that one. */
export const isOlderThan = (orgId: string, id: string): SQL =>
  sql`(${apiKeys.createdAt}, ${apiKeys.id}) < (select created_at, id from api_keys where org_id = ${orgId} and id = ${id})`;

export async function insertKey(tx: Tx, row: typeof apiKeys.$inferInsert): Promise<void> {
  const { hashedSecret, orgId } = row;
  await tx.insert(apiKeyDirectory).values({ hashedSecret, orgId }).onConflictDoNothing();
  await tx.insert(apiKeys).values(row);
}

export async function updateKey(
  tx: Tx,
  orgId: string,
  id: string,
  values: { name?: string; expiresAt?: Date; revokedAt?: Date },
): Promise<void> {
  await tx
    .update(apiKeys)
    .set(values)
    .where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, id)));
}

/** Whether the calls of any key are looked at now, on whatever instance. */
export async function isAnyKeyWatched(orm: Orm, now: Date): Promise<boolean> {
  const rows = await orm
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(gt(apiKeys.watchedUntil, now))
    .limit(1);
  return rows.length > 0;
}

/** Has every instance write the calls of keys more often until then. One write while the page is looked at, not one each time. */
export async function watchKey(orm: Orm, orgId: string, id: string, now: Date): Promise<void> {
  const isNearlyOver = or(
    isNull(apiKeys.watchedUntil),
    lt(apiKeys.watchedUntil, new Date(now.getTime() + WATCHED_MS / 2)),
  );
  await orm
    .update(apiKeys)
    .set({ watchedUntil: new Date(now.getTime() + WATCHED_MS) })
    .where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, id), isNearlyOver));
}

/** A page that is looked at asks more often than this. */
const WATCHED_MS = 30_000;

/**
 * The newest changes after `since`, `atMost` of them: how many, and when the oldest was. Each create and each rotation
 * makes exactly one row, so the rows are the count. What the system made itself does not count.
 */
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

/** The prefix of the first active key in each mode. */
export const listActivePrefixes = (orm: Orm, orgId: string, now: Date) =>
  orm
    .selectDistinctOn([apiKeys.livemode], { livemode: apiKeys.livemode, prefix: apiKeys.prefix })
    .from(apiKeys)
    .where(
      and(
        eq(apiKeys.orgId, orgId),
        isNull(apiKeys.revokedAt),
        or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now)),
      ),
    )
    .orderBy(apiKeys.livemode, apiKeys.createdAt);
