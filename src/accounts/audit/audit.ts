import { v7 as uuid } from 'uuid';
import type { Tx, Database, Orm } from '../../core/db/client.js';
import { asStored, hashRow, OPERATOR_CHAIN } from './chain.js';
import { insertRow, lockChain, moveChainEnd } from './queries.js';
import type { Clock } from '../../core/time.js';
import { retryOnConflict } from '../../core/db/sql.js';

export interface AuditEntry {
  at: Date;
  /** Noun first, such as `api_key.created`. */
  action: string;
  /**
   * A User's id, `operator`, `operator:` and a name, `api_key:` and an id, `single_sign_on`, `system`, or `unknown`.
   */
  actor: string;
  target: string;
  details?: Record<string, unknown>;
  ip?: string | undefined;
  requestId?: string | undefined;
}

/**
 * `tx` must make the change. Locks the chain until the commit: to avoid deadlocks, call this after taking all other
 * locks, and in id order for several Organizations.
 */
export async function recordAudit(tx: Tx, orgId: string, entry: AuditEntry): Promise<void> {
  const end = await lockChain(tx, orgId);
  const seq = end.seq + 1;
  const { at, details = {}, ip = null, requestId = null, ...rest } = entry;
  // With `seq` in the id, rows from the same millisecond stay in order.
  const id = uuid({ msecs: at.getTime(), seq });
  const row = { seq, ...rest, details: asStored(details), ip, requestId, id };
  const hash = hashRow(end.hash, { ...row, orgId, at: at.toISOString() });
  await insertRow(tx, orgId, { ...row, at, hash });
  await moveChainEnd(tx, orgId, { seq, hash });
}

/** Locks in id order, for a transaction that then writes to the logs in any order. */
export async function lockLogs(tx: Tx, orgIds: readonly string[]): Promise<void> {
  for (const id of orgIds.toSorted()) await lockChain(tx, id);
}

/** To avoid deadlocks, call this after locking the chains of all Organizations. */
export const recordOperatorAudit = (tx: Tx, entry: AuditEntry): Promise<void> =>
  recordAudit(tx, OPERATOR_CHAIN, entry);

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
export function change<T>(
  { db, clock }: ChangeDeps,
  by: Authority,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
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

/** For high-traffic transactions that take other locks first; use `change` for everything else. */
export async function confirmAuthority(tx: Orm, by: Authority, now: Date): Promise<Tx> {
  await by.confirm(tx, now);
  return tx as unknown as Tx;
}
