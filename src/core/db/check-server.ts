import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { sqlState } from './client.js';

/** The database answers, but Gauge cannot work on it as it is set up; the message says what to change. */
export class UnsuitableDatabaseError extends Error {}

/**
 * Finds a pooler that hands the connection to others between transactions. Prepared statements and settings would then
 * land on connections of strangers: what one client has set is looked for from another while that is in a transaction, and
 * then again from the first.
 * @throws UnsuitableDatabaseError
 */
export async function requireOwnSessions(pool: pg.Pool): Promise<void> {
  const mark = randomUUID();
  const read = async (client: pg.PoolClient) => {
    const { rows } = await client.query<{ mark: string | null }>(
      `select current_setting('gauge.session_mark', true) as mark`,
    );
    return rows[0]?.mark;
  };
  const mine = await pool.connect().catch(explainRefusal);
  let other: pg.PoolClient | undefined;
  try {
    await mine.query(`select set_config('gauge.session_mark', $1, false)`, [mark]);
    other = await pool.connect();
    await other.query('begin');
    if ((await read(other)) === mark || (await read(mine)) !== mark)
      throw new UnsuitableDatabaseError(
        'DATABASE_URL leads through a pooler in transaction mode. Gauge prepares its statements per connection: connect directly, or set the pooler to session mode (pool_mode = session).',
      );
  } finally {
    // Both end: one has the mark, the other is in a transaction.
    other?.release(true);
    mine.release(true);
  }
}

/** A refusal that waiting does not change: of the password, of the database's name, or of how the connection is set up. */
function explainRefusal(error: unknown): never {
  if (/^(28|3D000|08P01)/.test(sqlState(error) ?? ''))
    throw new UnsuitableDatabaseError(`DATABASE_URL is refused: ${(error as Error).message}`);
  throw error;
}
