import type { Clock } from '../../clock.js';
import { isWholeLadder } from '../settlement/brackets.js';
import { daysBetween } from '../settlement/calendar.js';
import { climateDayOf } from '../settlement/climate-day.js';
import { findStationOfSeries, type Station } from '../settlement/stations.js';
import { finalOutcomes } from '../scores/records.js';

import { writeEventTicker } from './event-ticker.js';
import { groupEvents } from './event.js';
import type { KalshiClient } from './kalshi-client.js';
import { MAX_EARLY_MS, shareTemperatures } from './kalshi-market.js';
import { readMarketPages } from './kalshi-pages.js';
import { kalshiCutoffSchema, type KalshiMarket } from './kalshi-schema.js';
import type { Market } from './market.js';
import type { MarketHistory, SettledDay } from './source.js';

/** Before this day events may have their series' former name. */
const RENAMED_BEFORE = '2025-01-01';

export interface KalshiHistoryOptions {
  client: KalshiClient;
  series: readonly string[];
  clock: Clock;
  /** The market in our terms; nothing for one that contradicts itself. */
  usable: (wire: KalshiMarket) => Market[];
}

/**
 * How past days came out: those that the venue is done with, whose whole ladder is there and was paid as the temperature that
 * it names demands. Recent days come in one question for each series, those before the venue's cutoff (some months ago) in
 * one for each day, at the client's pace: 31 days of seven series are 7 reads, or up to 217, 15 seconds.
 */
export function createKalshiHistory({ client, series, clock, usable }: KalshiHistoryOptions): MarketHistory {
  const stations = series.flatMap((ticker) => findStationOfSeries(ticker) ?? []);

  async function readMoved(station: Station, date: string, signal: AbortSignal): Promise<KalshiMarket[]> {
    const { ticker, formerTicker } = station.series;
    for (const name of date < RENAMED_BEFORE ? [formerTicker, ticker] : [ticker]) {
      const event = writeEventTicker(name, date);
      const found = await readMarketPages(client, '/historical/markets', [['event_ticker', event]], signal);
      if (found.length > 0) return found.filter(({ event_ticker: of }) => of === event);
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
      for (const station of stations) {
        const wire = await readMarketPages(client, '/markets', closingWithin(station, from, to), signal);
        const markets = wire.flatMap(usable);
        for (const date of daysBetween(from, to)) {
          const isPast = climateDayOf(station, date).end <= new Date(cutoff);
          const known = markets.filter((market) => market.date === date);
          if (!isPast || isWholeLadder(known.map(({ bracket }) => bracket))) continue;
          // All of them, or those of its markets that were settled first.
          const moved = (await readMoved(station, date, signal)).flatMap(usable);
          markets.push(...moved.filter(({ ticker }) => !known.some((market) => market.ticker === ticker)));
        }
        days.push(...settledDays(markets, new Date(clock.now())));
      }
      return days.filter(({ date }) => date >= from && date <= to);
    },
  };
}

/** Markets close with their day or some hours before; the bounds themselves may be left out. */
function closingWithin(station: Station, from: string, to: string): [string, string | number][] {
  const seconds = (ms: number) => Math.floor(ms / 1000);
  return [
    ['series_ticker', station.series.ticker],
    ['min_close_ts', seconds(climateDayOf(station, from).end.getTime() - MAX_EARLY_MS) - 1],
    ['max_close_ts', seconds(climateDayOf(station, to).end.getTime()) + 1],
  ];
}

function settledDays(markets: Market[], knownAt: Date): SettledDay[] {
  const events = groupEvents(shareTemperatures(markets));
  const whole = events.filter((event) => isWholeLadder(event.markets.map(({ bracket }) => bracket)));
  return finalOutcomes(whole).map(({ station: stationId, date, temperatureF }) => ({
    stationId,
    date,
    temperatureF,
    knownAt,
  }));
}
