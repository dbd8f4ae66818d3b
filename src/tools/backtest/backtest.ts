import { HOUR_MS } from '../../core/time.js';
import { forecastOf, type DayForecast } from '../../trading/forecast/forecast.js';
import { bracketRange } from '../../trading/market/brackets.js';
import { probabilityOf, quantileOf } from '../../trading/market/distribution.js';
import { perContract, valueOf } from '../../trading/market/contracts.js';
import type { MarketEvent } from '../../trading/market/event.js';
import { spanOf, temperatureKinds } from '../../trading/market/market.js';
import type { Micros } from '../../trading/market/money.js';
import { uniform } from '../../trading/venue/simulation/random.js';
import type { Feed, PointInTime } from './feed.js';
import { summariseExecution, type PaperFill } from './look-back.js';
import { runBacktest, type Trail } from './run.js';
import { dailyProfits, intervalOf, summarise } from './statistics.js';
import { gateKeys } from '../../trading/scores/gates.js';
import { unjudged } from '../../trading/signals/signal.js';

export interface BacktestOptions {
  cash: Micros;
  /** How often it is repeated with other events' forecasts. 0: not at all. */
  shuffles: number;
  /** Follows also what the gate would withhold. */
  isUngated: boolean;
  /** Called after each point in time, of all rounds. */
  onPoint?: () => void;
}

export type BacktestResult = Awaited<ReturnType<typeof backtest>>;
export type ShuffledSummary = ReturnType<typeof summariseRounds>;

