import type { Clock } from '../../core/time.js';
import { isWholeLadder } from '../market/brackets.js';
import { climateDayOf, daysBetween } from '../market/climate-day.js';
import { dailySeriesOf, stations, type KnownSeries } from '../market/stations.js';
import { groupEvents, writeEventTicker, finalOutcomes } from '../market/event.js';
import { readMarketPages, type KalshiClient } from './kalshi-client.js';
import { shareTemperatures } from './kalshi-market.js';
import { dailyKinds, isPlaced, type ListedMarket, type Market } from '../market/market.js';
import { MAX_EARLY_MS } from './place-market.js';
import type { MarketHistory, SettledDay } from '../market/source.js';
import { kalshiCutoffSchema } from './kalshi-schema.js';

/** Events before this day may be listed under the former name of their series. */
const RENAMED_BEFORE = '2025-01-01';

export interface KalshiHistoryOptions {
  client: KalshiClient;
  /** Default: the series of all stations. */
  series: readonly string[] | undefined;
  clock: Clock;
  read: (value: unknown) => ListedMarket | undefined;
}

/**
 * Returns final outcomes of past days that have a complete ladder and were paid in agreement with the stated
 * temperature. Recent days take one query per series; days before the venue's cutoff (a few months ago) take one query
 * per day, at the client's rate limit: 31 days of 48 series are 48 to 1,488 reads and take up to 75 seconds.
 */
export function createKalshiHistory({ client, series, clock, read }: KalshiHistoryOptions): MarketHistory {
  const asked = stations
    .flatMap((station) => dailyKinds.map((kind): KnownSeries => ({ station, kind })))
    .filter((one) => series?.includes(seriesOf(one)) ?? true);
  const toPlaced = (values: readonly unknown[]): Market[] =>
    values.flatMap((value) => read(value) ?? []).filter(isPlaced);

  async function readMoved(asked: KnownSeries, date: string, signal: AbortSignal): Promise<Market[]> {
    for (const name of namesAt(asked, date)) {
      const event = writeEventTicker(name, date);
      const found = await readMarketPages(client, '/historical/markets', [['event_ticker', event]], signal);
      if (found.length > 0) return toPlaced(found).filter(({ eventTicker }) => eventTicker === event);
    }
    return [];
  }

  return {
    async readSettledDays({ from, to }, signal) {
      const { market_settled_ts: cutoff } = await client.get(
        '/historical/cutoff',
        [],
        kalshiCutoffSchema,
        signal,
      );
      const days: SettledDay[] = [];
      for (const one of asked) {
        const { station } = one;
        const markets = toPlaced(
          await readMarketPages(client, '/markets', closingWithin(one, from, to), signal),
        );
        for (const date of daysBetween(from, to)) {
          const isPast = climateDayOf(station, date).end <= new Date(cutoff);
          const known = markets.filter((market) => market.date === date);
          if (!isPast || isWholeLadder(known.map(({ bracket }) => bracket))) continue;
          // Some or all of the event's markets have moved to the archive.
          const moved = await readMoved(one, date, signal);
          markets.push(...moved.filter(({ ticker }) => !known.some((market) => market.ticker === ticker)));
        }
        days.push(...settledDays(markets, new Date(clock.now())));
      }
      return days.filter(({ date }) => date >= from && date <= to);
    },
  };
}

const seriesOf = ({ station, kind }: KnownSeries): string => dailySeriesOf(station, kind);

/** Returns the possible series names of a day's event, because series were renamed before 2025. */
function namesAt(asked: KnownSeries, date: string): string[] {
  const { formerMaximum } = asked.station.series;
  const isRenamed = asked.kind === 'daily_maximum' && formerMaximum !== null && date < RENAMED_BEFORE;
  return isRenamed ? [formerMaximum, seriesOf(asked)] : [seriesOf(asked)];
}

/**
 * Markets close at the end of their day or up to a few hours earlier. The range is widened by a second, because the
 * bounds may be exclusive.
 */
function closingWithin(asked: KnownSeries, from: string, to: string): [string, string | number][] {
  const seconds = (ms: number) => Math.floor(ms / 1000);
  return [
    ['series_ticker', seriesOf(asked)],
    ['min_close_ts', seconds(climateDayOf(asked.station, from).end.getTime() - MAX_EARLY_MS) - 1],
    ['max_close_ts', seconds(climateDayOf(asked.station, to).end.getTime()) + 1],
  ];
}

function settledDays(markets: Market[], knownAt: Date): SettledDay[] {
  const events = groupEvents(shareTemperatures(markets));
  const whole = events.filter((event) => isWholeLadder(event.markets.map(({ bracket }) => bracket)));
  return finalOutcomes(whole).map((outcome) => ({ ...outcome, knownAt }));
}
