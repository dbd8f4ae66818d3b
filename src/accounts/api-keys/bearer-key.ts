import { hash, randomBytes } from 'node:crypto';
import type { Request } from 'express';
import { createRecentMap } from '../../core/collections.js';
import { AppError } from '../../core/errors.js';
import { type AnyScope, type Scope, isOfMarkets } from './scopes.js';
import type { Clock } from '../../core/time.js';
import type { Database, Template } from '../../core/db/client.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import { textArray } from '../../core/db/sql.js';
import type { MarketAccess } from '../organizations/table.js';

const sessionCookie = /(^|;\s*)(__Host-)?gauge_session=/;
const secretInQuery = /(org|service)_(live|test)_|[?&](api[-_]?key|key|token|access_token|secret)=/i;
const wholeSecret = /(org|service)_(live|test)_[0-9a-z]{32}/i;

/** In the path, only a complete secret counts: an idempotency key may merely resemble one. */
function hasSecret(url: string): boolean {
  const query = url.indexOf('?');
  return wholeSecret.test(url) || (query >= 0 && secretInQuery.test(url.slice(query)));
}

const hashedSecret = Symbol('hashed secret');
const serviceHash = Symbol('hashed service key');

type KeyedRequest = Request & { [hashedSecret]?: string; [serviceHash]?: string };

/** Cached on the request, because rate limiting needs the hash before the route does. */
export function readHashedSecret(req: KeyedRequest): string {
  return (req[hashedSecret] ??= hashSecret(readSecret(req, apiKey)));
}

export const knownHashedSecret = (req: KeyedRequest): string | undefined => req[hashedSecret];

/** Lets routes for an Organization's key serve a service key: its hash for the Organization stands in for the key's. */
export function setHashedSecret(req: KeyedRequest, hash: string): void {
  req[hashedSecret] = hash;
}

export const hashServiceKey = (req: KeyedRequest): string =>
  (req[serviceHash] ??= hashSecret(readSecret(req, serviceKey)));

interface KeyKind {
  begin: 'org' | 'service';
  howToSend: string;
  /** For the other kind's secret. */
  elsewhere: string;
}

const apiKey: KeyKind = {
  begin: 'org',
  howToSend: 'Send the API key as `Authorization: Bearer org_live_…`',
  elsewhere:
    'This is a service key. Call /service/organizations/{slug}/… with it, which names the Organization.',
};

const serviceKey: KeyKind = {
  begin: 'service',
  howToSend: 'Send the service key as `Authorization: Bearer service_live_…`',
  elsewhere: 'This is the API key of an Organization. Call /api/… with it.',
};

function readSecret(req: Request, { begin, howToSend, elsewhere }: KeyKind): string {
  const { authorization, cookie } = req.headers;
  if (cookie !== undefined && sessionCookie.test(cookie))
    throw new AppError(
      'session_cookie_not_allowed',
      'Call this route with a key only, without the session cookie.',
    );
  if (hasSecret(req.url))
    throw new AppError(
      'key_in_query_string',
      'Send the key in the Authorization header. URLs are stored in logs.',
    );
  if (authorization === undefined || authorization === '') throw new AppError('missing_key', `${howToSend}.`);
  const secret = /^bearer +(\S+)$/i.exec(authorization)?.[1];
  if (secret === undefined && !/^bearer\b/i.test(authorization))
    throw new AppError('invalid_key', `${howToSend}. The word Bearer is missing.`);
  const shape = secretShape.exec(secret ?? '');
  if (!shape) throw invalidKey();
  if (shape[1] !== begin) throw new AppError('invalid_key', elsewhere);
  return secret!;
}

