import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { forecastSchema } from '../../../src/markets/api/forecast-schema.js';
import type { ScoresAnswer } from '../../../src/markets/scores/schema.js';
import type { TemperatureKind } from '../../../src/markets/market/market.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import { findPlace, findStation } from '../../../src/markets/market/stations.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { dailySubject, everything, hourSubject } from '../../../src/markets/venue/simulation/world.js';
import { useService } from '../../support/use.js';

type ForecastAnswer = z.output<typeof forecastSchema>;

const denver = findStation('KDEN')!;
const miami = findStation('KMIA')!;
const weather = simulateWeather('gauge');

const { service } = useService({
  trading: { selection: { ...everything, stations: [denver, miami] } },
});

async function readAt<T>(time: string, path: string): Promise<T> {
  service.clock.set(time);
  await service.trading.refresher.refresh();
  const response = await fetch(`${service.url}${path}`);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}

describe('the forecast of an area', () => {
  const path = '/forecast/INDEX-MIAMI';
  /** 1 pm in Miami is 18:00Z. The index publishes that hour's value five minutes later. */
  const hourOne = ({ hours }: ForecastAnswer) =>
    hours.find(({ date, hour }) => date === '2026-11-21' && hour === 13)!;

  it("is that of its city, with the station's days and the area's hours", async () => {
    const answer = await readAt<ForecastAnswer>('2026-11-21T17:30:00Z', path);
    expect(answer.station).toBe('KMIA');
    expect(answer.days.length).toBeGreaterThan(0);
    expect(answer.minima).toHaveLength(answer.days.length);
    expect(answer.hours.every(({ area }) => area === 'INDEX-MIAMI')).toBe(true);
    expect(await readAt('2026-11-21T17:30:00Z', '/forecast/kmia')).toEqual(answer);
    const refused = await fetch(`${service.url}/forecast/INDEX-TOKYO`);
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([
      404,
      'unknown_station',
    ]);
  });

  it('is uncertain about an hour until the index publishes it, and then certain', async () => {
    const before = hourOne(await readAt<ForecastAnswer>('2026-11-21T18:04:00Z', path));
    expect(before).toMatchObject({ at: '2026-11-21T18:00:00.000Z', observed: null });
    expect(before.standardDeviationF).toBeGreaterThan(0);
    expect(before.brackets.some(({ probability }) => probability > 0 && probability < 1)).toBe(true);

    const after = hourOne(await readAt<ForecastAnswer>('2026-11-21T18:05:30Z', path));
    const valueF = weather.value(hourSubject(findPlace('INDEX-MIAMI')!, '2026-11-21', 13));
    expect(after.observed).toMatchObject({ temperatureF: valueF });
    for (const { temperatureF } of after.quantiles) expect(temperatureF).toBe(valueF);
    const { markets } = service.trading.snapshots.current!;
    for (const { ticker, probability } of after.brackets)
      expect(probability, ticker).toBe(valueF > markets.get(ticker)!.bracket!.floor! ? 1 : 0);
    expect(after.brackets.length).toBeGreaterThan(5);
  });
});

describe('scores', () => {
  const read = (kind: string) =>
    readAt<ScoresAnswer>('2026-11-22T16:30:00Z', `/scores?kind=${kind}&station=KDEN`);

  it('of minima cover minima only', async () => {
    // Denver's days end at 07:00Z, so 19:00Z is 12 hours before one end and 36 hours before the next.
    await readAt('2026-11-21T19:01:00Z', '/markets');
    await service.trading.scores.record();
    await readAt('2026-11-22T16:30:00Z', '/markets');
    await service.trading.scores.score();
    const day = climateDayOf(denver, '2026-11-21');
    const reported = (kind: TemperatureKind) => weather.value(dailySubject(kind, { station: denver, day }));
    const [minima, maxima] = [await read('daily_minimum'), await read('daily_maximum')];
    for (const { uncalibrated, records } of [minima, maxima]) {
      expect(uncalibrated).toMatchObject({ n: 1, waiting: 1 });
      expect(records).toMatchObject([{ station: 'KDEN', date: '2026-11-21', leadHours: 12, hour: null }]);
    }
    expect([minima.kind, maxima.kind]).toEqual(['daily_minimum', 'daily_maximum']);
    expect(minima.records[0]!.temperatureF).toBe(reported('daily_minimum'));
    expect(minima.records[0]!.ticker).toContain('KXLOWTDEN-26NOV21');
    expect(maxima.records[0]!.temperatureF).toBe(reported('daily_maximum'));
    const refused = await fetch(`${service.url}/scores?kind=weekly`);
    expect(refused.status).toBe(400);
  });
});
