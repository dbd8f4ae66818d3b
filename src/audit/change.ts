import type { Clock } from '../core/clock.js';
import type { Database, Orm, Tx } from '../core/db/client.js';
import { retryOnConflict } from '../core/db/conflict.js';

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
