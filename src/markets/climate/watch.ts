import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { Database, Orm } from '../../core/db/client.js';
import type { WorkContext } from '../../core/http/context.js';
import { inParallel, shareRun } from '../../core/steps.js';
import { deleteDaysBefore } from '../learning/queries.js';
import type { MarketEvent } from '../market/event.js';
import { addDays, climateDayAt, climateDayOf, dateOf } from '../market/climate-day.js';
import { dailyKinds, type DailyKind } from '../market/market.js';
import { createLease } from '../../core/db/jobs.js';
import { stations, type Station } from '../market/stations.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { climateProducts } from './table.js';
import type { ClimateProduct, ClimateReader } from './product.js';
import {
  insertReport,
  listReported,
  readCrossChecks,
  recordSettled,
  type CrossCheck,
  type DayKey,
} from './queries.js';

/** After the end of the day. The final report is issued at least an hour later, usually within three. */
const EARLIEST_MS = 45 * MINUTE_MS;
const MOST_COME_WITHIN_MS = 8 * HOUR_MS;
const WHILE_OPEN_MS = 10 * MINUTE_MS;
/** Time of day. Reports on the day so far appear from late afternoon on. */
const EVENING_MS = 16 * HOUR_MS;
const UNTIL_EVENING_REPORT_MS = 15 * MINUTE_MS;
const AFTER_EVENING_REPORT_MS = HOUR_MS;
const WHILE_LATE_MS = HOUR_MS;
/** Only corrections follow the final report, and they are not urgent. */
const WHILE_KNOWN_MS = 3 * HOUR_MS;
const WINDOW_MS = 3 * DAY_MS;
const AT_ONCE = 2;
const KEPT_DAYS = 400;
/** Longer than the pause between two passes. */
const LEASE_SECONDS = 15 * 60;

export type CrossChecks = ReadonlyMap<string, Readonly<Partial<Record<DailyKind, CrossCheck>>>>;

export type ClimateWatch = ReturnType<typeof createClimateWatch>;

interface ClimateWatchOptions extends Pick<WorkContext, 'lifecycle' | 'clock' | 'log'> {
  reader: ClimateReader;
  db: Pick<Database, 'orm'>;
  snapshots: Pick<SnapshotStore, 'current'>;
}

/**
 * Counts how often the venue settled on the first final report. Another company has relayed the reports to the venue
 * since 2026-08-14, so the latest report proves nothing: on 2026-08-29 Miami's was corrected from 90 to 85, but the
 * venue paid on 90. One instance asks: about 40 requests per station per day, 1,000 in all.
 */
export function createClimateWatch(options: ClimateWatchOptions) {
  const { snapshots, clock } = options;
  const { orm } = options.db;
  const lease = createLease(options, 'climate-reports', { lengthSeconds: LEASE_SECONDS });
  const stopping = new AbortController();
  const keeper = createReportKeeper(options);
  let crossChecks: CrossChecks = new Map();

  async function pass(): Promise<void> {
    const { signal } = stopping;
    if (await lease.hold()) {
      const reported = await readReported();
      await inParallel(stations, { width: AT_ONCE, signal }, (station) =>
        keeper.ask(station, reported, signal),
      );
      const settled = settledDays(snapshots.current?.events ?? []);
      if (settled.length > 0) await recordSettled(orm, settled);
      keeper.forgetOld();
    }
    crossChecks = groupChecks(await readCrossChecks(orm));
  }

  async function readReported(): Promise<Map<string, boolean>> {
    const reported = await listReported(orm, dateOf(clock.now() - WINDOW_MS));
    return new Map(reported.map((day) => [keyOf(day), day.isFinal]));
  }

  const passes = shareRun(() =>
    pass().catch((error: unknown) => {
      if (!stopping.signal.aborted) throw error;
    }),
  );
  return {
    run: passes.run,
    get crossChecks() {
      return crossChecks;
    },
    async cleanUp(): Promise<void> {
      await deleteDaysBefore(orm, climateProducts, dateOf(clock.now() - KEPT_DAYS * DAY_MS));
    },
    async stop(): Promise<void> {
      stopping.abort();
      await passes.running;
      await lease.release();
    },
  };
}

