import { and, desc, eq, getTableColumns, gt, gte, inArray, isNull, lt, max, or, sum } from 'drizzle-orm';
import { alias } from 'drizzle-orm/pg-core';
import type { Orm, Tx } from '../../core/db/client.js';
import { matches } from '../../core/db/sql.js';
import { apiKeyCalls, apiKeys } from '../api-keys/table.js';
import { organizations } from '../organizations/table.js';
import { serviceKeys } from './table.js';

const successor = alias(serviceKeys, 'successor');

const { hashedSecret: _hashedSecret, ...shown } = getTableColumns(serviceKeys);

const selectKeys = (orm: Orm) =>
  orm
    .select({ ...shown, successorId: successor.id })
    .from(serviceKeys)
    .leftJoin(successor, eq(successor.rotatedFromId, serviceKeys.id));

export type ServiceKey = NonNullable<Awaited<ReturnType<typeof findServiceKey>>>;

export async function findServiceKey(orm: Orm, id: string) {
  const [key] = await selectKeys(orm).where(eq(serviceKeys.id, id));
  return key && (await withUse(orm, [key]))[0];
}

export async function listServiceKeys(
  orm: Orm,
  { limit, after }: { limit: number; after: string | undefined },
) {
  const rows = await selectKeys(orm)
    .where(after === undefined ? undefined : lt(serviceKeys.id, after))
    .orderBy(desc(serviceKeys.id))
    .limit(limit);
  return withUse(orm, rows);
}

/** Adds the calls for Organizations to `lastUsedAt`. */
async function withUse<T extends { id: string; lastUsedAt: Date | null }>(orm: Orm, keys: T[]): Promise<T[]> {
  if (keys.length === 0) return [];
  const ids = keys.map(({ id }) => id);
  const rows = await orm
    .select({ id: apiKeys.serviceKeyId, at: max(apiKeys.lastUsedAt) })
    .from(apiKeys)
    .where(inArray(apiKeys.serviceKeyId, ids))
    .groupBy(apiKeys.serviceKeyId);
  const used = new Map(rows.map(({ id, at }) => [id, at]));
  return keys.map((key) => {
    const at = used.get(key.id) ?? null;
    return at !== null && (key.lastUsedAt === null || at > key.lastUsedAt) ? { ...key, lastUsedAt: at } : key;
  });
}

export const listServiceKeyCalls = (orm: Orm, id: string, since: Date, limit: number) => {
  const calls = sum(apiKeyCalls.calls).mapWith(Number).as('calls');
  return orm
    .select({ slug: organizations.slug, name: organizations.name, calls })
    .from(apiKeys)
    .innerJoin(
      apiKeyCalls,
      and(
        matches(apiKeyCalls, { orgId: apiKeys.orgId, apiKeyId: apiKeys.id }),
        gte(apiKeyCalls.minute, since),
      ),
    )
    .innerJoin(organizations, eq(organizations.id, apiKeys.orgId))
    .where(eq(apiKeys.serviceKeyId, id))
    .groupBy(organizations.slug, organizations.name)
    .orderBy(desc(calls), organizations.slug)
    .limit(limit);
};

export const insertServiceKey = (tx: Tx, row: typeof serviceKeys.$inferInsert): Promise<unknown> =>
  tx.insert(serviceKeys).values(row);

/** Ends the key for every Organization, too. A call that uses it for a first Organization waits for this lock. */
export async function endServiceKey(tx: Tx, id: string, end: { revokedAt: Date } | { expiresAt: Date }) {
  await tx.update(serviceKeys).set(end).where(eq(serviceKeys.id, id));
  const isLater =
    'expiresAt' in end ? or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, end.expiresAt)) : undefined;
  await tx
    .update(apiKeys)
    .set(end)
    .where(and(eq(apiKeys.serviceKeyId, id), isLater));
}
