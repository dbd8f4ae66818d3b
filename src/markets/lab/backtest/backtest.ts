import { groupBy } from '../../../core/collections.js';
import { forecastOf, type DayForecast } from '../../learning/forecast.js';
import { probabilityOf } from '../../market/distribution.js';
import { perContract, valueOf } from '../../market/contracts.js';
import type { MarketEvent } from '../../market/event.js';
import { spanOf } from '../../market/market.js';
import type { Micros } from '../../market/money.js';
import { uniform } from '../../venue/simulation/random.js';
import type { Feed, PointInTime } from './feed.js';
import { summariseExecution, type PaperFill } from './look-back.js';
import { runBacktest, type Trail } from './run.js';
import { dailyProfits, equityChangeOf, intervalOf, summarise } from './statistics.js';
import { gateKeys } from '../../scores/gates.js';
import { unjudged } from '../../signals/signal.js';

export interface BacktestOptions {
  cash: Micros;
  /** How often it is repeated with other days' forecasts. 0: not at all. */
  shuffles: number;
  /** Follows also what the gate would withhold. */
  isUngated: boolean;
  /** Called after each point in time, of all rounds. */
  onPoint?: () => void;
}

export type BacktestResult = Awaited<ReturnType<typeof backtest>>;
type ShuffledSummary = ReturnType<typeof summariseRounds> & {
  /** That were set against the forecasts of others, and those that have too few others alike and are in neither side. */
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
  const shuffled = shuffles > 0 ? await shuffleForecasts(feed, shuffles, trail, runWith) : 'not asked for';
  return {
    source: feed.name,
    isUngated,
    ...summary,
    /** What became of prices after the fills. */
    execution,
    /** The same with each event's prices and result set against the forecast of another day; null where `notShuffled` says why not. */
    shuffled: typeof shuffled === 'string' ? null : shuffled,
    notShuffled: typeof shuffled === 'string' ? shuffled : null,
  };
}

type RunWith = (change: (point: PointInTime) => PointInTime) => Promise<Trail>;

/** With fewer there are too few ways to shuffle them for a place among them to say anything. */
const MIN_SHUFFLED_EVENTS = 10;
/** Of one station and season: two can only be swapped, the same way in every round. */
const MIN_ALIKE = 3;

/**
 * A forecast that knows nothing of the day does as well with those of other days: its place among the rounds is as likely any as any
 * other. Events without others of their station and season are left out of both sides.
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
  const real = leftOutEvents === 0 ? trail : await runWith(exchange(new Map(alike.flat().map(withItself))));
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

/** Rounds share their days, and so their luck: what counts is how many days there are, not how many rounds. */
function summariseRounds(rounds: readonly Trail[], real: Trail) {
  const daily = rounds.map(dailyProfits);
  const average = (values: readonly number[]) => values.reduce((total, x) => total + x, 0) / values.length;
  const profitPerDay = intervalOf(daily[0]!.map((_, day) => average(daily.map((profits) => profits[day]!))));
  return {
    rounds: rounds.length,
    meanProfit: average(daily.map((profits) => profits.reduce((total, profit) => total + profit, 0))),
    meanEquityChange: average(rounds.map(equityChangeOf)),
    /** What a climate date brought on average over all rounds. */
    profitPerDay,
    /** The share of rounds that ended with as much equity as the real forecasts, or more. */
    asGood: rounds.filter(({ end }) => end >= real.end).length / rounds.length,
    /** Where this is true, something is wrong with the prices, fills or fees: such forecasts know nothing. */
    isEarning: profitPerDay !== null && profitPerDay.low > 0,
  };
}

/** Every gate, open. The same objects at every moment: a backtest has tens of thousands of them. */
function openGates(): (point: PointInTime) => PointInTime {
  const gates = gateKeys().map((key) => ({
    ...key,
    isOpen: true,
    ...unjudged,
    reason: 'It was not asked in this run.',
  }));
  return (point) => ({ ...point, gates: { madeAt: point.at, gates } });
}

/** An event and what was forecast of it, the earliest first. */
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

/** Days of one station and three months of the year, whatever the year, and hours of one time of day: what comes is alike. */
function seasonOf({ kind, station, hour, date }: MarketEvent): string {
  const month = Number(date.slice(5, 7));
  return `${kind} ${station.id} ${hour ?? ''} ${Math.floor((month % 12) / 3)}`;
}

/** By event whose forecasts it gets. */
type Partners = ReadonlyMap<string, ForecastEvent>;

const withItself = (each: ForecastEvent) => [each.event.eventTicker, each] as const;

/** Each event gets the place of another one in a shuffled ring of those that are alike, so that none keeps its own. */
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
 * Sets the prices and the result of each event against what was forecast of another one by the same time before its day's end, as it
 * was: moved to this event's brackets it would know what the market knows.
 * @returns changes a point in time; an event without a partner loses its forecast
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

/** The latest forecast by a time before the day's end; the first one where none is that early. */
const knownBy = (forecasts: ForecastEvent['forecasts'], ms: number): DayForecast =>
  (forecasts.findLast((each) => each.msToEnd >= ms) ?? forecasts[0]!).day;

/** The times stay the event's own: its forecast is as old as it was. */
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
