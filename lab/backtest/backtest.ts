import { groupBy } from '../../src/core/collections.js';
import { forecastOf, type DayForecast } from '../../src/markets/learning/forecast.js';
import { probabilityOf } from '../../src/markets/market/distribution.js';
import { perContract, valueOf } from '../../src/markets/market/contracts.js';
import type { MarketEvent } from '../../src/markets/market/event.js';
import { spanOf } from '../../src/markets/market/market.js';
import type { Micros } from '../../src/markets/market/money.js';
import { uniform } from '../../src/markets/venue/simulation/random.js';
import type { Feed, PointInTime } from './feed.js';
import { summariseExecution, type PaperFill } from './look-back.js';
import { runBacktest, type Trail } from './run.js';
import { dailyProfits, equityChangeOf, intervalOf, summarise } from './statistics.js';
import { gateKeys } from '../../src/markets/scores/gates.js';
import { unjudged } from '../../src/markets/signals/signal.js';

export interface BacktestOptions {
  cash: Micros;
  /** Rounds with shuffled forecasts; 0 for none. */
  shuffles: number;
  /** Signals that a closed gate would withhold are followed too. */
  isUngated: boolean;
  onPoint?: () => void;
}

export type BacktestResult = Awaited<ReturnType<typeof backtest>>;
type ShuffledSummary = ReturnType<typeof summariseRounds> & {
  /** Shuffled, and excluded from both results because too few others are similar. */
  events: number;
  leftOutEvents: number;
};

/** Amounts are in dollars. */
export async function backtest(feed: Feed, options: BacktestOptions) {
  const { cash, shuffles, isUngated, onPoint } = options;
  const open = isUngated ? openGates() : (point: PointInTime) => point;
  const rules = { cash, takenMs: feed.takenMs, ...(onPoint && { onPoint }) };
  const trail = await runBacktest(feed.points(), { ...rules, change: open });
  const fills = fillsOf(trail);
  const execution = summariseExecution(fills, await feed.lookBack(fills));
  const summary = summarise(trail);
  const runWith: RunWith = (change) =>
    runBacktest(feed.points(), { ...rules, change: (point) => open(change(point)) });
  const shuffled = shuffles > 0 ? await shuffleForecasts(feed, shuffles, trail, runWith) : 'not requested';
  return {
    source: feed.name,
    isUngated,
    ...summary,
    execution,
    /** Each event's prices and outcome with another day's forecast; null if `notShuffled` gives a reason. */
    shuffled: typeof shuffled === 'string' ? null : shuffled,
    notShuffled: typeof shuffled === 'string' ? shuffled : null,
  };
}

type RunWith = (change: (point: PointInTime) => PointInTime) => Promise<Trail>;

/** Fewer events have too few permutations for the rank to mean anything. */
const MIN_SHUFFLED_EVENTS = 10;
/** Per station and season. With only two, the only shuffle is a swap, so every round would be the same. */
const MIN_ALIKE = 3;

/**
 * Permutation test: an uninformative forecast does no better than those of other days, so its rank among the rounds is
 * uniform. Events without similar ones are excluded from both results.
 */
async function shuffleForecasts(
  feed: Feed,
  shuffles: number,
  trail: Trail,
  runWith: RunWith,
): Promise<ShuffledSummary | string> {
  const past = await collectForecasts(feed.points());
  const alike = [...groupBy(past.values(), ({ event }) => seasonOf(event)).values()].filter(
    ({ length }) => length >= MIN_ALIKE,
  );
  const events = alike.reduce((sum, { length }) => sum + length, 0);
  const leftOutEvents = past.size - events;
  if (events < MIN_SHUFFLED_EVENTS)
    return `not possible with fewer than ${MIN_SHUFFLED_EVENTS} events that have two others of their station and season (here ${events} of ${past.size})`;
  const real = leftOutEvents === 0 ? trail : await runWith(exchange(new Map(alike.flat().map(toOwnPair))));
  const rounds: Trail[] = [];
  for (let round = 0; round < shuffles; round++)
    rounds.push(await runWith(exchange(pairUp(alike, `round ${round}`))));
  return { ...summariseRounds(rounds, real), events, leftOutEvents };
}

const fillsOf = ({ purchases }: Pick<Trail, 'purchases'>): PaperFill[] =>
  purchases.flatMap(({ at, ticker, side, contracts: all, fills, payout }) =>
    fills.map(({ price, contracts, balanceChange }) => ({
      ticker,
      side,
      action: 'buy' as const,
      contracts,
      price,
      at,
      hasTaken: true,
      profit: payout === null ? null : valueOf(perContract(payout, all), contracts) + balanceChange,
    })),
  );

