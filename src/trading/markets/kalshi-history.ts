import type { Clock } from '../../clock.js';
import { isWholeLadder } from '../settlement/brackets.js';
import { daysBetween } from '../settlement/calendar.js';
import { climateDayOf } from '../settlement/climate-day.js';
import { stations, type Station } from '../settlement/stations.js';
import { finalOutcomes } from '../scores/records.js';
import { writeEventTicker } from './event-ticker.js';
import { groupEvents } from './event.js';
import type { KalshiClient } from './kalshi-client.js';
import { shareTemperatures } from './kalshi-market.js';
import { readMarketPages } from './kalshi-pages.js';
import { kalshiCutoffSchema } from './kalshi-schema.js';
import { isPlaced, type ListedMarket, type Market } from './market.js';
import { MAX_EARLY_MS } from './place-market.js';
import type { MarketHistory, SettledDay } from './source.js';

/** Before this day events may have their series' former name. */
const RENAMED_BEFORE = '2025-01-01';

export interface KalshiHistoryOptions {
  client: KalshiClient;
  /** Only these series; undefined: those of all stations. */
  series: readonly string[] | undefined;
  clock: Clock;
  /** The market in our terms; undefined for one that cannot be used. */
  read: (value: unknown) => ListedMarket | undefined;
}

/**
 * How past days came out: those that the venue is done with, whose whole ladder is there and was paid as the temperature that
 * it names demands. Recent days come in one question for each series, those before the venue's cutoff (some months ago) in
 * one for each day, at the client's pace: 31 days of 24 series are 24 reads, or up to 744, 50 seconds.
 */
export function createKalshiHistory({ client, series, clock, read }: KalshiHistoryOptions): MarketHistory {
  const asked = stations.filter(({ series: { maximum } }) => series?.includes(maximum) ?? true);
  const toPlaced = (values: readonly unknown[]): Market[] =>
    values.flatMap((value) => read(value) ?? []).filter(isPlaced);

  async function readMoved(station: Station, date: string, signal: AbortSignal): Promise<Market[]> {
    const { maximum, formerMaximum } = station.series;
    const names = date < RENAMED_BEFORE && formerMaximum !== null ? [formerMaximum, maximum] : [maximum];
    for (const name of names) {
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
      for (const station of asked) {
        const markets = toPlaced(
          await readMarketPages(client, '/markets', closingWithin(station, from, to), signal),
        );
        for (const date of daysBetween(from, to)) {
          const isPast = climateDayOf(station, date).end <= new Date(cutoff);
          const known = markets.filter((market) => market.date === date);
          if (!isPast || isWholeLadder(known.map(({ bracket }) => bracket))) continue;
          // All of them, or those of its markets that were settled first.
          const moved = await readMoved(station, date, signal);
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
    ['series_ticker', station.series.maximum],
    ['min_close_ts', seconds(climateDayOf(station, from).end.getTime() - MAX_EARLY_MS) - 1],
    ['max_close_ts', seconds(climateDayOf(station, to).end.getTime()) + 1],
  ];
}

function settledDays(markets: Market[], knownAt: Date): SettledDay[] {
  const events = groupEvents(shareTemperatures(markets));
  const whole = events.filter((event) => isWholeLadder(event.markets.map(({ bracket }) => bracket)));
  return finalOutcomes(whole).map((outcome) => ({ ...outcome, knownAt }));
}
