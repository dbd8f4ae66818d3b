import type { ErrorRequestHandler, Request, RequestHandler } from 'express';
import { eq, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { createCoalescer } from '../../core/db/coalesce.js';
import type { Orm } from '../../core/db/client.js';
import { textArray } from '../../core/db/sql.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { perKeyLimit, unknownKeyGuard } from '../../core/http/rate-limit.js';
import { MINUTE_MS } from '../../core/time.js';
import {
  hashFor,
  hashServiceKey,
  keyError,
  OrganizationArchived,
  readHashedSecret,
  setHashedSecret,
  type KeyProblem,
} from '../api-keys/bearer-key.js';
import type { LimitCalls } from '../api-keys/guards.js';
import type { CallDeps } from '../api-keys/key-use.js';
import { findKeyByHash, insertKey } from '../api-keys/queries.js';
import type { ServiceScope } from '../api-keys/scopes.js';
import { change, recordAudit, type Authority } from '../audit/audit.js';
import { getOrganization } from '../identity/organizations/organizations.js';
import { whereaboutsOf } from '../identity/session/session.js';
import { lockOrganization, type Organization } from '../identity/organizations/queries.js';
import type { Whereabouts } from '../identity/source.js';
import { serviceKeys } from './table.js';

export type ServiceAccess = ReturnType<typeof createServiceAccess>;

/** Reads service keys on every call, so that a revocation takes effect on the next one. */
export function createServiceAccess({ db, clock }: Pick<Context, 'db' | 'clock'>, { keyUse }: CallDeps) {
  const reader = createCoalescer<string, ServiceKeyRow | undefined>({
    flush: createServiceKeyRead(db.orm),
    parallel: 2,
    fullWeight: 32,
    maxWeight: 500,
    queueLimit: { weight: 10_000, bytes: Infinity },
  });
  const noteUse = createUseNotes(db.orm);

  /** @throws AppError invalid_key, key_revoked, key_expired, insufficient_scope */
  const authenticate = async (hash: string, scope: ServiceScope | null) =>
    admit(await reader.submit(hash), scope);

  /** For a key that was just read. @throws AppError as `authenticate` */
  async function admit(
    key: ServiceKeyState | undefined,
    scope: ServiceScope | null,
  ): Promise<ServiceKeyState> {
    const now = new Date(clock.now());
    const error = keyError(problemOf(key, scope, now), scope ?? '');
    if (error) throw error;
    if (scope !== null) await noteUse(key!.id, now);
    return key!;
  }

  /**
   * Gives the key a row in the Organization's keys at its first use there, with an audit row.
   * @throws AppError as `authenticate`, and not_found for an unknown or archived Organization
   */
  async function openFor(hash: string, slug: string, whereabouts: Whereabouts): Promise<void> {
    await authenticate(hash, null);
    const organization = await getOrganization(db.orm, slug);
    refuseArchived(organization);
    const hashedSecret = hashFor(hash, slug);
    if (await findKeyByHash(db.orm, organization.id, hashedSecret)) return;
    await change({ db, clock }, byServiceKey(hash), async (tx) => {
      refuseArchived((await lockOrganization(tx, { id: organization.id }))!);
      if (await findKeyByHash(tx, organization.id, hashedSecret)) return;
      // The latest expiry, because a rotation may have shortened it.
      const { id, name, prefix, livemode, scopes, expiresAt } = (await findByHash(tx, hash))!;
      const row = {
        id: uuid(),
        orgId: organization.id,
        hashedSecret,
        serviceKeyId: id,
        createdAt: whereabouts.at,
      };
      await insertKey(tx, { ...row, name, prefix, livemode, scopes, expiresAt });
      await recordAudit(tx, organization.id, {
        ...whereabouts,
        actor: `service_key:${id}`,
        action: 'service_key.first_used',
        target: row.id,
        details: { name, prefix, livemode, scopes, expiresAt },
      });
    });
  }

  return {
    authenticate,
    admit,
    /** The hash that stands for the key in the Organization. Looks up only what this instance has not seen. */
    async hashAt(hash: string, slug: string, whereabouts: Whereabouts): Promise<string> {
      const own = hashFor(hash, slug);
      if (!keyUse.hasSeen(own)) await openFor(hash, slug, whereabouts);
      return own;
    },
  };
}

export type ServiceKeyRow = typeof serviceKeys.$inferSelect;

export type ServiceKeyState = Pick<ServiceKeyRow, 'id' | 'scopes' | 'expiresAt' | 'revokedAt'>;

async function findByHash(orm: Orm, hash: string): Promise<ServiceKeyRow | undefined> {
  const [key] = await orm.select().from(serviceKeys).where(eq(serviceKeys.hashedSecret, hash));
  return key;
}

/** Prepared, because building the statement takes longer than running it. */
function createServiceKeyRead(orm: Orm) {
  const isAsked = sql`${serviceKeys.hashedSecret} = any(${sql.placeholder('hashes')}::text[])`;
  const prepare = () => orm.select().from(serviceKeys).where(isAsked).prepare('service_keys_read');
  let read: ReturnType<typeof prepare> | undefined;
  return async (hashes: string[]): Promise<(ServiceKeyRow | undefined)[]> => {
    read ??= prepare();
    const rows = await read.execute({ hashes: textArray(hashes) });
    const byHash = new Map(rows.map((row) => [row.hashedSecret, row]));
    return hashes.map((hash) => byHash.get(hash));
  };
}

function problemOf(
  key: ServiceKeyState | undefined,
  scope: ServiceScope | null,
  now: Date,
): KeyProblem | null {
  if (!key) return 'invalid_key';
  if (key.revokedAt !== null) return 'key_revoked';
  if (key.expiresAt !== null && key.expiresAt <= now) return 'key_expired';
  return scope === null || key.scopes.includes(scope) ? null : 'insufficient_scope';
}

/** A revocation waits for the lock, and then ends the key's new row, too. */
const byServiceKey = (hash: string): Authority => ({
  async confirm(tx, now) {
    const [key] = await tx.select().from(serviceKeys).where(eq(serviceKeys.hashedSecret, hash)).for('share');
    const error = keyError(problemOf(key, null, now), '');
    if (error) throw error;
  },
});

function refuseArchived({ slug, archivedAt }: Organization): void {
  if (archivedAt !== null) throw organizationArchived(slug);
}

export const organizationArchived = (slug: string) =>
  new AppError('not_found', `The Organization "${slug}" is archived.`);

/** At most one write a minute for each key. */
function createUseNotes(orm: Orm) {
  const noted = new Map<string, number>();
  return async (id: string, now: Date): Promise<void> => {
    if ((noted.get(id) ?? -Infinity) > now.getTime() - MINUTE_MS) return;
    noted.set(id, now.getTime());
    await orm.update(serviceKeys).set({ lastUsedAt: now }).where(eq(serviceKeys.id, id));
  };
}

/** For routes at `/service`. */
export interface ServiceGuards {
  /** For a route that names the Organization in its address. Also limits the calls for each Organization. */
  limitTo: LimitCalls;
  /** For a route for many Organizations. */
  whole: RequestHandler;
}

export function serviceGuards(context: Context, { keyUse }: CallDeps, access: ServiceAccess): ServiceGuards {
  const seen = new Set<string>();
  const known = unknownKeyGuard(context, {
    keyOf: hashServiceKey,
    hasSeen: (hash) => seen.has(hash),
    async authenticate(hash) {
      await access.authenticate(hash, null);
      if (seen.size < MAX_SEEN) seen.add(hash);
    },
  });
  const knownFor = unknownKeyGuard(context, {
    keyOf: setHashFor,
    hasSeen: (own) => keyUse.hasSeen(own),
    authenticate: (_own, req, res) =>
      access.hashAt(hashServiceKey(req), slugOf(req), whereaboutsOf(req, res, context.clock)),
  });
  const perMinute = perKeyLimit(context, {
    name: 'service',
    perMinute: context.config.limits.servicePerMinute,
    keyOf: hashServiceKey,
    caller: 'This service key',
    calls: 'calls',
    isQuiet: true,
  });
  return {
    whole: (req, res, next) => known(req, res, () => perMinute(req, res, next)),
    limitTo(name, most) {
      const limit = perKeyLimit(context, { name, perMinute: most, keyOf: readHashedSecret });
      return (req, res, next) =>
        knownFor(req, res, () =>
          perMinute(req, res, (error?: unknown) => (error ? next(error) : limit(req, res, next))),
        );
    },
  };
}

const MAX_SEEN = 10_000;

const slugOf = (req: Request): string => String(req.params.slug);

function setHashFor(req: Request): string {
  const own = hashFor(hashServiceKey(req), slugOf(req));
  setHashedSecret(req, own);
  return own;
}

/** An Organization that was archived after the key's last call. */
export const answerArchived: ErrorRequestHandler = (error, req, _res, next) =>
  next(error instanceof OrganizationArchived ? organizationArchived(slugOf(req)) : error);
