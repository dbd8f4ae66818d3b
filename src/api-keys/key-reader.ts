import type { Clock } from '../core/clock.js';
import type { Database, Template } from '../core/db/client.js';
import { createGroupCoalescer } from '../core/db/group-coalescer.js';
import { textArray } from '../core/db/array-literal.js';
import { isOfMarkets, type Scope } from '../core/scopes.js';
import type { MarketAccess } from '../organizations/table.js';
import { keyError, whenKeyIsBad, type KeyProblem } from './key-problem.js';

/** Who calls: a key of an Organization. A key is never a User. */
export interface Principal {
  orgId: string;
  keyId: string;
  livemode: boolean;
  scopes: string[];
  marketAccess: MarketAccess;
}

/** Reads keys, always from the database: a revocation takes effect on the next call. Waiting reads go together. */
export interface KeyReader {
  /**
   * @param scope the scope the call needs, or null if any valid key will do
   * @throws AppError invalid_key, key_revoked, key_expired, insufficient_scope, entitlement_required
   */
  authenticate(hashedSecret: string, scope: Scope | null): Promise<Principal>;
  /** Whose key it is, if this process has read it before: for the log, never for a decision. */
  identify(hashedSecret: string): KeyIdentity | undefined;
}

export type KeyIdentity = Pick<Principal, 'orgId' | 'keyId'>;

const MAX_IDENTITIES = 50_000;

const readKeys: Template = {
  name: 'api_keys_read',
  text: (t) => `
${t.with} w as materialized (
  select w.* from unnest($1::text[]) with ordinality as w (hashed_secret, ord)${t.held}
)
select (w.ord - 1)::text,
  case${whenKeyIsBad('$2::timestamptz')}
  end,
  k.org_id::text, k.id::text, k.livemode::text, array_to_string(k.scopes, ' '),
  (select market_access from ${t('organizations')} where id = k.org_id)
from w
left join lateral (select * from ${t('api_keys')} where hashed_secret = w.hashed_secret limit 1) k on true`,
};

interface KeyRequest {
  hashedSecret: string;
}

interface KeyState {
  problem: KeyProblem | null;
  principal: Principal;
}

export function createKeyReader({ db, clock }: { db: Database; clock: Clock }): KeyReader {
  const identities = new Map<string, KeyIdentity>();
  function remember(hashedSecret: string, { orgId, keyId }: Principal): void {
    if (keyId === '' || identities.has(hashedSecret)) return;
    if (identities.size >= MAX_IDENTITIES) identities.delete(identities.keys().next().value!);
    identities.set(hashedSecret, { orgId, keyId });
  }
  const coalescer = createGroupCoalescer<KeyRequest, KeyState>(db.shards, ({ run, parallelReads }) => ({
    async flush(requests) {
      const states = new Map<string, KeyState>(requests.map(({ hashedSecret }) => [hashedSecret, missing]));
      const distinct = [...states.keys()];
      const rows = await run(readKeys, [textArray(distinct), new Date(clock.now()).toISOString()]);
      for (const [place, problem, orgId, keyId, livemode, scopeList, marketAccess] of rows) {
        const principal = {
          orgId: orgId ?? '',
          keyId: keyId ?? '',
          livemode: livemode === 'true',
          scopes: scopeList?.split(' ') ?? [],
          marketAccess: (marketAccess ?? 'none') as MarketAccess,
        };
        remember(distinct[Number(place)]!, principal);
        states.set(distinct[Number(place)]!, { problem: (problem ?? null) as KeyProblem | null, principal });
      }
      return requests.map(({ hashedSecret }) => states.get(hashedSecret)!);
    },
    parallel: parallelReads,
    fullWeight: 32,
    maxWeight: 500,
    queueLimit: { weight: 10_000, bytes: Infinity },
  }));
  return {
    async authenticate(hashedSecret, scope) {
      const { problem, principal } = await coalescer.submit({ hashedSecret });
      const error = keyError(problem ?? findLack(principal, scope), scope ?? '');
      if (error) throw error;
      return principal;
    },
    identify: (hashedSecret) => identities.get(hashedSecret),
  };
}

/** What keeps a good key from what the call needs. */
function findLack({ scopes, marketAccess }: Principal, scope: Scope | null): KeyProblem | null {
  if (scope === null) return null;
  if (!scopes.includes(scope)) return 'insufficient_scope';
  return isOfMarkets(scope) && marketAccess === 'none' ? 'no_market_access' : null;
}

const missing: KeyState = {
  problem: 'invalid_key',
  principal: { orgId: '', keyId: '', livemode: false, scopes: [], marketAccess: 'none' },
};
