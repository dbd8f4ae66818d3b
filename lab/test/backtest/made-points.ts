import type { PointInTime } from '../../backtest/feed.js';
import { toLevels, type OrderBook } from '../../../src/markets/market/book.js';
import { bracketPays } from '../../../src/markets/market/brackets.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import { probabilityOf } from '../../../src/markets/market/distribution.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import {
  makeEvent,
  makeForecasts,
  makeData,
  makeGates,
  calibrated,
} from '../../../test/markets/support/events.js';

const HOUR_MS = 3_600_000;

export interface MadeWorld {
  days: number;
  /**
   * Standard deviations in °F: of the mean's actual error, and as assumed by the forecast. With `knowsNothing`, the
   * mean is scattered around 60 instead of the truth.
   */
  model: { error: number; deviation: number; knowsNothing?: boolean };
  market: { error: number; deviation: number };
  /** Distance in cents between the market's probability and its quotes. */
  margin: number;
  isOpen?: boolean;
  /** Random seed; defaults to a fixed one. */
  seed?: string;
  /** Decision times in hours before the end of a day; default: 30. */
  leadsOf?: (day: number) => readonly number[];
}

/** Points in time for consecutive days in New York: decisions before each day's end, and each day's result. */
export function makePoints({
  days,
  model,
  market,
  margin,
  isOpen = true,
  seed = 'made',
  leadsOf = () => [30],
}: MadeWorld): PointInTime[] {
  return Array.from({ length: days }, (_, i) => {
    const date = new Date(Date.UTC(2026, 2, 1 + i)).toISOString().slice(0, 10);
    const truth = 60 + 8 * gaussian(seed, i, 'truth');
    const report = Math.round(truth);
    const [ours, theirs] = ['model', 'market'].map((who) => gaussian(seed, i, who)) as [number, number];
    const believed = { mean: truth + market.error * theirs, deviation: market.deviation, atLeast: null };
    const event = makeEvent({ date, lowest: Math.floor(believed.mean) - 3 });
    const { end } = climateDayOf(event.station, date);
    const forecast = {
      mean: (model.knowsNothing ? 60 : truth) + model.error * ours,
      deviation: model.deviation,
      atLeast: null,
    };
    const fee = { type: 'quadratic', multiplier: DOLLAR } as const;
    const decisions = leadsOf(i).map((lead): PointInTime => {
      const at = new Date(end.getTime() - lead * HOUR_MS);
      const books = event.markets.map(({ bracket }) =>
        bookAround(probabilityOf(believed, bracket), margin, lead),
      );
      const forecasts = makeForecasts(
        event,
        event.markets.map(({ bracket }) => probabilityOf(forecast, bracket)),
        { at, ...calibrated, meanF: forecast.mean, deviationF: forecast.deviation },
      );
      const data = { ...makeData(event, books, at), feeRules: new Map([['KXHIGHNY', fee]]) };
      return { at, data, events: [event], due: [event], forecasts, gates: makeGates(isOpen, ['KNYC'], at) };
    });
    const settledAt = new Date(end.getTime() + 9 * HOUR_MS);
    const settled = event.markets.map((each): Market => ({
      ...each,
      status: 'finalized',
      settlementValue: bracketPays(each.bracket, report) ? DOLLAR : 0n,
      settledTemperature: report,
    }));
    return [
      ...decisions,
      {
        ...decisions.at(-1)!,
        at: settledAt,
        data: { ...decisions.at(-1)!.data, fetchedAt: settledAt, markets: settled, books: new Map() },
        events: [],
        due: [],
        forecasts: new Map(),
      },
    ];
  })
    .flat()
    .sort((a, b) => a.at.getTime() - b.at.getTime());
}

/**
 * Returns bids and asks `margin` cents around the probability. Sizes grow with each hour, so each book counts as a new
 * offer.
 */
function bookAround(probability: number, margin: number, leadHours: number): OrderBook {
  const bid = (cents: number) =>
    toLevels([{ price: BigInt(Math.min(99, Math.floor(cents))) * CENT, contracts: 70 - leadHours }]);
  return {
    yes: bid(100 * probability - margin),
    no: bid(100 * (1 - probability) - margin),
  };
}
