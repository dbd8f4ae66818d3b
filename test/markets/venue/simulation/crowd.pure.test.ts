import { describe, expect, it } from 'vitest';
import { probabilityOf, sureDegree } from '../../../../src/markets/market/distribution.js';
import { readWeatherOf } from '../../../../src/markets/weather/simulated.js';
import { isCrossed } from '../../../../src/markets/market/book.js';
import { isPlaced, type TemperatureKind } from '../../../../src/markets/market/market.js';
import { readMarketsOf } from '../../../../src/markets/venue/simulated.js';
import { impliedProbabilities, logScore } from '../../../../src/markets/scores/score.js';
import { bracketPays, outcomesOf, type Bracket } from '../../../../src/markets/market/brackets.js';
import { findStation, indexAreas } from '../../../../src/markets/market/stations.js';
import { believe } from '../../../../src/markets/venue/simulation/crowd.js';
import { readModels } from '../../../../src/markets/venue/simulation/ensemble.js';
import { simulateWeather, type SimulatedWorld } from '../../../../src/markets/venue/simulation/weather.js';
import {
  dailySubject,
  hourSubject,
  leadingStations,
  stationDaysBetween,
  subjectsOf,
  type SimulatedSubject,
} from '../../../../src/markets/venue/simulation/world.js';

const HOUR_MS = 3_600_000;
const seed = 'gauge';
const weather = simulateWeather(seed);
const world: Pick<SimulatedWorld, 'seed' | 'weather' | 'noticedAt'> = { seed, weather };
const unnoticed = { ...world, noticedAt: new Date('2027-01-01T00:00:00Z') };
const season = { from: '2026-05-01', to: '2026-08-28' };
const mean = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;

const daysOf = (kind: TemperatureKind, ids: readonly string[] = leadingStations.map(({ id }) => id)) =>
  subjectsOf(
    stationDaysBetween(
      season,
      ids.map((id) => findStation(id)!),
    ),
    [kind],
  );

function look(subject: SimulatedSubject, leadHours: number, of = world) {
  const at = new Date(subject.span.end.getTime() - leadHours * HOUR_MS);
  const { markets: listed, books } = readMarketsOf(of, [subject], at);
  const markets = listed.filter(isPlaced);
  const prices = impliedProbabilities(
    markets.map(({ ticker }) => books.get(ticker)),
    outcomesOf(markets.map(({ bracket }) => bracket)),
  )!;
  const winner = markets.findIndex(({ bracket }) => bracketPays(bracket, weather.value(subject)));
  return { at, markets, books, prices, winner };
}

/**
 * The best possible forecast from the public models and past maxima, given knowledge of how the simulated world is
 * built.
 */
function bestForecast(subject: SimulatedSubject, at: Date, brackets: readonly Bracket[]) {
  const { ensembles, observed } = readWeatherOf({ weather }, [subject], at);
  const distribution = {
    ...readModels(weather, subject, ensembles[0]!.modelRunAt),
    atLeast: observed[0] ? sureDegree(observed[0].extremeF) : null,
  };
  return brackets.map((bracket) => probabilityOf(distribution, bracket));
}

/** Mean log score of the best forecast minus that of the prices, over a season. */
const differenceAt = (stationId: string, leadHours: number, of = world): number =>
  mean(
    daysOf('daily_maximum', [stationId]).map((subject) => {
      const { at, markets, prices, winner } = look(subject, leadHours, of);
      const brackets = markets.map(({ bracket }) => bracket);
      return logScore(bestForecast(subject, at, brackets), winner) - logScore(prices, winner);
    }),
  );

