import { v7 as uuid } from 'uuid';
import type { Tx, Database, Orm } from '../../core/db/client.js';
import { asStored, genesisHash, hashRow, OPERATOR_CHAIN } from './chain.js';
import { lockChain, lockOperatorChain, moveChainEnd } from './queries.js';
import { auditLog, operatorChain, operatorLog } from './table.js';
import type { Clock } from '../../core/time.js';
import { retryOnConflict } from '../../core/db/sql.js';

export interface AuditEntry {
  at: Date;
  /** Noun first: `api_key.created`. */
  action: string;
  /** A User's id, `operator` with the name of its token if it has one, `api_key` with its id, `system`, or `unknown`. */
  actor: string;
  target: string;
  details?: Record<string, unknown>;
  ip?: string | undefined;
  requestId?: string | undefined;
}

/**
 * Writes the audit row of a change inside an Organization. `tx` is the change's own transaction: both happen or neither.
 *
 * The row is added to the Organization's chain, whose lock is held until the transaction ends. So that changes never
 * wait for each other in a circle, this comes after every other lock of the transaction, and a change of
 * several Organizations writes in the order of their ids.
 */
export async function recordAudit(tx: Tx, orgId: string, entry: AuditEntry): Promise<void> {
  const end = await lockChain(tx, orgId, genesisHash(orgId));
  const seq = end.seq + 1;
  const { at, ...rest } = toRow(entry);
  // Rows of the same millisecond are in the order of the chain, whichever instance wrote them.
  const row = { orgId, seq, ...rest, id: uuid({ msecs: at.getTime(), seq }) };
  const hash = hashRow(end.hash, { ...row, at: at.toISOString() });
  await tx.insert(auditLog).values({ ...row, at, hash });
  await moveChainEnd(tx, { orgId, seq, hash });
}

/** Writes the audit row of a change that belongs to no Organization. Its chain is the last lock of all, after those of Organizations. */
export async function recordOperatorAudit(tx: Tx, entry: AuditEntry): Promise<void> {
  const end = await lockOperatorChain(tx, genesisHash(OPERATOR_CHAIN));
  const seq = end.seq + 1;
  const { at, ...rest } = toRow(entry);
  const row = { seq, ...rest, id: uuid({ msecs: at.getTime(), seq }) };
  const hash = hashRow(end.hash, { ...row, orgId: OPERATOR_CHAIN, at: at.toISOString() });
  await tx.insert(operatorLog).values({ ...row, at, hash });
  await tx.update(operatorChain).set({ seq, hash });
}

function toRow({ details, ip, requestId, ...rest }: AuditEntry) {
  return { ...rest, details: asStored(details ?? {}), ip: ip ?? null, requestId: requestId ?? null };
}

/** On what a change rests. It is read again in the transaction of the change, under locks that keep it until the commit. */
export interface Authority {
  /** Taken first of all, where changes under this authority wait for each other. */
  lock?(tx: Orm): Promise<unknown>;
  /** @throws AppError not_signed_in, forbidden_role, invalid_key, key_revoked, key_expired, insufficient_scope */
  confirm(tx: Orm, now: Date): Promise<void>;
}

const unconditional: Authority = { confirm: () => Promise.resolve() };

/** The change itself checks a password, a code or the secret of a link in its transaction. */
export const byProof = unconditional;

/** Jobs, commands and the demo. */
export const byService = unconditional;

export interface ChangeDeps {
  db: Pick<Database, 'orm'>;
  clock: Clock;
}

/**
 * The one path of every change: one transaction in which the author's authority is read again and held, so that an author
 * who was removed, demoted, signed out or revoked while the request was on its way changes nothing. Starts again when
 * another request got in between; inside `work` use only the `tx` it is given.
 *
 * Locks are taken in the order Organization, membership, User, session, audit chain.
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
      // Each statement sees what was committed while it waited for the locks.
      { isolationLevel: 'read committed' },
    ),
  );
}

/**
 * Reads the authority of a change again and holds it until the transaction ends. For transactions of hot statements,
 * which take locks of their own first; everything else goes through `change`.
 * @throws AppError as `Authority.confirm`
 */
export async function confirmAuthority(tx: Orm, by: Authority, now: Date): Promise<Tx> {
  await by.confirm(tx, now);
  return tx as unknown as Tx;
}