/** All rounds cover the same days, so the interval depends on the number of days, not of rounds. */
function summariseRounds(rounds: readonly Trail[], real: Trail) {
  const daily = rounds.map(dailyProfits);
  const average = (values: readonly number[]) => values.reduce((total, x) => total + x, 0) / values.length;
  const profitPerDay = intervalOf(daily[0]!.map((_, day) => average(daily.map((profits) => profits[day]!))));
  return {
    rounds: rounds.length,
    meanProfit: average(daily.map((profits) => profits.reduce((total, profit) => total + profit, 0))),
    meanEquityChange: average(rounds.map(equityChangeOf)),
    profitPerDay,
    /** At least as much equity as with the real forecasts. */
    asGood: rounds.filter(({ end }) => end >= real.end).length / rounds.length,
    /** Shuffled forecasts cannot predict anything, so a profit points to an error in prices, fills or fees. */
    isEarning: profitPerDay !== null && profitPerDay.low > 0,
  };
}

/** Reuses the same objects: a backtest has tens of thousands of points. */
function openGates(): (point: PointInTime) => PointInTime {
  const gates = gateKeys().map((key) => ({
    ...key,
    isOpen: true,
    ...unjudged,
    reason: 'This run ignores gates.',
  }));
  return (point) => ({ ...point, gates: { madeAt: point.at, gates } });
}

/** Forecasts are in chronological order. */
interface ForecastEvent {
  event: MarketEvent;
  forecasts: { msToEnd: number; day: DayForecast }[];
}

async function collectForecasts(
  points: AsyncIterable<PointInTime> | Iterable<PointInTime>,
): Promise<Map<string, ForecastEvent>> {
  const past = new Map<string, ForecastEvent>();
  for await (const { due, at, forecasts: present } of points)
    for (const event of due) {
      const day = forecastOf(present, event);
      if (!day) continue;
      const found = past.get(event.eventTicker) ?? { event, forecasts: [] };
      found.forecasts.push({ msToEnd: msToEnd(event, at), day });
      past.set(event.eventTicker, found);
    }
  return past;
}

const msToEnd = (event: MarketEvent, at: Date): number =>
  spanOf(event.station, event).end.getTime() - at.getTime();

/** Same kind, station, season (of any year) and, if hourly, time of day. */
function seasonOf({ kind, station, hour, date }: MarketEvent): string {
  const month = Number(date.slice(5, 7));
  return `${kind} ${station.id} ${hour ?? ''} ${Math.floor((month % 12) / 3)}`;
}

/** From a ticker to the event whose forecasts replace its own. */
type Partners = ReadonlyMap<string, ForecastEvent>;

const toOwnPair = (each: ForecastEvent) => [each.event.eventTicker, each] as const;

/** A shuffled ring of similar events, so that no event keeps its own forecast. */
const pairUp = (alike: readonly (readonly ForecastEvent[])[], seed: string): Partners =>
  new Map(
    alike.flatMap((events) => {
      const ring = events
        .map((each) => ({ each, place: uniform(seed, each.event.eventTicker) }))
        .sort((a, b) => a.place - b.place);
      return ring.map(({ each }, i) => [each.event.eventTicker, ring[(i + 1) % ring.length]!.each] as const);
    }),
  );

/**
 * Another event's unchanged forecast from the same time before the day's end: adjusting it to this event's brackets
 * would leak the market's knowledge. Events without a partner lose theirs.
 */
function exchange(partners: Partners): (point: PointInTime) => PointInTime {
  return (point) => {
    const changed = new Map(point.forecasts);
    for (const event of point.due) {
      const station = changed.get(event.station.id);
      const own = forecastOf(point.forecasts, event);
      if (!station || !own) continue;
      const theirs = partners.get(event.eventTicker)?.forecasts;
      const others = station.days.filter((day) => day !== own);
      const days = theirs
        ? [...others, giveTo(event, own, knownBy(theirs, msToEnd(event, point.at)))]
        : others;
      changed.set(event.station.id, { ...station, days });
    }
    return { ...point, forecasts: changed };
  };
}

/** Returns the earliest one if none was made in time. */
const knownBy = (forecasts: ForecastEvent['forecasts'], ms: number): DayForecast =>
  (forecasts.findLast((each) => each.msToEnd >= ms) ?? forecasts[0]!).day;

/** Keeps the event's own times, so that the forecast's age does not change. */
const giveTo = (event: MarketEvent, own: DayForecast, theirs: DayForecast): DayForecast => ({
  ...theirs,
  date: event.date,
  eventTicker: event.eventTicker,
  modelRunAt: own.modelRunAt,
  fetchedAt: own.fetchedAt,
  observed: own.observed,
  probabilities: new Map(
    event.markets.map(({ ticker, bracket }) => [ticker, probabilityOf(theirs.distribution, bracket)]),
  ),
});