describe('the crowd of the simulated markets', () => {
  it.each(['daily_maximum', 'daily_minimum'] as const)(
    'prices a %s with good calibration, and with rough calibration in quiet cities',
    (kind) => {
      const busy = new Set(['KNYC', 'KMDW', 'KAUS']);
      const seen = daysOf(kind)
        .flatMap((subject) =>
          (kind === 'daily_maximum' ? [30, 9] : [36, 19]).map((leadHours) => ({
            ...look(subject, leadHours),
            id: subject.station.id,
          })),
        )
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
    },
  );

  it.each(['KLAX', 'KMIA'])(
    'can be beaten at %s a day or more ahead, until it notices that it follows the grid point',
    (id) => {
      for (const leadHours of [36, 24])
        expect(differenceAt(id, leadHours, unnoticed), `${leadHours} h`).toBeLessThan(-0.15);
    },
  );

  // In Miami, last month's weather says little about the day.
  it.each([
    ['KLAX', 0.05],
    ['KPHL', 0.06],
    ['KMIA', 0.09],
  ] as const)('errs by a few cents at %s once it has noticed', (id, most) => {
    const errors = daysOf('daily_maximum', [id]).flatMap((subject) =>
      [36, 30, 24, 17].flatMap((leadHours) => {
        const { at, markets, prices } = look(subject, leadHours);
        const best = bestForecast(
          subject,
          at,
          markets.map(({ bracket }) => bracket),
        );
        return prices.map((price, i) => Math.abs(price - best[i]!));
      }),
    );
    expect(mean(errors)).toBeLessThan(most);
    expect(mean(errors)).toBeGreaterThan(0.01);
  });

  it.each(['KNYC', 'KMDW', 'KAUS'])('is near the best possible forecast at %s a day ahead', (id) => {
    for (const leadHours of [36, 24])
      expect(Math.abs(differenceAt(id, leadHours)), `${leadHours} h`).toBeLessThan(0.12);
  });

  it.each(leadingStations.map(({ id }) => id))('has seen the thermometer at %s in the evening', (id) => {
    expect(differenceAt(id, 6)).toBeGreaterThan(0.2);
  });

  it('has beliefs that sum to one over a ladder, and none for a minimum above the lowest so far', () => {
    const [minimum] = daysOf('daily_minimum', ['KDEN']);
    const { start } = minimum!.span;
    for (const hours of [-12, 3, 9, 20]) {
      const at = new Date(start.getTime() + hours * HOUR_MS);
      const belief = believe({ seed, weather }, minimum!, at);
      const of = (bracket: Bracket) => belief.probabilityOf(bracket);
      const below = of({ kind: 'less', floor: null, cap: 40 });
      const above = of({ kind: 'greater', floor: 41, cap: null });
      expect(below + of({ kind: 'between', floor: 40, cap: 41 }) + above).toBeCloseTo(1, 9);
      const reached = weather.running('daily_minimum', minimum!.station, minimum!.date, at);
      if (reached !== null)
        expect(of({ kind: 'greater', floor: Math.round(reached) + 1, cap: null })).toBe(0);
    }
  });

  it('never crosses its own book, and YES and NO together cost more than they pay', () => {
    const days = stationDaysBetween({ from: '2026-07-01', to: '2026-07-02' }, leadingStations);
    const hours = indexAreas.flatMap((area) => [9, 15].map((hour) => hourSubject(area, '2026-07-01', hour)));
    for (const subject of [...subjectsOf(days), ...hours])
      for (let leadHours = 47; leadHours > 0; leadHours -= 3) {
        const { markets, books } = look(subject, leadHours);
        for (const { ticker, yesBid, yesAsk, noBid, noAsk } of markets) {
          expect(isCrossed(books.get(ticker)!), ticker).toBe(false);
          if (yesBid !== null) expect(yesBid + noAsk!).toBe(1_000_000n);
          if (noBid !== null) expect(noBid + yesAsk!).toBe(1_000_000n);
          if (yesAsk !== null && noAsk !== null) expect(yesAsk + noAsk).toBeGreaterThan(1_000_000n);
        }
      }
  });

  it('pays less for each higher hourly threshold, up to noise in its books', () => {
    for (const area of indexAreas)
      for (const leadHours of [20, 6, 1]) {
        const { markets } = look(hourSubject(area, '2026-07-01', 14), leadHours);
        const middles = markets.map(({ lastPrice }) => Number(lastPrice));
        expect(middles).toEqual(middles.toSorted((a, b) => b - a));
      }
  });

  it('still has beliefs about a day long past', () => {
    const [station] = leadingStations;
    const [day] = stationDaysBetween({ from: '2024-01-01', to: '2024-01-01' }, [station!]);
    for (const kind of ['daily_maximum', 'daily_minimum'] as const) {
      const subject = dailySubject(kind, day!);
      const at = new Date('2026-07-04T12:00:00Z');
      const { markets } = readMarketsOf({ seed, weather }, [subject], at);
      for (const { bracket, lastPrice } of markets.filter(isPlaced))
        expect(lastPrice).toBe(bracketPays(bracket, weather.value(subject)) ? 990_000n : 10_000n);
    }
  });
});
