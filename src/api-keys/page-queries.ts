import { and, asc, desc, eq, gt, gte, inArray, isNotNull, isNull, lte, or, sql, type SQL } from 'drizzle-orm';
import { alias } from 'drizzle-orm/pg-core';
import type { Orm } from '../core/db/client.js';
import { entitlements, products } from '../entitlements/table.js';
import { memberships, users } from '../organizations/table.js';
import type { KeyState } from './key-json.js';
import { isOlderThan, keyMetadata, keySuccessor } from './queries.js';
import { apiKeyCalls, apiKeys, apiKeyScopeUse } from './table.js';

const previous = alias(apiKeys, 'previous');

/** A key with what its pages tell beside it: who made it, and the keys before and after it. */
const selectKeys = (orm: Orm) =>
  orm
    .select({
      ...keyMetadata,
      successorPrefix: keySuccessor.prefix,
      successorCreatedAt: keySuccessor.createdAt,
      previousPrefix: previous.prefix,
      /** Null for whoever is no member (any more). */
      creatorName: users.name,
    })
    .from(apiKeys)
    .leftJoin(
      keySuccessor,
      and(eq(keySuccessor.orgId, apiKeys.orgId), eq(keySuccessor.rotatedFromId, apiKeys.id)),
    )
    .leftJoin(previous, and(eq(previous.orgId, apiKeys.orgId), eq(previous.id, apiKeys.rotatedFromId)))
    .leftJoin(
      memberships,
      and(eq(memberships.orgId, apiKeys.orgId), eq(memberships.userId, apiKeys.createdBy)),
    )
    .leftJoin(users, eq(users.id, memberships.userId));

export type KeyDetails = NonNullable<Awaited<ReturnType<typeof findKeyDetails>>>;

export async function findKeyDetails(orm: Orm, orgId: string, id: string) {
  const [row] = await selectKeys(orm).where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, id)));
  return row;
}

export interface KeyFilter {
  state?: KeyState | undefined;
  livemode?: boolean | undefined;
  /** Part of the name, or of the prefix. */
  search?: string | undefined;
}

/** Newest first. With a filter it reads on until the page is full, at most all keys of the Organization. */
export function listKeyDetails(
  orm: Orm,
  orgId: string,
  {
    limit,
    afterId,
    filter,
    now,
  }: { limit: number; afterId: string | undefined; filter: KeyFilter; now: Date },
): Promise<KeyDetails[]> {
  const { state, livemode, search } = filter;
  return selectKeys(orm)
    .where(
      and(
        eq(apiKeys.orgId, orgId),
        afterId === undefined ? undefined : isOlderThan(orgId, afterId),
        state === undefined ? undefined : isInState(state, now),
        livemode === undefined ? undefined : eq(apiKeys.livemode, livemode),
        search === undefined
          ? undefined
          : sql`(strpos(lower(${apiKeys.name}), lower(${search})) > 0 or strpos(${apiKeys.prefix}, ${search}) > 0)`,
      ),
    )
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
}

/** `stateOf` as a condition. */
function isInState(state: KeyState, now: Date): SQL | undefined {
  if (state === 'revoked') return isNotNull(apiKeys.revokedAt);
  if (state === 'expired') return and(isNull(apiKeys.revokedAt), lte(apiKeys.expiresAt, now));
  return and(
    isNull(apiKeys.revokedAt),
    or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now)),
    state === 'active' ? isNull(keySuccessor.id) : isNotNull(keySuccessor.id),
  );
}

/** What keys used of their scopes, for the keys of one page. */
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

/** Calls of some keys from `from` on (a whole minute), by key and by steps of `stepMs` since 2000. */
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

/** A product that the Organization may report usage of now, or undefined: the first by its slug. */
export async function findLiveProduct(orm: Orm, orgId: string, now: Date) {
  const [product] = await orm
    .select({ slug: products.slug, name: products.name, usageMetric: products.usageMetric })
    .from(entitlements)
    .innerJoin(products, eq(products.id, entitlements.productId))
    .where(
      and(
        eq(entitlements.orgId, orgId),
        eq(entitlements.kind, 'live'),
        lte(entitlements.startsAt, now),
        or(isNull(entitlements.endsAt), gt(entitlements.endsAt, now)),
      ),
    )
    .orderBy(asc(products.slug))
    .limit(1);
  return product;
}

/** Some of those who may change keys, owners first. */
export function listKeyManagers(orm: Orm, orgId: string, limit: number) {
  return orm
    .select({ name: users.name, role: memberships.role })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.orgId, orgId), inArray(memberships.role, ['owner', 'admin'])))
    .orderBy(desc(memberships.role), asc(users.name))
    .limit(limit);
}
