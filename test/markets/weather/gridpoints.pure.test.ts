import { createServer } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createGridpoints } from '../../../src/markets/weather/gridpoints.js';

const DEGREES = 'wmoUnit:degC';
const value = (validTime: string, degreesC: number | null) => ({ validTime, value: degreesC });

/** In the weather service's format: the rest of today, then whole days and nights. */
const grid = () => ({
  updateTime: '2026-07-09T19:03:33+00:00',
  gridId: 'OKX',
  maxTemperature: {
    uom: DEGREES,
    values: [
      value('2026-07-09T13:00:00+00:00/PT12H', 28.888_888_888_888_89),
      value('2026-07-10T12:00:00+00:00/PT13H', 31.666_666_666_666_668),
    ],
  },
  minTemperature: {
    uom: DEGREES,
    values: [
      value('2026-07-09T13:00:00+00:00/PT1H', 20.555_555_555_555_557),
      value('2026-07-10T00:00:00+00:00/PT14H', 22.777_777_777_777_78),
    ],
  },
});

const signal = new AbortController().signal;
let nowMs = 0;
let paths: string[] = [];
let agents: (string | undefined)[] = [];
let point = { gridId: 'OKX', gridX: 34, gridY: 45 };
let properties: unknown;
let status = 200;
let baseUrl = '';
const server = createServer((req, res) => {
  paths.push(req.url!);
  agents.push(req.headers['user-agent']);
  res.statusCode = status;
  res.end(JSON.stringify({ properties: req.url!.startsWith('/points') ? point : properties }));
});
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(() => void server.close());
beforeEach(() => {
  nowMs = Date.parse('2026-07-09T20:00:00Z');
  [paths, agents, status] = [[], [], 200];
  point = { gridId: 'OKX', gridX: 34, gridY: 45 };
  properties = grid();
});

const create = () => createGridpoints({ baseUrl, clock: { now: () => nowMs } });

describe('the gridpoint forecast', () => {
  it('gives maxima and minima by climate day in °F, with a User-Agent', async () => {
    const { ensembles } = await create().read(signal);
    expect(ensembles.map(({ kind, date, membersF }) => [kind, date, membersF[0]])).toEqual([
      ['daily_maximum', '2026-07-09', 84],
      ['daily_maximum', '2026-07-10', 89],
      ['daily_minimum', '2026-07-10', 73],
    ]);
    expect(ensembles[0]).toMatchObject({
      model: 'gridpoints',
      stationId: 'KNYC',
      modelRunAt: new Date('2026-07-09T19:03:33Z'),
    });
    expect(paths).toEqual(['/points/40.7833,-73.9667', '/gridpoints/OKX/34,45']);
    expect(agents.every((agent) => agent?.includes('gauge'))).toBe(true);
  });

  it.each([
    ['P1D', 'daily_maximum'],
    ['PT9H', 'daily_maximum'],
    ['PT17H', 'daily_maximum'],
  ])('leaves out an interval of %s, which is not a day', async (duration) => {
    const given = grid();
    given.maxTemperature.values = [value(`2026-07-10T12:00:00+00:00/${duration}`, 30)];
    properties = given;
    const { ensembles } = await create().read(signal);
    expect(ensembles.map(({ kind }) => kind)).toEqual(['daily_minimum']);
  });

  const maxima = (...wrong: unknown[]) => ({
    ...grid(),
    maxTemperature: { uom: DEGREES, values: [...wrong, ...grid().maxTemperature.values] },
  });

  it.each<[string, unknown, string[], RegExp]>([
    [
      'another unit',
      { ...grid(), maxTemperature: { uom: 'wmoUnit:degF', values: [] } },
      ['73'],
      /maxTemperature.uom/,
    ],
    ['no layer', { ...grid(), minTemperature: undefined }, ['84', '89'], /minTemperature/],
    ['a broken interval', maxima(value('soon', 1)), ['84', '89', '73'], /soon is not an interval/],
    [
      'no number',
      maxima({ validTime: 'PT1H', value: 'hot' }),
      ['84', '89', '73'],
      /maxTemperature.values\[0\].value/,
    ],
    [
      'an impossible value',
      maxima(value('2026-07-11T12:00:00Z/PT13H', 99)),
      ['84', '89', '73'],
      /99 °C is impossible/,
    ],
  ])('goes on without a part with %s, and names it', async (_, given, expected, problem) => {
    properties = given;
    const { ensembles, notes } = await create().read(signal);
    expect(ensembles.map(({ membersF }) => String(membersF[0]))).toEqual(expected);
    const note = notes.find(({ name }) => name === 'gridpoints in part');
    expect(note).toMatchObject({ count: 1, example: expect.stringMatching(problem) as string });
  });

  it.each([
    ['another grid', () => ({ ...grid(), gridId: 'PHI' }), /the grid is PHI/],
    [
      'an old run',
      () => ({ ...grid(), updateTime: '2026-07-08T12:00:00+00:00' }),
      /newest run is from 2026-07-08/,
    ],
  ])('is left out with its reason for %s', async (_, given, reason) => {
    properties = given();
    const { ensembles, notes } = await create().read(signal);
    expect(ensembles).toEqual([]);
    expect(notes[0]!.example).toMatch(reason);
  });

  it('looks for the grid point again after the grid has moved', async () => {
    const gridpoints = create();
    properties = { ...grid(), gridId: 'PHI' };
    await gridpoints.read(signal);
    point = { gridId: 'PHI', gridX: 1, gridY: 2 };
    for (let i = 0; i < 40; i++) {
      nowMs += 60_000;
      await gridpoints.read(signal);
    }
    expect(paths.filter((path) => path === '/points/40.7833,-73.9667')).toHaveLength(2);
    expect(paths).toContain('/gridpoints/PHI/1,2');
  });

  it('is queried less often while the service fails', async () => {
    status = 503;
    const gridpoints = create();
    for (let i = 0; i < 60; i++, nowMs += 60_000) await gridpoints.read(signal);
    expect(paths.length).toBeLessThan(8);
  });
});
