import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import type { Logger } from 'pino';
import type { Database } from '../core/db/client.js';
import { isMigrated } from '../core/db/migrate.js';
import { describeOutage, readOnly } from '../core/db/outage.js';
import { selectRows } from '../core/db/select-rows.js';

export const databaseStates = [
  'ready',
  'database_unreachable',
  'database_read_only',
  'not_migrated',
] as const;
type DatabaseState = (typeof databaseStates)[number];

export interface Readiness {
  status: DatabaseState;
  /** What an operator has to do something about. */
  reason?: string;
}

/** An answer holds for so long, whoever asks. */
const HOLDS_MS = 1_000;
/** Load balancers wait for a few seconds. */
const WAIT_MS = 2_000;

/**
 * Says whether the database can serve. It is asked at most once a second and once at a time, however many ask here: nobody
 * needs a credential for that. Changes are logged.
 */
export function createReadiness({ db, log }: { db: Database; log: Logger }): () => Promise<Readiness> {
  let known: { at: number; readiness: Promise<Readiness> } | undefined;
  let last: DatabaseState = 'ready';
  async function ask(): Promise<Readiness> {
    const readiness = await Promise.race([
      lookAt(db),
      setTimeout(WAIT_MS, unreachable('the database does not answer'), { ref: false }),
    ]);
    if (readiness.status !== last) log.warn(readiness, 'the readiness has changed');
    last = readiness.status;
    return readiness;
  }
  return () => {
    const now = performance.now();
    if (!known || now - known.at >= HOLDS_MS) known = { at: now, readiness: ask() };
    return known.readiness;
  };
}

const unreachable = (reason: string): Readiness => ({ status: 'database_unreachable', reason });

async function lookAt(db: Database): Promise<Readiness> {
  try {
    if (!(await isMigrated(db))) return { status: 'not_migrated' };
    const [row] = await selectRows<{ is_read_only: boolean }>(
      db.orm,
      sql`select current_setting('transaction_read_only')::boolean as is_read_only`,
    );
    return row?.is_read_only ? { status: 'database_read_only', reason: readOnly } : { status: 'ready' };
  } catch (error) {
    return unreachable(describeOutage(error) ?? 'the database cannot be asked');
  }
}
