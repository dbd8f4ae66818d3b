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
  findKeyProblem,
  hashFor,
  hashServiceKey,
  keyError,
  OrganizationArchived,
  readHashedSecret,
  setHashedSecret,
} from '../api-keys/bearer-key.js';
import type { LimitCalls } from '../api-keys/guards.js';
import type { CallDeps } from '../api-keys/key-use.js';
import { hasKeyOfHash, insertKey } from '../api-keys/queries.js';
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
  /** When the use of each key was last written. */
  const noted = new Map<string, number>();

  /** @throws AppError invalid_key, key_revoked, key_expired, insufficient_scope */
  const authenticate = async (hash: string, scope: ServiceScope | null) =>
    admit(hash, await reader.submit(hash), scope);

  /** For a key that was just read. Writes its use at most once a minute. @throws AppError as `authenticate` */
  function admit(hash: string, key: ServiceKeyState | undefined, scope: ServiceScope | null) {
    const nowMs = clock.now();
    const now = new Date(nowMs);
    refuseKey(key, scope, now);
    if (scope === null || (noted.get(hash) ?? -Infinity) > nowMs - MINUTE_MS) return undefined;
    noted.set(hash, nowMs);
    return db.orm.update(serviceKeys).set({ lastUsedAt: now }).where(eq(serviceKeys.hashedSecret, hash));
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
    if (await hasKeyOfHash(db.orm, organization.id, hashedSecret)) return;
    let key: ServiceKeyRow | undefined;
    const by: Authority = {
      // A revocation waits for the lock, and then ends the new row, too.
      async confirm(tx, now) {
        [key] = await tx.select().from(serviceKeys).where(eq(serviceKeys.hashedSecret, hash)).for('share');
        refuseKey(key, null, now);
      },
    };
    await change({ db, clock }, by, async (tx) => {
      refuseArchived((await lockOrganization(tx, { id: organization.id }))!);
      if (await hasKeyOfHash(tx, organization.id, hashedSecret)) return;
      const { id, name, prefix, livemode, scopes, expiresAt } = key!;
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
    /** Affects only the order of the checks, never access. */
    hasSeen: (hash: string) => noted.has(hash),
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

function refuseKey(key: ServiceKeyState | undefined, scope: ServiceScope | null, now: Date): void {
  const error = keyError(findKeyProblem(key, scope, now), scope ?? '');
  if (error) throw error;
}

function refuseArchived({ slug, archivedAt }: Organization): void {
  if (archivedAt !== null) throw organizationArchived(slug);
}

export const organizationArchived = (slug: string) =>
  new AppError('not_found', `The Organization "${slug}" is archived.`);

/** For routes at `/service`. */
export interface ServiceGuards {
  /** For a route that names the Organization in its address. Also limits the calls for each Organization. */
  limitTo: LimitCalls;
  /** For a route for many Organizations. */
  whole: RequestHandler;
}

export function serviceGuards(context: Context, { keyUse }: CallDeps, access: ServiceAccess): ServiceGuards {
  const known = unknownKeyGuard(context, {
    keyOf: hashServiceKey,
    hasSeen: access.hasSeen,
    authenticate: (hash) => access.authenticate(hash, null),
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

const slugOf = (req: Request): string => String(req.params.slug);

function setHashFor(req: Request): string {
  const own = hashFor(hashServiceKey(req), slugOf(req));
  setHashedSecret(req, own);
  return own;
}

/** An Organization that was archived after the key's last call. */
export const answerArchived: ErrorRequestHandler = (error, req, _res, next) =>
  next(error instanceof OrganizationArchived ? organizationArchived(slugOf(req)) : error);
