import { whenKeyIsBad, type KeyProblem, type Principal } from '../../accounts/api-keys/bearer-key.js';
import type { ServiceKeyState } from '../../accounts/service-keys/access.js';
import type { Context } from '../../core/http/context.js';
import type { Names, Template } from '../../core/db/client.js';
import { createRecall } from '../../core/collections.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import { textArray } from '../../core/db/sql.js';
import { findAll, findOptions, toBalance, type Balance, type FindRequest } from './reader.js';
import { findBalances, withGrants, type EntitlementRow } from './statements.js';

export interface KeyIdentity extends Pick<Principal, 'scopes' | 'marketAccess'> {
  /** Its members of the answer. */
  json: string;
}

export interface KeyVerification {
  /** Undefined if there is no such service key. */
  serviceKey: ServiceKeyState | undefined;
  problem: KeyProblem | null;
  /** Undefined if there is no such key. */
  key: KeyIdentity | undefined;
  /** Undefined without an entitlement in effect. */
  balance: Balance | undefined;
}

export interface VerifyRequest extends FindRequest {
  serviceHash: string;
}

export type KeyVerifier = (request: VerifyRequest) => Promise<KeyVerification>;

/** Reads in one statement what a check reads, whatever the key's scopes, the key itself, and the caller's service key. */
export function createKeyVerifier({ db, clock }: Pick<Context, 'db' | 'clock'>): KeyVerifier {
  const verifier = createGroupCoalescer<VerifyRequest, KeyVerification>(
    db.shards,
    ({ run, parallelReads }) => {
      let isPriced = false;
      return {
        async flush(requests) {
          const serviceHashes = [...new Set(requests.map(({ serviceHash }) => serviceHash))];
          const keys = new Map<string, Pick<KeyVerification, 'problem' | 'key'>>();
          const serviceKeys = new Map<string, ServiceKeyState>();
          const found = await findAll(run, requests, clock.now(), {
            template: isPriced ? verifyPricedKeys : verifyKeys,
            readsGrants: isPriced,
            read: toBalance,
            values: [textArray(serviceHashes)],
            readOther({ place: hash, kind, problem, features }: IdentityRow) {
              if (kind === 'service') serviceKeys.set(hash, recallServiceKey(features!, toServiceKey));
              if (kind !== 'key') return kind === 'service';
              const key = features === null ? undefined : recallIdentity(features, toIdentity);
              keys.set(hash, { problem: problem as KeyProblem | null, key });
              return true;
            },
          });
          isPriced = found.isPriced;
          return requests.map(({ hashedSecret, serviceHash }, i) => {
            const balances = found.answers[i]!;
            return {
              serviceKey: serviceKeys.get(serviceHash),
              problem: null,
              key: undefined,
              ...keys.get(hashedSecret),
              balance: balances instanceof Error ? undefined : balances[0],
            };
          });
        },
        parallel: parallelReads,
        ...findOptions,
        weigh: () => 1,
      };
    },
  );
  return (request) => verifier.submit(request);
}

const keyColumns = `case${whenKeyIsBad('$4::timestamptz')} end as problem, w.hashed_secret, k.id, k.name, k.scopes, k.expires_at`;

/** Each key, and the service keys of the callers. $7 their hashes */
const identities = (t: Names) => `
union all
select k.hashed_secret, k.problem, 'key', null, null, null, null, case when k.id is not null then
  json_build_object('keyId', k.id, 'name', k.name, 'livemode', k.livemode, 'scopes', k.scopes, 'expiresAt', k.expires_at,
    'organization', o.slug, 'marketAccess', o.market_access)::text end
from key k left join lateral (select slug, market_access from ${t('organizations')} where id = k.org_id limit 1) o on true
union all
select hashed_secret, null, 'service', null, null, null, null,
  json_build_object('id', id, 'scopes', scopes, 'expiresAt', expires_at, 'revokedAt', revoked_at)::text
from ${t('service_keys')} where hashed_secret = any ($7::text[])`;

const verifyKeys: Template = findBalances('keys_verify', '', identities, keyColumns);
const verifyPricedKeys: Template = findBalances(
  'keys_verify_priced',
  '',
  (t) => withGrants(t) + identities(t),
  keyColumns,
);

interface KeyRow extends Pick<Principal, 'keyId' | 'livemode' | 'scopes' | 'marketAccess'> {
  organization: string;
  name: string;
  expiresAt: string | null;
}

type IdentityRow = Pick<EntitlementRow, 'place' | 'problem' | 'features'> & { kind: string | null };

/** Keys rarely change, but each flush returns those of all its calls. */
const recallIdentity = createRecall<KeyIdentity>(5_000);
const recallServiceKey = createRecall<ServiceKeyState>(500);

function toIdentity(row: string): KeyIdentity {
  const { organization, keyId, name, scopes, livemode, expiresAt, marketAccess } = JSON.parse(row) as KeyRow;
  const answer = { organization, keyId, name, scopes, livemode, expiresAt: toDate(expiresAt) };
  return { scopes, marketAccess, json: JSON.stringify(answer).slice(1, -1) };
}

function toServiceKey(row: string): ServiceKeyState {
  const key = JSON.parse(row) as ServiceKeyState & Record<'expiresAt' | 'revokedAt', string | null>;
  return { ...key, expiresAt: toDate(key.expiresAt), revokedAt: toDate(key.revokedAt) };
}

const toDate = (time: string | null): Date | null => (time === null ? null : new Date(time));