function createReportKeeper({ reader, db, clock, log }: ClimateWatchOptions) {
  const askedAt = new Map<string, number>();
  const seen = new Map<string, number>();

  return {
    /** One station must not block the others. */
    async ask(station: Station, reported: ReadonlyMap<string, boolean>, signal: AbortSignal): Promise<void> {
      const now = clock.now();
      if (!isDue(station, reported, { now, last: askedAt.get(station.id) })) return;
      askedAt.set(station.id, now);
      try {
        const listed = await reader.list(station, signal);
        const since = Math.max(now - WINDOW_MS, listed[0]?.issuedAt.getTime() ?? now);
        // Oldest first: after a failure, a correction could be recorded as the first report.
        for (const product of listed.filter(
          ({ id, issuedAt }) => issuedAt.getTime() >= since && !seen.has(id),
        )) {
          signal.throwIfAborted();
          const read = await reader.read(station, product, signal);
          if (read) {
            const isWhole = climateDayOf(station, read.date).end.getTime() >= since;
            await keep(db.orm, read, { isWhole, fetchedAt: new Date(clock.now()) });
          } else log.warn({ station: station.id, product: product.id }, 'a climate report cannot be read');
          seen.set(product.id, now);
        }
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ err: error, station: station.id }, 'climate reports could not be read; Gauge will retry');
      }
    },

    forgetOld(): void {
      for (const [id, at] of seen) if (clock.now() - at > 2 * WINDOW_MS) seen.delete(id);
    },
  };
}

/** @param isWhole no final report of the day can have been missed */
async function keep(
  orm: Orm,
  report: ClimateProduct,
  { isWhole, fetchedAt }: { isWhole: boolean; fetchedAt: Date },
): Promise<void> {
  const { stationId: station, date, issuedAt, isFinal, isCorrection } = report;
  const stage = !isFinal ? 'preliminary' : isCorrection ? 'corrected' : 'final';
  const values = { daily_maximum: report.maximumF, daily_minimum: report.minimumF };
  const isCertain = isWhole && stage === 'final';
  for (const kind of dailyKinds) {
    const value = values[kind];
    if (value !== null)
      await insertReport(orm, { station, kind, date, issuedAt, fetchedAt, stage, value, isCertain });
  }
}

function isDue(
  station: Station,
  reported: ReadonlyMap<string, boolean>,
  { now, last }: { now: number; last: number | undefined },
): boolean {
  const today = climateDayAt(station, new Date(now));
  const reportOf = (kind: DailyKind, date: string) =>
    reported.get(keyOf({ station: station.id, kind, date }));
  const isKnown = dailyKinds.every((kind) => reportOf(kind, addDays(today.date, -1)));
  const hasEvening = dailyKinds.every((kind) => reportOf(kind, today.date) !== undefined);
  const sinceDay = now - today.start.getTime();
  const whileUnknown = sinceDay < MOST_COME_WITHIN_MS ? WHILE_OPEN_MS : WHILE_LATE_MS;
  const inEvening = hasEvening ? AFTER_EVENING_REPORT_MS : UNTIL_EVENING_REPORT_MS;
  if (last === undefined) return true;
  const ofYesterday = isKnown ? WHILE_KNOWN_MS : whileUnknown;
  const pause = sinceDay >= EVENING_MS ? Math.min(ofYesterday, inEvening) : ofYesterday;
  return sinceDay >= EARLIEST_MS && Math.abs(now - last) >= pause;
}

const keyOf = ({ station, kind, date }: DayKey): string => `${station} ${kind} ${date}`;

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