/** Amounts are in dollars. */
export async function backtest(feed: Feed, options: BacktestOptions) {
  const { cash, shuffles, isUngated, onPoint } = options;
  const open = isUngated ? openGates() : (point: PointInTime) => point;
  const rules = { cash, takenMs: feed.takenMs, ...(onPoint && { onPoint }) };
  const trail = await runBacktest(feed.points(), { ...rules, change: open });
  const fills = fillsOf(trail);
  const execution = summariseExecution(fills, await feed.lookBack(fills));
  const summary = summarise(trail);
  const rounds: number[][] = [];
  const forecasts = shuffles > 0 ? await collectForecasts(feed.points()) : undefined;
  for (let round = 0; forecasts && round < shuffles; round++) {
    const change = shuffle(forecasts, `round ${round}`);
    const shuffled = await runBacktest(feed.points(), { ...rules, change: (point) => open(change(point)) });
    rounds.push(dailyProfits(shuffled));
  }
  return {
    source: feed.name,
    isUngated,
    ...summary,
    /** What became of prices after the fills. */
    execution,
    /** The same with each event's prices set against the forecast of another one; null if that was not asked for. */
    shuffled: rounds.length === 0 ? null : summariseRounds(rounds, summary.profit),
  };
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
function summariseRounds(rounds: readonly (readonly number[])[], real: number) {
  const profits = rounds.map((daily) => daily.reduce((total, profit) => total + profit, 0));
  const average = (values: readonly number[]) => values.reduce((total, x) => total + x, 0) / values.length;
  const profitPerDay = intervalOf(rounds[0]!.map((_, day) => average(rounds.map((daily) => daily[day]!))));
  return {
    rounds: rounds.length,
    meanProfit: average(profits),
    /** What a climate date brought on average over all rounds. */
    profitPerDay,
    /** The share of rounds that brought as much as the real forecasts, or more. */
    asGood: profits.filter((profit) => profit >= real).length / rounds.length,
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

/** What was forecast of each event, by event and whole hours to the end of its day. */
interface ForecastsByEvent {
  events: ReadonlyMap<string, MarketEvent>;
  forecasts: ReadonlyMap<string, ReadonlyMap<number, DayForecast>>;
}

async function collectForecasts(
  points: AsyncIterable<PointInTime> | Iterable<PointInTime>,
): Promise<ForecastsByEvent> {
  const events = new Map<string, MarketEvent>();
  const forecasts = new Map<string, Map<number, DayForecast>>();
  for await (const { due, at, forecasts: present } of points)
    for (const event of due) {
      const day = forecastOf(present, event);
      if (!day) continue;
      events.set(event.eventTicker, event);
      const ofEvent = forecasts.get(event.eventTicker) ?? new Map<number, DayForecast>();
      forecasts.set(event.eventTicker, ofEvent.set(hoursToEnd(event, at), day));
    }
  return { events, forecasts };
}

const hoursToEnd = (event: MarketEvent, at: Date): number =>
  Math.round((spanOf(event.station, event).end.getTime() - at.getTime()) / HOUR_MS);

/**
 * Sets the prices and the result of each event against the forecast of another one, at the same time before its day's
 * end and moved to this one's brackets. Such a forecast is as sure as the real one and knows nothing of the day: earnings
 * with it come from a mistake in how purchases are filled, charged or paid.
 * @returns changes a point in time; an event whose partner has no forecast for the time loses its own
 */
function shuffle({ events, forecasts }: ForecastsByEvent, seed: string): (point: PointInTime) => PointInTime {
  const partners = pairUp([...events.values()], seed);
  return (point) => {
    const changed = new Map(point.forecasts);
    for (const event of point.due) {
      const station = point.forecasts.get(event.station.id);
      if (!station) continue;
      const partner = partners.get(event.eventTicker);
      const theirs = partner && forecasts.get(partner.eventTicker)?.get(hoursToEnd(event, point.at));
      const own = forecastOf(point.forecasts, event);
      const now = changed.get(event.station.id) ?? station;
      const others = now.days.filter((day) => day !== own);
      const days = theirs && own ? [...others, moveTo(event, own, theirs, partner)] : others;
      changed.set(event.station.id, { ...station, days });
    }
    return { ...point, forecasts: changed };
  };
}

/** Each event gets the place of another one of its kind in a shuffled ring, so that none keeps its own. */
function pairUp(events: readonly MarketEvent[], seed: string): Map<string, MarketEvent> {
  const pairs = temperatureKinds.flatMap((kind) => {
    const ring = events
      .filter((event) => event.kind === kind)
      .map((event) => ({ event, place: uniform(seed, event.eventTicker) }))
      .sort((a, b) => a.place - b.place || (a.event.eventTicker < b.event.eventTicker ? -1 : 1));
    return ring.map(({ event }, i) => [event.eventTicker, ring[(i + 1) % ring.length]!.event] as const);
  });
  return new Map(pairs);
}

/** The times stay the event's own: its forecast is as old as it was. */
function moveTo(
  event: MarketEvent,
  own: DayForecast,
  theirs: DayForecast,
  partner: MarketEvent,
): DayForecast {
  const shift = lowestEdge(event) - lowestEdge(partner);
  const moved = (bound: number | null) => (bound === null ? null : bound + shift);
  const { mean, atLeast, atMost = null, ...rest } = theirs.distribution;
  const distribution = { ...rest, mean: mean + shift, atLeast: moved(atLeast), atMost: moved(atMost) };
  return {
    ...theirs,
    date: event.date,
    ...(event.hour === undefined ? {} : { hour: event.hour }),
    eventTicker: event.eventTicker,
    modelRunAt: own.modelRunAt,
    fetchedAt: own.fetchedAt,
    observed: own.observed,
    meanF: theirs.meanF + shift,
    distribution,
    quantiles: theirs.quantiles.map(({ probability }) => ({
      probability,
      temperatureF: quantileOf(distribution, probability),
    })),
    probabilities: new Map(
      event.markets.map(({ ticker, bracket }) => [ticker, probabilityOf(distribution, bracket)]),
    ),
  };
}

/** Ladders are laid around what the market expects: their ends are what makes days alike. */
function lowestEdge({ markets }: MarketEvent): number {
  const { lowest, highest } = bracketRange(markets[0]!.bracket);
  return highest ?? lowest ?? 0;
}
