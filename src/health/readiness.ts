import { setTimeout } from 'node:timers/promises';
import { sqlState, type Database } from '../core/db/client.js';
import { isMigrated, OutdatedError, requireNewEnough } from '../core/db/migrate.js';
import { describeOutage, readOnly } from '../core/db/outage.js';
import { queryRows } from '../core/db/sql.js';
import { refused, type Context, type Lifecycle } from '../core/http/context.js';
import { toAppError } from '../core/http/problem.js';
import { shareRun } from '../core/steps.js';
import { systemClock } from '../core/time.js';
import { createClockWatch } from './clock.js';
import { findGroupsAway } from './database.js';

export const databaseStates = [
  'ready',
  'database_unreachable',
  'database_read_only',
  'not_migrated',
  'outdated',
  'clock_off',
] as const;
type DatabaseState = (typeof databaseStates)[number];

export interface Readiness {
  status: Exclude<Lifecycle['state'], 'ready'> | DatabaseState;
  reason?: string;
  /** Calls for their Organizations get 503. */
  groupsAway?: string[];
}

/** All callers share the response. */
const CACHE_MS = 1_000;
/** Load balancers wait only a few seconds. */
const WAIT_MS = 2_000;
/** Shorter than `WAIT_MS`, so that other findings can still be reported. */
const DATABASE_WAIT_MS = 1_800;
const WATCH_EVERY_MS = 2_000;

type ReadinessDeps = Pick<Context, 'db' | 'log' | 'metrics' | 'lifecycle'>;
type ClockWatch = ReturnType<typeof createClockWatch>;

export type ReadinessWatch = ReturnType<typeof createReadiness>;

/**
 * Until a check succeeds, all calls get 503: the database must serve requests, this version must be new enough, and the
 * clocks must agree. The route needs no credential, so callers share one check, at most one per second.
 */
export function createReadiness({ db, log, metrics, lifecycle }: ReadinessDeps) {
  const compareClocks = createClockWatch({ log, metrics });
  let known: { at: number; readiness: Promise<Readiness> } | undefined;
  let last: Readiness['status'] = 'ready';
  async function ask(): Promise<Readiness> {
    const readiness = await Promise.race([
      checkReadiness(db, compareClocks),
      setTimeout(WAIT_MS, unreachable('the database does not answer'), { ref: false }),
    ]);
    const { status, reason: detail = '' } = readiness;
    if (status !== last) log.warn(readiness, 'readiness changed');
    last = status;
    if (status === 'outdated') lifecycle.refusal = { code: 'unavailable', detail };
    else if (status === 'clock_off')
      lifecycle.refusal = { code: 'clock_off', detail: `${detail[0]!.toUpperCase()}${detail.slice(1)}.` };
    else if (status !== 'database_unreachable') lifecycle.refusal = undefined;
    return readiness;
  }
  const asking = shareRun(ask);
  function check(): Promise<Readiness> {
    const now = performance.now();
    if (!known || now - known.at >= CACHE_MS) known = { at: now, readiness: asking.run() };
    return known.readiness;
  }
  return {
    check,
    async read(): Promise<Readiness> {
      const { state, refusal } = lifecycle;
      if (state === 'ready') return check();
      if (state === 'starting' && refusal) return { status: 'outdated', reason: refusal.detail };
      return { status: state };
    },
    /** An unexpected error of the database may be the first sign that a newer version has migrated it. */
    async explain(error: unknown): Promise<never> {
      if (sqlState(error) === undefined || toAppError(error).code !== 'internal') throw error;
      await asking.run();
      throw lifecycle.refusal ? refused(lifecycle.refusal, error) : error;
    },
    watch(): () => void {
      const timer = setInterval(() => void check(), WATCH_EVERY_MS).unref();
      return () => clearInterval(timer);
    },
  };
}

const unreachable = (reason: string): Readiness => ({ status: 'database_unreachable', reason });

async function checkReadiness(db: Database, compareClocks: ClockWatch): Promise<Readiness> {
  const [away, whole] = await Promise.all([
    findGroupsAway(db.shards),
    Promise.race([
      checkDatabase(db, compareClocks),
      setTimeout(DATABASE_WAIT_MS, unreachable('the database does not answer'), { ref: false }),
    ]),
  ]);
  if (!away) return whole;
  // Calls with known keys do not need the coordinator.
  if (whole.status === 'database_unreachable' && away.groups.length < db.shards.groups.length)
    return {
      status: 'ready',
      reason: `the coordinator: ${whole.reason}; pages and unknown keys have to wait for it`,
      groupsAway: away.groups,
    };
  return away.groups.length === 0
    ? whole
    : {
        reason: `shard groups on ${away.workers.join(', ')} cannot be reached or are read-only`,
        ...whole,
        groupsAway: away.groups,
      };
}

async function checkDatabase(db: Database, compareClocks: ClockWatch): Promise<Readiness> {
  try {
    await db.ping();
    await requireNewEnough(db);
    if (!(await isMigrated(db))) return { status: 'not_migrated' };
    // Uses the system clock, because the injected clock may replay a tape.
    const askedMs = systemClock.now();
    const [row] = await queryRows(db.orm)<{ isReadOnly: boolean; databaseMs: number }>`
      select current_setting('transaction_read_only')::boolean as "isReadOnly",
      (extract(epoch from clock_timestamp()) * 1000)::float8 as "databaseMs"`;
    const { isReadOnly, databaseMs } = row!;
    const { isOff, reason } = compareClocks({ databaseMs, askedMs, answeredMs: systemClock.now() });
    if (isReadOnly) return { status: 'database_read_only', reason: readOnly };
    return { status: isOff ? 'clock_off' : 'ready', ...(reason === undefined ? {} : { reason }) };
  } catch (error) {
    if (error instanceof OutdatedError) return { status: 'outdated', reason: error.message };
    return unreachable(describeOutage(error) ?? 'the database cannot be queried');
  }
}
