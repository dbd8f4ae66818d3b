import { v7 as uuid } from 'uuid';
import type { Tx, Database, Orm } from '../../core/db/client.js';
import { asStored, hashRow, OPERATOR_CHAIN } from './chain.js';
import { insertOperatorRow, insertRows, lockChains, lockOperatorChain, type ChainEnd } from './queries.js';
import type { Clock } from '../../core/time.js';
import { retryOnConflict } from '../../core/db/sql.js';

export interface AuditEntry {
  at: Date;
  /** Noun first, such as `api_key.created`. */
  action: string;
  /** A User's id, `operator` with or without a name, `api_key:` and an id, `single_sign_on`, `system` or `unknown`. */
  actor: string;
  target: string;
  details?: Record<string, unknown>;
  ip?: string | undefined;
  requestId?: string | undefined;
}

/** `tx` must make the change. Locks the chains until the commit: call this once, after taking all other locks. */
export async function recordAudits(
  tx: Tx,
  entries: readonly (AuditEntry & { orgId: string })[],
): Promise<void> {
  if (entries.length === 0) return;
  const orgIds = entries.map(({ orgId }) => orgId);
  const ends = await lockChains(tx, orgIds);
  const rows = entries.map(({ orgId, ...entry }) => {
    const row = link(ends.get(orgId)!, orgId, entry);
    ends.set(orgId, row);
    return row;
  });
  await insertRows(tx, rows);
}

export const recordAudit = (tx: Tx, orgId: string, entry: AuditEntry): Promise<void> =>
  recordAudits(tx, [{ orgId, ...entry }]);

/** To avoid deadlocks, call this after locking the chains of all Organizations. */
export async function recordOperatorAudit(tx: Tx, entry: AuditEntry): Promise<void> {
  await insertOperatorRow(tx, link(await lockOperatorChain(tx), OPERATOR_CHAIN, entry));
}

function link(end: ChainEnd, orgId: string, entry: AuditEntry) {
  const { at, details = {}, ip = null, requestId = null, ...rest } = entry;
  const seq = end.seq + 1;
  // With `seq` in the id, rows from the same millisecond stay in order.
  const id = uuid({ msecs: at.getTime(), seq });
  const row = { orgId, seq, ...rest, details: asStored(details), ip, requestId, id };
  return { ...row, at, hash: hashRow(end.hash, { ...row, at: at.toISOString() }) };
}

/** For a transaction that then writes to the logs in any order. */
export async function lockLogs(tx: Tx, orgIds: readonly string[]): Promise<void> {
  if (orgIds.length > 0) await lockChains(tx, orgIds);
}

/** Checked again in the change's transaction, with locks held until the commit. */
export interface Authority {
  /** Taken before all others, to serialize changes made under this authority. */
  lock?(tx: Orm): Promise<unknown>;
  /** @throws AppError not_signed_in, forbidden_role, invalid_key, key_revoked, key_expired, insufficient_scope */
  confirm(tx: Orm, now: Date): Promise<void>;
}

const unconditional: Authority = { confirm: () => Promise.resolve() };

/** For changes that verify a password, a code or a link's secret in their own transaction. */
export const byProof = unconditional;

export const byService = unconditional;

export interface ChangeDeps {
  db: Pick<Database, 'orm'>;
  clock: Clock;
}

/**
 * Checks the author's authority again under locks, so nothing changes if the author has since been removed, demoted or
 * signed out, or if their key has been revoked. Retries on conflicts. Inside `work`, use only the given `tx`. Lock
 * order: Organization, membership, User, session, audit chain.
 * @throws AppError as `Authority.confirm`
 */
export function change<T>({ db, clock }: ChangeDeps, by: Authority, work: (tx: Tx) => Promise<T>) {
  return retryOnConflict(() =>
    db.orm.transaction(
      async (tx) => {
        await by.lock?.(tx);
        return work(await confirmAuthority(tx, by, new Date(clock.now())));
      },
      // Each statement must see rows committed while the transaction waited for a lock.
      { isolationLevel: 'read committed' },
    ),
  );
}

class RolledBack extends Error {
  readonly result: unknown;

  constructor(result: unknown) {
    super('rolled back');
    this.result = result;
  }
}

/** Nothing stays changed, so the result says what the change would do. */
export const rehearse = <T>(deps: ChangeDeps, by: Authority, work: (tx: Tx) => Promise<T>): Promise<T> =>
  change(deps, by, async (tx): Promise<T> => {
    throw new RolledBack(await work(tx));
  }).catch((error: unknown) => {
    if (error instanceof RolledBack) return error.result as T;
    throw error;
  });

/** For high-traffic transactions that take other locks first; use `change` for everything else. */
export async function confirmAuthority(tx: Orm, by: Authority, now: Date): Promise<Tx> {
  await by.confirm(tx, now);
  return tx as unknown as Tx;
}
