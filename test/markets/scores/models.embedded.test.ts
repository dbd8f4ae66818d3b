import { beforeAll, expect, it } from 'vitest';
import { insertRuns } from '../../../src/markets/learning/queries.js';
import { stations } from '../../../src/markets/market/stations.js';
import { seenVersions } from '../../../src/markets/weather/versions.js';
import type { ScoresAnswer } from '../../../src/markets/scores/schema.js';
import { scoreRecord } from '../../../src/markets/scores/score.js';
import { seedScores } from '../support/scores-page.js';
import { useService } from '../../support/use.js';

const { service } = useService();
beforeAll(async () => {
  service.clock.set('2026-11-21T15:00:00Z');
});

const read = async (query = '') => {
  const response = await fetch(`${service.url}/scores${query}`);
  expect(response.status).toBe(200);
  return (await response.json()) as ScoresAnswer;
};

it('each model is scored on its own by the rules of the combined forecast', () => {
  const forecast = { mean: 71.3, deviation: 2.4 };
  const brackets = [
    { ticker: 'A', floor: null, cap: 70, model: 0.2, market: null },
    { ticker: 'B', floor: 70, cap: 71, model: 0.3, market: null },
    { ticker: 'C', floor: 71, cap: null, model: 0.5, market: null },
  ];
  const record = {
    ...forecast,
    kind: 'daily_maximum' as const,
    atLeast: null,
    atMost: null,
    members: [70],
    climateMean: null,
    climateDeviation: null,
    brackets,
  };
  expect(scoreRecord(record, 74).modelScores).toBeNull();
  const models = [
    { model: 'main', weight: 0.9, ...forecast },
    { model: 'off', weight: 0.1, mean: 60, deviation: 1 },
  ];
  const { modelCrps, modelScores } = scoreRecord({ ...record, models }, 74);
  expect(modelScores!['main']!.crps).toBe(modelCrps);
  // P(above 71) = 1 − Φ((71.5 − 71.3) / 2.4).
  expect(modelScores!['main']!.logScore).toBeCloseTo(-Math.log(1 - 0.533_207), 4);
  expect(modelScores!['off']!.crps).toBeGreaterThan(13);
  expect(modelScores!['off']!.logScore).toBeCloseTo(Math.log(10_000), 9);
});

it('a version that a run states begins with its first run, and is a break if another one came before', async () => {
  const runs = (model: string, days: [date: string, version: string | null][]) =>
    days.map(([date, version]) => ({
      model: model === 'main' ? undefined : model,
      kind: 'daily_maximum' as const,
      stationId: stations[0]!.id,
      date,
      modelRunAt: new Date(`${date}T06:00:00Z`),
      fetchedAt: new Date(`${date}T08:00:00Z`),
      membersF: [70],
      mean: 70,
      variance: 0,
      version: version ?? undefined,
    }));
  await insertRuns(service.context.db.orm, 'simulated', [
    ...runs('main', [
      ['2026-11-01', 'v1'],
      ['2026-11-02', 'v2'],
      ['2026-11-03', 'v2'],
    ]),
    ...runs('older', [['2026-11-01', 'v7']]),
  ]);
  service.clock.advance(60_000);
  expect((await read('?station=KNYC')).breaks).toEqual([
    { model: 'main', version: 'v2', from: '2026-11-02' },
  ]);
  expect((await read('?kind=daily_minimum')).breaks).toEqual([]);
});

it('known dates are breaks within the window alone, and only of models that are scored', () => {
  const known = (since: string, asOf: string) => seenVersions(['nbm', 'ecmwf', 'hrrr'], [], { since, asOf });
  expect(known('2026-05-01', '2026-05-10').filter(({ isBreak }) => isBreak)).toEqual([
    { model: 'nbm', version: '5.0', from: '2026-05-05', isBreak: true },
  ]);
  const later = known('2026-05-10', '2026-06-10');
  expect(later.filter(({ isBreak }) => isBreak).map(({ model }) => model)).toEqual(['ecmwf']);
  expect(later.findLast(({ model }) => model === 'nbm')!.version).toBe('5.0');
});

it('the scores show each model beside the mixture, with its weight in the latest forecasts', async () => {
  expect((await read()).models).toEqual([]);
  await seedScores(service, { days: 20, model: 2, market: 3, stationIds: ['KNYC', 'KLAX'] });
  service.clock.advance(60_000);
  const all = await read();
  // 20 days at two stations, at the two of four leads that lie before the start of the day.
  expect(all.models).toMatchObject([
    { model: 'main', n: 80, weight: 0.25 },
    { model: 'single', n: 80, weight: 0.75 },
  ]);
  const [main, single] = all.models;
  expect(main!.mixed.crps).toBeCloseTo(single!.mixed.crps, 9);
  expect(Math.abs(single!.crps - main!.crps)).toBeGreaterThan(0.01);
  const one = await read('?station=KLAX&lead=24');
  expect(one.models.map(({ n }) => n)).toEqual([20, 20]);
  expect(one.models[0]!.mixed.crps).toBeCloseTo(one.overall.crps!.model, 9);
  expect((await read('?lead=6')).models).toEqual([]);
  expect((await read('?kind=daily_minimum')).models).toEqual([]);
});