export function invalidKey(): AppError {
  return new AppError('invalid_key', 'There is no such key.');
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const secretShape = /^(org|service)_(live|test)_[0-9A-Za-z]{32}$/;

/** `begin_{live|test}_` and 32 base62 characters, about 190 bits. Redraws bytes of 248 and above to avoid modulo bias. */
export function generateSecret(livemode: boolean, begin: KeyKind['begin'] = 'org'): string {
  let random = '';
  while (random.length < 32) {
    for (const byte of randomBytes(48)) if (byte < 248 && random.length < 32) random += alphabet[byte % 62];
  }
  return `${begin}_${livemode ? 'live' : 'test'}_${random}`;
}

/** Malformed secrets cost no database query. */
export const isSecretShaped = (value: string): boolean => secretShape.exec(value)?.[1] === 'org';

/** SHA-256 in hex. A random secret of this length needs no slow hash, and lookups need a deterministic one. */
export const hashSecret = (secret: string): string => hash('sha256', secret, 'hex');

/** The hash of a service key's row for an Organization. Slugs never change, so it needs no lookup. */
export const hashFor = (hashedServiceKey: string, slug: string) => hashSecret(`${hashedServiceKey} ${slug}`);

export type KeyProblem =
  | 'invalid_key'
  | 'key_revoked'
  | 'organization_archived'
  | 'key_expired'
  | 'insufficient_scope'
  | 'no_market_access';

/**
 * Branches of a SQL `case` on `k`, a row of `api_keys` or all nulls if the key is unknown.
 * @param now SQL expression of type timestamptz
 */
export const whenKeyIsBad = (now: string, scope?: Scope): string => `
      when k.id is null then 'invalid_key'
      when k.revoked_at is not null then 'key_revoked'
      when k.archived_at is not null then 'organization_archived'
      when k.expires_at <= ${now} then 'key_expired'${
        scope === undefined
          ? ''
          : `
      when not ('${scope}' = any (k.scopes)) then 'insufficient_scope'`
      }`;

interface KeyTerms {
  revokedAt: Date | null;
  archivedAt?: Date | null;
  expiresAt: Date | null;
  scopes: readonly string[];
}

/** Equivalent to `whenKeyIsBad`. @param scope null if any valid key will do */
export function findKeyProblem(
  key: KeyTerms | undefined,
  scope: AnyScope | null,
  now: Date,
): KeyProblem | null {
  if (!key) return 'invalid_key';
  if (key.revokedAt !== null) return 'key_revoked';
  if (key.archivedAt) return 'organization_archived';
  if (key.expiresAt !== null && key.expiresAt <= now) return 'key_expired';
  return scope === null || key.scopes.includes(scope) ? null : 'insufficient_scope';
}

export class OrganizationArchived extends AppError {
  constructor() {
    super(
      'key_revoked',
      'The Organization of this API key was archived. Its keys work again after the operator of this service restores it.',
    );
  }
}

/** Undefined if the problem does not concern the key. */
export function keyError(problem: string | null, scope: string): AppError | undefined {
  switch (problem as KeyProblem | null) {
    case 'invalid_key':
      return invalidKey();
    case 'key_revoked':
      return new AppError('key_revoked', 'This key has been revoked.');
    case 'organization_archived':
      return new OrganizationArchived();
    case 'key_expired':
      return new AppError('key_expired', 'This key has expired.');
    case 'insufficient_scope':
      return new AppError('insufficient_scope', `This key does not have the scope ${scope}.`);
    case 'no_market_access':
      return new AppError(
        'entitlement_required',
        'The Organization of this API key has no access to markets. Ask the operator of this service for access.',
      );
    default:
      return undefined;
  }
}

/** A caller without a valid key must learn nothing about the input. */
export async function preferKeyError<T>(authenticate: () => Promise<unknown>, read: () => T | Promise<T>) {
  try {
    return await read();
  } catch (error) {
    await authenticate();
    throw error;
  }
}

/** A key never acts as a User. */
export interface Principal {
  orgId: string;
  keyId: string;
  livemode: boolean;
  scopes: string[];
  marketAccess: MarketAccess;
  /** The service key that acts for the Organization; null for a key of its own. */
  serviceKeyId: string | null;
}

export type KeyReader = ReturnType<typeof createKeyReader>;

export type KeyIdentity = Pick<Principal, 'orgId' | 'keyId'>;

const MAX_IDENTITIES = 50_000;

const readKeys: Template = {
  name: 'api_keys_read',
  text: (t) => `
${t.with} w as materialized (
  select w.* from unnest($1::text[]) with ordinality as w (hashed_secret, ord)${t.held}
)
select (w.ord - 1)::text as place,
  case${whenKeyIsBad('$2::timestamptz')}
  end as problem,
  k.org_id::text as "orgId", k.id::text as "keyId", k.livemode::text, array_to_string(k.scopes, ' ') as scopes,
  o.market_access as "marketAccess", k.service_key_id::text as "serviceKeyId"
from w
left join lateral (select * from ${t('api_keys')} where hashed_secret = w.hashed_secret limit 1) k on true
left join lateral (select market_access from ${t('organizations')} where id = k.org_id limit 1) o on true`,
};

interface KeyRow {
  place: string;
  problem: KeyProblem | null;
  orgId: string | null;
  keyId: string | null;
  livemode: string | null;
  scopes: string | null;
  marketAccess: MarketAccess | null;
  serviceKeyId: string | null;
}

interface KeyState {
  problem: KeyProblem | null;
  principal: Principal;
}

/** Reads keys on every call, so that a revocation takes effect on the next one. */
export function createKeyReader({ db, clock }: { db: Database; clock: Clock }) {
  const identities = createRecentMap<string, KeyIdentity>(MAX_IDENTITIES);
  function remember(hashedSecret: string, { orgId, keyId }: Principal): void {
    if (keyId !== '' && !identities.get(hashedSecret)) identities.set(hashedSecret, { orgId, keyId });
  }
  const coalescer = createGroupCoalescer<{ hashedSecret: string }, KeyState>(
    db.shards,
    ({ run, parallelReads }) => ({
      async flush(requests) {
        const states = new Map<string, KeyState>(requests.map(({ hashedSecret }) => [hashedSecret, missing]));
        const distinct = [...states.keys()];
        const rows = await run<KeyRow>(readKeys, [textArray(distinct), new Date(clock.now()).toISOString()]);
        for (const { place, problem, ...row } of rows) {
          const principal = {
            orgId: row.orgId ?? '',
            keyId: row.keyId ?? '',
            livemode: row.livemode === 'true',
            scopes: row.scopes?.split(' ') ?? [],
            marketAccess: row.marketAccess ?? 'none',
            serviceKeyId: row.serviceKeyId,
          };
          remember(distinct[Number(place)]!, principal);
          states.set(distinct[Number(place)]!, { problem, principal });
        }
        return requests.map(({ hashedSecret }) => states.get(hashedSecret)!);
      },
      parallel: parallelReads,
      fullWeight: 32,
      maxWeight: 500,
      queueLimit: { weight: 10_000, bytes: Infinity },
    }),
  );
  return {
    /**
     * @param scope null if any valid key will do
     * @throws AppError invalid_key, key_revoked, key_expired, insufficient_scope, entitlement_required
     */
    async authenticate(hashedSecret: string, scope: AnyScope | null): Promise<Principal> {
      const { problem, principal } = await coalescer.submit({ hashedSecret });
      const error = keyError(problem ?? findAccessProblem(principal, scope), scope ?? '');
      if (error) throw error;
      return principal;
    },
    /** For the log only, never for a decision. */
    identify: (hashedSecret: string) => identities.get(hashedSecret),
  };
}

export function findAccessProblem(
  { scopes, marketAccess }: Pick<Principal, 'scopes' | 'marketAccess'>,
  scope: AnyScope | null,
): KeyProblem | null {
  if (scope === null) return null;
  if (!scopes.includes(scope)) return 'insufficient_scope';
  return isOfMarkets(scope) && marketAccess === 'none' ? 'no_market_access' : null;
}

const missing: KeyState = {
  problem: 'invalid_key',
  principal: {
    orgId: '',
    keyId: '',
    livemode: false,
    scopes: [],
    marketAccess: 'none',
    serviceKeyId: null,
  },
};
