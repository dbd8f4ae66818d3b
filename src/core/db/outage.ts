import type { Logger } from 'pino';
import { codeOf } from '../errors.js';
import { isDatabaseUnavailable, READ_ONLY, sqlState } from './client.js';
import type { ConnectionWatch } from './connection.js';

/** Interval at which an ongoing condition is logged, with the number of unlogged occurrences. */
const REPEAT_AFTER_MS = 60_000;

export const readOnly =
  'the database is read-only (a standby, or default_transaction_read_only): nothing can be recorded';

const conditions: Record<string, string> = {
  [READ_ONLY]: readOnly,
  '26000': 'a prepared statement is missing: DATABASE_URL connects through a pooler in transaction mode',
  '42P05':
    'a prepared statement belongs to another client: DATABASE_URL connects through a pooler in transaction mode',
  '53100': 'the database disk is full: nothing can be recorded',
  '53200': 'the database is out of memory',
  '53300': 'the database has no free connection: raise max_connections, or run fewer instances',
  '57014': 'a statement took too long',
  '55P03': 'a statement waited too long for a lock',
};

/** The pool's message when a request times out in its queue; a slow connection causes a different one. */
const QUEUED_TOO_LONG = 'timeout exceeded when trying to connect';

export function isOutOfConnections(error: unknown): boolean {
  for (let e = error; e instanceof Error; e = e.cause) if (e.message === QUEUED_TOO_LONG) return true;
  return false;
}

/** Conflicts between transactions are normal and are retried. */
const ordinary = new Set(['40001', '40P01']);

/** Undefined if the statement itself failed. */
export function describeOutage(error: unknown): string | undefined {
  const state = sqlState(error) ?? '';
  if (ordinary.has(state)) return undefined;
  if (isOutOfConnections(error))
    return 'every connection of this instance is in use: statements are slow or are waiting for a lock';
  return conditions[state] ?? (isDatabaseUnavailable(error) ? 'the database cannot be reached' : undefined);
}

const absences: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'the host name cannot be resolved',
  EAI_AGAIN: 'the host name cannot be resolved',
  ETIMEDOUT: 'the host does not answer',
  EHOSTUNREACH: 'the host does not answer',
  ENOENT: 'the socket does not exist',
};

export function describeAwaited(error: unknown, databaseUrl = ''): string {
  const condition = describeOutage(error);
  if (sqlState(error) !== undefined) return `Waiting for the database: ${condition ?? 'it is busy'}.`;
  const reason = absences[codeOf(error) ?? ''] ?? 'the connection closes before Postgres answers';
  return `Waiting for Postgres at ${placeOf(databaseUrl)}: ${reason}. Start Postgres there, or stop Gauge and correct DATABASE_URL.`;
}

export function placeOf(databaseUrl: string): string {
  const { hostname, port, searchParams } = new URL(databaseUrl);
  return `${searchParams.get('host') ?? (hostname || 'localhost')}:${port || '5432'}`;
}

/** Logs each problem once per `REPEAT_AFTER_MS`, and logs when the database can be reached again. */
export function createOutageLog(log: Logger, nowMs: () => number = () => performance.now()): ConnectionWatch {
  const met = new Map<string, { loggedAtMs: number; unlogged: number }>();
  let isAway = false;
  let wasReached = false;
  return {
    onConnected() {
      wasReached = true;
      if (!isAway) return;
      isAway = false;
      log.info('the database can be reached again');
    },
    onError(error) {
      const condition = describeOutage(error);
      if (condition === undefined) return;
      const isAbsence = /^(08|57P|$)/.test(sqlState(error) ?? '') && !isOutOfConnections(error);
      // Before the first connection, the startup code logs what it is waiting for.
      if (isAbsence && !wasReached) return;
      isAway ||= isAbsence;
      const last = met.get(condition);
      if (last && nowMs() - last.loggedAtMs < REPEAT_AFTER_MS) {
        last.unlogged++;
        return;
      }
      met.set(condition, { loggedAtMs: nowMs(), unlogged: 0 });
      // The stack shows only driver code.
      const { message } = error as Error;
      log.warn({ reason: message, code: sqlState(error), ...(last && { before: last.unlogged }) }, condition);
    },
  };
}
