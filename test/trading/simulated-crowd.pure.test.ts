import { describe, expect, it } from 'vitest';
import { probabilityOf, sureDegree } from '../../src/trading/forecast/distribution.js';
import { readWeather } from '../../src/trading/forecast/simulated.js';
import { isCrossed } from '../../src/trading/markets/book.js';
import { isPlaced } from '../../src/trading/markets/market.js';
import { readMarkets } from '../../src/trading/markets/simulated.js';
import { impliedProbabilities, logScore } from '../../src/trading/scores/score.js';
import { bracketPays } from '../../src/trading/settlement/brackets.js';
import { outcomesOf } from '../../src/trading/settlement/outcomes.js';
import { findStation, stations } from '../../src/trading/settlement/stations.js';
import { gridBiasF, sharedErrorF } from '../../src/trading/simulation/ensemble.js';
import { simulateWeather } from '../../src/trading/simulation/weather.js';
import { stationDaysBetween, type StationDay } from '../../src/trading/simulation/world.js';

const HOUR_MS = 3_600_000;
const seed = 'gauge';
const weather = simulateWeather(seed);
const season = { from: '2026-05-01', to: '2026-08-28' };
const mean = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;

function look(day: StationDay, leadHours: number) {
  const at = new Date(day.day.end.getTime() - leadHours * HOUR_MS);
  const data = readMarkets({ seed, weather }, [day], at);
  const markets = data.markets.filter(isPlaced).filter(({ kind }) => kind === 'daily_maximum');
  const { books } = data;
  const outcomes = outcomesOf(markets.map(({ bracket }) => bracket));
  const prices = impliedProbabilities(
    markets.map(({ ticker }) => books.get(ticker)),
    outcomes,
  )!;
  const report = weather.report(day.station, day.day.date);
  const winner = markets.findIndex(({ bracket }) => bracketPays(bracket, report));
  return { at, markets, books, prices, winner };
}

/** What whoever knows how the world was made can make of the public ensemble and the station's reports. */
function bestForecast(
  { station, day }: StationDay,
  at: Date,
  brackets: Parameters<typeof probabilityOf>[1][],
) {
  const { ensembles, observed } = readWeather({ weather }, [{ station, day }], at);
  const { membersF, modelRunAt } = ensembles[0]!;
  const leadHours = (weather.peak(station, day.date).getTime() - modelRunAt.getTime()) / HOUR_MS;
  const distribution = {
    mean: mean(membersF) - gridBiasF[station.id]!,
    deviation: sharedErrorF(leadHours),
    atLeast: observed[0] ? sureDegree(observed[0].extremeF) : null,
  };
  return brackets.map((bracket) => probabilityOf(distribution, bracket));
}

/** Mean log score of that forecast less that of the prices, over a season. */
function differenceAt(stationId: string, leadHours: number): number {
  const days = stationDaysBetween(season).filter(({ station }) => station.id === stationId);
  return mean(
    days.map((day) => {
      const { at, markets, prices, winner } = look(day, leadHours);
      const forecast = bestForecast(
        day,
        at,
        markets.map(({ bracket }) => bracket),
      );
      return logScore(forecast, winner) - logScore(prices, winner);
    }),
  );
}

describe('the crowd of the simulated markets', () => {
  it('has prices that come true about as often as they say, and roughly so where few trade', () => {
    const busy = new Set(['KNYC', 'KMDW', 'KAUS']);
    const seen = stationDaysBetween(season)
      .flatMap((day) => [30, 9].map((leadHours) => ({ ...look(day, leadHours), id: day.station.id })))
      .flatMap(({ id, prices, winner }) =>
        prices.map((price, i) => ({ id, price, came: i === winner ? 1 : 0 })),
      );
    const levels = [0, 0.05, 0.2, 0.4, 0.7, 1.01];
    for (const [i, below] of levels.slice(1).entries()) {
      const group = seen.filter(({ price }) => price >= levels[i]! && price < below);
      const error = (those: typeof seen) => Math.abs(mean(those.map(({ came, price }) => came - price)));
      expect(group.length).toBeGreaterThan(100);
      expect(error(group), `below ${below}`).toBeLessThan(0.12);
      expect(error(group.filter(({ id }) => busy.has(id))), `below ${below}`).toBeLessThan(0.08);
    }
  });

  it.each(['KLAX', 'KMIA'])(
    'can be beaten at %s a day and more ahead, where it follows the grid point',
    (id) => {
      for (const leadHours of [36, 24])
        expect(differenceAt(id, leadHours), `${leadHours} h`).toBeLessThan(-0.15);
    },
  );

  it.each(['KNYC', 'KMDW', 'KAUS'])('is about as good as anybody can be at %s a day ahead', (id) => {
    for (const leadHours of [36, 24])
      expect(Math.abs(differenceAt(id, leadHours)), `${leadHours} h`).toBeLessThan(0.12);
  });

  it.each(stations.map(({ id }) => id))('has seen the thermometer at %s in the evening', (id) => {
    expect(differenceAt(id, 6)).toBeGreaterThan(0.2);
  });

  it('never crosses its own book, and what YES and NO cost together is more than what they pay', () => {
    const days = stationDaysBetween({ from: '2026-07-01', to: '2026-07-03' });
    for (const day of days)
      for (let leadHours = 47; leadHours > 0; leadHours -= 3) {
        const { markets, books } = look(day, leadHours);
        for (const { ticker, yesBid, yesAsk, noBid, noAsk } of markets) {
          expect(isCrossed(books.get(ticker)!), ticker).toBe(false);
          if (yesBid !== null) expect(yesBid + noAsk!).toBe(1_000_000n);
          if (noBid !== null) expect(noBid + yesAsk!).toBe(1_000_000n);
          if (yesAsk !== null && noAsk !== null) expect(yesAsk + noAsk).toBeGreaterThan(1_000_000n);
        }
      }
  });

  it('goes on about a day that is long over', () => {
    const day = stationDaysBetween({ from: '2024-01-01', to: '2024-01-01' })[0]!;
    const { markets } = readMarkets({ seed, weather }, [day], new Date('2026-07-04T12:00:00Z'));
    const report = weather.report(findStation(day.station.id)!, '2024-01-01');
    for (const { bracket, lastPrice } of markets)
      expect(lastPrice).toBe(bracketPays(bracket, report) ? 990_000n : 10_000n);
  });
});
