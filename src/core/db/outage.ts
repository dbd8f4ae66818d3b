import type { Logger } from 'pino';
import { isDatabaseUnavailable, sqlState } from './client.js';
import type { ConnectionWatch } from './connection.js';

/** The same condition is logged again after this time, with how often it was met meanwhile. */
const REPEAT_AFTER_MS = 60_000;

export const readOnly =
  'the database is read-only (a standby, or default_transaction_read_only): nothing can be recorded';

/** Conditions that an operator has to do something about, by SQLSTATE. */
const conditions: Record<string, string> = {
  '25006': readOnly,
  '26000': 'a prepared statement is gone: DATABASE_URL leads through a pooler in transaction mode',
  '42P05': 'a prepared statement is not ours: DATABASE_URL leads through a pooler in transaction mode',
  '53100': 'the disk of the database is full: nothing can be recorded',
  '53200': 'the database is out of memory',
  '53300': 'the database has no connection to spare: raise max_connections, or run fewer instances',
  '57014': 'a statement took too long',
  '55P03': 'a statement waited too long for a lock',
};

/** Other transactions in the way: part of ordinary work, and done again. */
const ordinary = new Set(['40001', '40P01']);

/** What the database's unavailability comes from, in a sentence; undefined for an error that is about the statement. */
export function describeOutage(error: unknown): string | undefined {
  const state = sqlState(error) ?? '';
  if (ordinary.has(state)) return undefined;
  return conditions[state] ?? (isDatabaseUnavailable(error) ? 'the database cannot be reached' : undefined);
}

/**
 * Says once what is the matter with the database, however many connections and requests meet it, and once that it
 * is over.
 */
export function createOutageLog(log: Logger, nowMs: () => number = () => performance.now()): ConnectionWatch {
  const met = new Map<string, { saidAtMs: number; unsaid: number }>();
  let isAway = false;
  return {
    onConnected() {
      if (!isAway) return;
      isAway = false;
      log.info('the database is reached again');
    },
    onError(error) {
      const condition = describeOutage(error);
      if (condition === undefined) return;
      isAway ||= /^(08|57P|$)/.test(sqlState(error) ?? '');
      const last = met.get(condition);
      if (last && nowMs() - last.saidAtMs < REPEAT_AFTER_MS) {
        last.unsaid++;
        return;
      }
      met.set(condition, { saidAtMs: nowMs(), unsaid: 0 });
      // No stack: it would lead into the driver, not to a cause.
      const { message } = error as Error;
      log.warn({ reason: message, code: sqlState(error), ...(last && { before: last.unsaid }) }, condition);
    },
  };
}
