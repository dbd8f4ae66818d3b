import { DAY_MS } from '../../core/time.js';
import { isWholeLadder } from '../market/brackets.js';
import { climateDayOf, daysBetween } from '../market/climate-day.js';
import { dailySeriesOf, stations, type KnownSeries } from '../market/stations.js';
import { groupByEvent, writeEventTicker, finalOutcomes } from '../market/event.js';
import { readMarketPages, type KalshiDeps } from './kalshi-client.js';
import { shareTemperatures } from './kalshi-market.js';
import { dailyKinds, type OutcomeMarket } from '../market/market.js';
import type { MarketHistory, SettledDay } from '../market/source.js';
import { kalshiCutoffSchema } from './kalshi-schema.js';

/** Events before this day may be listed under the former name of their series. */
const RENAMED_BEFORE = '2025-01-01';

export interface KalshiHistoryOptions extends KalshiDeps {
  /** Default: the series of all stations. */
  series: readonly string[] | undefined;
  read: (value: unknown) => OutcomeMarket | undefined;
}

/**
 * Returns final outcomes of past days that have a complete ladder and were paid in agreement with the stated
 * temperature. Recent days take one query per series; days before the venue's cutoff (a few months ago) take one query
 * per day, at the client's rate limit: 31 days of 48 series are 48 to 1,488 reads and take up to 75 seconds.
 */
export function createKalshiHistory(options: KalshiHistoryOptions): MarketHistory {
  const { client, series, clock, log, read } = options;
  const asked = stations
    .flatMap((station) => dailyKinds.map((kind): KnownSeries => ({ station, kind })))
    .filter((one) => series?.includes(seriesOf(one)) ?? true);
  function readAll(values: readonly unknown[]): OutcomeMarket[] {
    const found = values.flatMap((value) => read(value) ?? []);
    return [...new Map(found.map((market) => [market.ticker, market])).values()];
  }

  async function readMoved(asked: KnownSeries, date: string, signal: AbortSignal): Promise<OutcomeMarket[]> {
    for (const name of namesAt(asked, date)) {
      const event = writeEventTicker(name, date);
      const found = await readMarketPages(client, '/historical/markets', [['event_ticker', event]], signal);
      if (found.length > 0) return readAll(found).filter(({ eventTicker }) => eventTicker === event);
    }
    return [];
  }

  async function readSeries(
    one: KnownSeries,
    { from, to, cutoff }: { from: string; to: string; cutoff: Date },
    signal: AbortSignal,
  ): Promise<SettledDay[]> {
    const found = await readMarketPages(client, '/markets', closingWithin(one, from, to), signal);
    const markets = readAll(found);
    for (const date of daysBetween(from, to)) {
      const isPast = climateDayOf(one.station, date).end <= cutoff;
      const known = markets.filter((market) => market.date === date);
      if (!isPast || isWholeLadder(known.map(({ bracket }) => bracket))) continue;
      // Some or all of the event's markets have moved to the archive.
      const moved = await readMoved(one, date, signal);
      markets.push(...moved.filter(({ ticker }) => !known.some((market) => market.ticker === ticker)));
    }
    return settledDays(markets, new Date(clock.now()));
  }

  return {
    async readSettledDays({ from, to }, signal) {
      const listed = await client.get('/historical/cutoff', [], kalshiCutoffSchema, signal);
      const cutoff = new Date(listed.market_settled_ts);
      const days: SettledDay[] = [];
      const failures: unknown[] = [];
      for (const one of asked)
        try {
          days.push(...(await readSeries(one, { from, to, cutoff }, signal)));
        } catch (error) {
          signal.throwIfAborted();
          failures.push(error);
          log.warn({ err: error, series: seriesOf(one) }, "a series' past days could not be read");
        }
      if (failures.length > 0 && failures.length === asked.length) throw failures[0];
      return days.filter(({ date }) => date >= from && date <= to);
    },
  };
}

const seriesOf = ({ station, kind }: KnownSeries): string => dailySeriesOf(station, kind);

function namesAt(asked: KnownSeries, date: string): string[] {
  const { formerMaximum } = asked.station.series;
  const isRenamed = asked.kind === 'daily_maximum' && formerMaximum !== null && date < RENAMED_BEFORE;
  return isRenamed ? [formerMaximum, seriesOf(asked)] : [seriesOf(asked)];
}

/** A day's markets open on the day before and close at its end at the latest, or at any time before it. */
function closingWithin(asked: KnownSeries, from: string, to: string): [string, string | number][] {
  const seconds = (ms: number) => Math.floor(ms / 1000);
  return [
    ['series_ticker', seriesOf(asked)],
    ['min_close_ts', seconds(climateDayOf(asked.station, from).start.getTime() - DAY_MS)],
    // The bound may be exclusive.
    ['max_close_ts', seconds(climateDayOf(asked.station, to).end.getTime()) + 1],
  ];
}

function settledDays(markets: OutcomeMarket[], knownAt: Date): SettledDay[] {
  const events = groupByEvent(shareTemperatures(markets));
  const whole = events.filter((event) => isWholeLadder(event.markets.map(({ bracket }) => bracket)));
  return finalOutcomes(whole).map((outcome) => ({ ...outcome, knownAt }));
}
