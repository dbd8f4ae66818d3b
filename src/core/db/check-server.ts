import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import type pg from 'pg';
import { isDatabaseUnavailable, sqlState } from './client.js';
import { placeOf } from './outage.js';

const ANSWER_MS = 1_000;

/** The message says what to change. */
export class UnsuitableDatabaseError extends Error {}

/**
 * Detects a pooler that assigns connections per transaction and would leak prepared statements and settings to other
 * clients: a second connection in a transaction must not see a mark that was set on the first.
 */
export async function requireOwnSessions(pool: pg.Pool): Promise<void> {
  const { connectionString: url = '' } = pool.options;
  const mark = randomUUID();
  const read = async (client: pg.PoolClient) => {
    const { rows } = await client.query<{ mark: string | null }>(
      `select current_setting('gauge.session_mark', true) as mark`,
    );
    return rows[0]?.mark;
  };
  const mine = await pool.connect().catch((error: unknown) => explainRefusal(error, url, 'DATABASE_URL'));
  let other: pg.PoolClient | undefined;
  try {
    await mine.query(`select set_config('gauge.session_mark', $1, false)`, [mark]);
    other = await pool.connect();
    await other.query('begin');
    if ((await read(other)) === mark || (await read(mine)) !== mark)
      throw new UnsuitableDatabaseError(
        'DATABASE_URL connects through a pooler in transaction mode. Gauge prepares statements on each connection. Connect directly, or set the pooler to session mode (pool_mode = session).',
      );
  } finally {
    // One connection has the mark, the other is in a transaction.
    other?.release(true);
    mine.release(true);
  }
}

/** Node's codes for a certificate whose chain ends in no known authority. */
const unknownAuthority = /SELF_SIGNED_CERT|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)/;

/**
 * Explains errors that waiting will not fix; rethrows the original error if the database is only unavailable.
 * @param variable the environment variable that holds the URL
 */
export async function explainRefusal(error: unknown, url: string, variable: string): Promise<never> {
  const state = sqlState(error) ?? '';
  const place = placeOf(url);
  if (/^(28|3D000|08P01)/.test(state)) {
    const { message } = error as Error;
    const remedy = state === '3D000' ? `Create it there, or correct ${variable}` : `Correct ${variable}`;
    throw new UnsuitableDatabaseError(`Postgres at ${place} refuses ${variable}: ${message}. ${remedy}.`);
  }
  if (!isDatabaseUnavailable(error)) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    const remedy = unknownAuthority.test(code)
      ? `If a private authority signed its certificate, name that authority's certificate: ${variable}=…?sslmode=verify-full&sslrootcert=/path/to/ca.pem`
      : `Correct ${variable}`;
    throw new UnsuitableDatabaseError(
      `${variable} cannot be used at ${place}: ${message.replace(/\.$/, '')}. ${remedy}.`,
    );
  }
  if (state === '' && (await isForeign(url)))
    throw new UnsuitableDatabaseError(
      `the server at ${place} is not Postgres. Correct the host or the port of ${variable}.`,
    );
  throw error;
}

/** Postgres answers with a single byte, S or N, or with an error (E) if it has no free connections. */
const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** A server that sends nothing may still be starting. */
async function isForeign(url: string): Promise<boolean> {
  const { hostname, port, searchParams } = new URL(url);
  if (hostname === '' || searchParams.has('host')) return false;
  const socket = connect(Number(port || 5432), hostname.replace(/^\[|\]$/g, ''));
  try {
    socket.write(sslRequest);
    const [first] = (await once(socket, 'data', { signal: AbortSignal.timeout(ANSWER_MS) })) as [Buffer];
    return !/^(?:[SN]$|E)/.test(first.toString('latin1'));
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
