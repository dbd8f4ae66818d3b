import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { Database } from '../../core/db/client.js';
import { inParallel } from '../market/chunks.js';
import type { MarketEvent } from '../market/event.js';
import { addDays } from '../market/calendar.js';
import { climateDayAt, climateDayOf } from '../market/climate-day.js';
import { createLease } from '../../core/db/lease.js';
import { stations, type Station } from '../market/stations.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import type { ClimateProduct } from './product.js';
import {
  dailyKinds,
  deleteOldReports,
  insertReport,
  listReported,
  readCrossChecks,
  recordSettled,
  type CrossCheck,
  type DailyKind,
  type DayKey,
} from './queries.js';
import type { ClimateReader } from './reader.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Final reports come from an hour after the day on, most within three. */
const EARLIEST_MS = 45 * MINUTE_MS;
const MOST_COME_WITHIN_MS = 8 * HOUR_MS;
const WHILE_OPEN_MS = 10 * MINUTE_MS;
const WHILE_LATE_MS = HOUR_MS;
/** Corrections are kept as well, and are in no hurry. */
const WHILE_KNOWN_MS = 3 * HOUR_MS;
/** Reports older than this are not asked for. */
const WINDOW_MS = 3 * DAY_MS;
const AT_ONCE = 2;
const KEPT_DAYS = 400;
/** Longer than the pause between two passes. */
const LEASE_SECONDS = 15 * 60;

export interface ClimateWatch {
  /** Asks for what is due, compares it with what the venue says, and adds up how often they agree. */
  run(): Promise<void>;
  /** By station and kind. A new object with every pass. */
  readonly crossChecks: CrossChecks;
  cleanUp(): Promise<void>;
  stop(): Promise<void>;
}

export type CrossChecks = ReadonlyMap<string, Readonly<Partial<Record<DailyKind, CrossCheck>>>>;

export interface ClimateWatchOptions {
  reader: ClimateReader;
  db: Pick<Database, 'orm'>;
  snapshots: Pick<SnapshotStore, 'current'>;
  clock: Clock;
  log: Logger;
}

/**
 * Keeps the first final climate report of each station and day, and says how often the venue settled by it: since 2026-08-14 another
 * company stands between the two, and the latest report is no evidence (on 2026-08-29 Miami's was corrected from 90 to 85, and 90
 * was paid). One instance asks: some 25 questions for each station a day, 600 in all.
 */
export function createClimateWatch({
  reader,
  db: { orm },
  snapshots,
  clock,
  log,
}: ClimateWatchOptions): ClimateWatch {
  const lease = createLease(orm, 'climate-reports', { lengthSeconds: LEASE_SECONDS });
  const stopping = new AbortController();
  const askedAt = new Map<string, number>();
  const seen = new Map<string, number>();
  let crossChecks: CrossChecks = new Map();
  let running: Promise<void> | undefined;

  async function pass(): Promise<void> {
    const { signal } = stopping;
    if (await lease.hold()) {
      const reported = await readReported();
      await inParallel(stations, { width: AT_ONCE, signal }, (station) => ask(station, reported, signal));
      const settled = settledDays(snapshots.current?.events ?? []);
      if (settled.length > 0) await recordSettled(orm, settled);
      for (const [id, at] of seen) if (clock.now() - at > 2 * WINDOW_MS) seen.delete(id);
    }
    crossChecks = groupChecks(await readCrossChecks(orm));
  }

  async function readReported(): Promise<Set<string>> {
    const since = new Date(clock.now() - WINDOW_MS).toISOString().slice(0, 10);
    return new Set((await listReported(orm, since)).map(keyOf));
  }

  /** A station that cannot be asked keeps no other from being asked. */
  async function ask(station: Station, reported: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const now = clock.now();
    if (!isDue(station, reported, now)) return;
    askedAt.set(station.id, now);
    try {
      const listed = await reader.list(station, signal);
      const since = Math.max(now - WINDOW_MS, listed[0]?.issuedAt.getTime() ?? now);
      // Oldest first, and none after one that failed: else a correction would pass for the first report.
      for (const product of listed.filter(
        ({ id, issuedAt }) => issuedAt.getTime() >= since && !seen.has(id),
      )) {
        signal.throwIfAborted();
        const read = await reader.read(station, product, signal);
        if (read?.isFinal) await keep(read, climateDayOf(station, read.date).end.getTime() >= since);
        if (!read) log.warn({ station: station.id, product: product.id }, 'a climate report cannot be read');
        seen.set(product.id, now);
      }
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        { err: error, station: station.id },
        'climate reports could not be read; they are asked for again',
      );
    }
  }

  function isDue(station: Station, reported: ReadonlySet<string>, now: number): boolean {
    const today = climateDayAt(station, new Date(now));
    const isKnown = dailyKinds.every((kind) =>
      reported.has(keyOf({ station: station.id, kind, date: addDays(today.date, -1) })),
    );
    const sinceDay = now - today.start.getTime();
    const whileUnknown = sinceDay < MOST_COME_WITHIN_MS ? WHILE_OPEN_MS : WHILE_LATE_MS;
    const last = askedAt.get(station.id);
    if (last === undefined) return true;
    return sinceDay >= EARLIEST_MS && Math.abs(now - last) >= (isKnown ? WHILE_KNOWN_MS : whileUnknown);
  }

  async function keep(report: ClimateProduct, isWhole: boolean): Promise<void> {
    const { stationId: station, date, issuedAt, isCorrection } = report;
    const values = { daily_maximum: report.maximumF, daily_minimum: report.minimumF };
    for (const kind of dailyKinds) {
      const value = values[kind];
      if (value !== null)
        await insertReport(orm, {
          station,
          kind,
          date,
          issuedAt,
          value,
          isCertain: isWhole && !isCorrection,
        });
    }
  }

  return {
    run: () =>
      (running ??= pass()
        .catch((error: unknown) => {
          if (!stopping.signal.aborted) throw error;
        })
        .finally(() => (running = undefined))),
    get crossChecks() {
      return crossChecks;
    },
    async cleanUp() {
      await deleteOldReports(orm, addDays(new Date(clock.now()).toISOString().slice(0, 10), -KEPT_DAYS));
    },
    async stop() {
      stopping.abort();
      await running;
      await lease.release().catch((error: unknown) => {
        log.warn({ err: error }, 'the lease of the climate reports ends by itself');
      });
    },
  };
}

const keyOf = ({ station, kind, date }: DayKey): string => `${station} ${kind} ${date}`;

/** Days whose markets the venue is done with, and of which it names one temperature. */
function settledDays(events: readonly MarketEvent[]): (DayKey & { settled: number })[] {
  return events.flatMap(({ kind, station, date, markets }) => {
    const named = new Set(markets.map(({ settledTemperature }) => settledTemperature));
    const [settled] = named;
    const isDone = named.size === 1 && markets.every(({ status }) => status === 'finalized');
    return kind !== 'hourly' && isDone && settled != null
      ? [{ station: station.id, kind, date, settled }]
      : [];
  });
}

function groupChecks(rows: Awaited<ReturnType<typeof readCrossChecks>>): CrossChecks {
  const byStation = new Map<string, Partial<Record<DailyKind, CrossCheck>>>();
  for (const { station, kind, ...check } of rows)
    byStation.set(station, { ...byStation.get(station), [kind]: check });
  return byStation;
}
