import { createServer, type Server } from 'node:http';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { createIndexReader } from '../../../src/markets/weather/kalshi-index.js';
import { createMinuteBook, type MemberReading } from '../../../src/markets/weather/minutes.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

type Json = Record<string, unknown>;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const signal = new AbortController().signal;
let server: Server;
let url: string;
let now = 0;
let points: Record<string, Json[]>;
let calibrations: Json[];
let spoil: ((path: string) => { status: number; body: unknown } | undefined) | undefined;
let requests: string[];
let log: string[];

beforeAll(async () => {
  server = createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url!, 'http://venue');
    requests.push(req.url!);
    const [, city = '', isCalibrations] =
      /^\/trade-api\/v2\/live_data\/weather\/([\w-]+)(\/calibrations)?$/.exec(pathname) ?? [];
    const from = now - Number(searchParams.get('last_sec')) * 1000;
    const timeseries = (points[city] ?? []).filter(({ t }) => Number(t) >= from);
    const answer = spoil?.(pathname) ?? {
      status: 200,
      body: isCalibrations
        ? { city, units: 'celsius', calibrations }
        : { city, config_version: `${city}-temperature-v1.0`, units: 'fahrenheit', timeseries },
    };
    res.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}/trade-api/v2`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  // Local times: 14:10 in Miami and New York, 13:10 in Chicago, 11:10 in Los Angeles.
  now = Date.parse('2026-09-13T18:10:00Z');
  [points, calibrations, spoil, requests, log] = [{}, [], undefined, [], []];
});

const makeReader = (more: Partial<Parameters<typeof createIndexReader>[0]> = {}) =>
  createIndexReader({
    ...more,
    client: createKalshiClient({ baseUrl: url, budget: plentyOfTokens(), attempts: 1 }),
    clock: { now: () => now },
    log: pino({ level: 'info' }, { write: (line: string) => void log.push(line) }),
  });
const point = (time: string, v: number | undefined, more: Json = {}): Json => ({
  t: Date.parse(`2026-09-13T${time}:00Z`),
  ...(v === undefined ? {} : { v }),
  status: 'normal',
  contributors: 5,
  ...more,
});

describe("the venue's index", () => {
  it("reports the hours that have struck, in the city's local time", async () => {
    points = {
      miami: [point('15:59', 89.7), point('16:00', 90.01), point('17:00', 91.5), point('17:30', 92)],
      'la-coastal': [point('17:00', 71.23)],
    };
    const found = await makeReader().read(signal);
    expect(found.map(({ stationId, date, hour, extremeF }) => [stationId, date, hour, extremeF])).toEqual([
      ['INDEX-MIAMI', '2026-09-13', 12, 90.01],
      ['INDEX-MIAMI', '2026-09-13', 13, 91.5],
      ['INDEX-LA-COASTAL', '2026-09-13', 10, 71.23],
    ]);
    expect(found[0]).toMatchObject({
      kind: 'hourly',
      observedAt: new Date('2026-09-13T16:00:00Z'),
      fetchedAt: new Date(now),
    });
  });

  it.each<[string, Json]>([
    ['has no value', point('18:00', undefined, { status: 'incomplete' })],
    ['has a doubtful value', point('18:00', 95, { status: 'incomplete' })],
    ['has an unknown status', point('18:00', 95, { status: 'paused' })],
    ['was filled in later', point('18:00', 95, { receipt_basis: 'synoptic_latency' })],
    ['lies in the future', point('19:00', 95)],
  ])('ignores a point that %s', async (_what, odd) => {
    points = { miami: [point('17:59', 93.2), odd] };
    const reader = makeReader();
    expect(await reader.read(signal)).toEqual([]);
    expect(reader.states[0]!.latest).toEqual({
      at: new Date('2026-09-13T17:59:00Z'),
      temperatureF: 93.2,
      status: 'normal',
    });
  });

  it('counts a degraded value, and an hour only once no late reading can change it', async () => {
    points = { nyc: [point('18:00', 77.77, { status: 'degraded', contributors: 7 })] };
    now = Date.parse('2026-09-13T18:04:00Z');
    const reader = makeReader();
    expect(await reader.read(signal)).toEqual([]);
    expect(reader.states[1]!.latest).toMatchObject({ temperatureF: 77.77, status: 'degraded' });
    points.nyc = [point('18:00', 77.78)];
    now += 2 * MINUTE_MS;
    expect(await reader.read(signal)).toMatchObject([{ stationId: 'INDEX-NYC', hour: 14, extremeF: 77.78 }]);
  });

  it('counts the first occurrence of the hour that repeats in autumn', async () => {
    now = Date.parse('2026-11-01T09:00:00Z');
    // 1:00 in daylight saving time, then again in standard time.
    points = {
      nyc: ['05', '06'].map((hour, i) => ({
        t: Date.parse(`2026-11-01T${hour}:00:00Z`),
        v: 50 + i,
        status: 'normal',
      })),
    };
    expect(await makeReader().read(signal)).toMatchObject([{ date: '2026-11-01', hour: 1, extremeF: 50 }]);
  });

  it('gets one request a minute for new values, and for all missed values after a pause', async () => {
    const reader = makeReader();
    for (let i = 0; i < 6; i++) {
      await reader.read(signal);
      now += 30_000;
    }
    const asked = requests.filter((path) => path.includes('/miami?'));
    expect(asked.map((path) => Number(/last_sec=(\d+)/.exec(path)![1]))).toEqual([
      26 * 3600,
      16 * 60,
      16 * 60,
    ]);
    expect(requests.filter((path) => path.endsWith('/miami/calibrations'))).toHaveLength(1);
    now += 3 * HOUR_MS;
    await reader.read(signal);
    expect(requests.findLast((path) => path.includes('/miami?'))).toContain('last_sec=11760');
  });

  it('reports its current calibration, the last one in effect', async () => {
    const record = (version: string, effective: string, weight: number) => ({
      config_version: version,
      effective_at_ms: Date.parse(effective),
      city_reference_c: 0.12,
      stations: [{ station_id: 'KMIA1M', weight, offset_c: -0.4, update_note: 'updated' }],
    });
    calibrations = [
      record('v1.0', '2026-08-20T00:00:00Z', 0.3),
      record('v1.0-cal-20260907', '2026-09-07T00:00:00Z', 0.2),
      record('v1.0-cal-20260914', '2026-09-14T00:00:00Z', 0.1),
    ];
    const reader = makeReader();
    await reader.read(signal);
    expect(reader.states[0]!.calibration).toEqual({
      version: 'v1.0-cal-20260907',
      effectiveAt: new Date('2026-09-07T00:00:00Z'),
      members: [{ stationId: 'KMIA1M', weight: 0.2, offsetC: -0.4 }],
    });
    now = Date.parse('2026-09-14T00:00:30Z');
    await reader.read(signal);
    expect(reader.states[0]!.calibration!.version).toBe('v1.0-cal-20260914');
  });

  const thirteen =
    `miami, dfw, houston, phl-delaware-valley, puget-sound, sf-bay, greater-boston, southeast-michigan, \
kansas-city, minneapolis-st-paul, nyc, chicago, la-coastal`.split(', ');
  it.each([
    ['with commas', thirteen.join(', ')],
    ['in brackets', `[${thirteen.join(', ')}]`],
    [
      'in quotes, with “and”',
      thirteen
        .map((id) => `"${id}"`)
        .join(', ')
        .replace(', "la-', ' and "la-'),
    ],
  ])(
    'shows each city that the venue names %s, with members and weights, and asks for no values',
    async (_, named) => {
      calibrations = [
        {
          config_version: 'v1.0',
          effective_at_ms: Date.parse('2026-08-20T00:00:00Z'),
          city_reference_c: 0.12,
          stations: [{ station_id: 'KHOU1M', weight: 1, offset_c: -0.4 }],
        },
      ];
      const refusal = (message: string) => ({
        status: 400,
        body: { error: { code: 'bad_request', message } },
      });
      const isReal = (path: string) => thirteen.some((id) => path.includes(`/weather/${id}`));
      spoil = (path) => (isReal(path) ? undefined : refusal(`unknown city: use one of, say, ${named}`));
      const reader = makeReader();
      for (let minute = 0; minute < 3; minute++) {
        const { length } = requests;
        await reader.read(signal);
        expect(requests.length - length).toBeLessThanOrEqual(13);
        now += MINUTE_MS;
      }
      expect(reader.states.map(({ cityId }) => cityId).toSorted()).toEqual(thirteen.toSorted());
      const houston = reader.states.find(({ cityId }) => cityId === 'houston')!;
      expect(houston).toMatchObject({
        area: null,
        calibration: { version: 'v1.0', members: [{ stationId: 'KHOU1M', weight: 1, offsetC: -0.4 }] },
      });
      expect(requests.filter((path) => path.includes('?')).every((path) => !path.includes('houston'))).toBe(
        true,
      );
      expect(requests.filter((path) => path.includes('houston'))).toHaveLength(1);
    },
  );

  it('reads the one-minute readings of cities with wanted stations, in at most 13 requests a minute', async () => {
    const refusal = { status: 400, body: { message: `unknown city, not in [${thirteen.join(', ')}]` } };
    calibrations = [
      {
        config_version: 'v1.0',
        effective_at_ms: Date.parse('2026-08-20T00:00:00Z'),
        city_reference_c: 0.12,
        stations: [{ station_id: 'KHOU1M', weight: 1, offset_c: -0.4 }],
      },
    ];
    spoil = (path) => (path.endsWith('/none') ? refusal : undefined);
    const member = (more: Json) => ({
      station_id: 'KHOU1M',
      code: 'pending',
      source: 'hf_asos',
      temp_f: 87.8,
      ...more,
    });
    points = {
      houston: [
        {
          t: now - 5 * MINUTE_MS,
          status: 'normal',
          v: 87,
          stations: [member({ code: 'ok' }), { station_id: 7 }],
        },
        {
          t: now - 4 * MINUTE_MS,
          status: 'normal',
          v: 87,
          stations: [member({ source: 'metar', obs_time_ms: 1 })],
        },
        { t: now - 3 * MINUTE_MS, status: 'incomplete', stations: [member({})] },
        {
          t: now - 2 * MINUTE_MS,
          status: 'incomplete',
          receipt_basis: 'synoptic_latency',
          stations: [member({})],
        },
      ],
    };
    const taken: MemberReading[] = [];
    const wanted = new Set<string>();
    const reader = makeReader({
      minutes: { take: (found) => void taken.push(...found), keepOnly: () => undefined },
      wanted: () => wanted,
    });
    for (let minute = 0; minute < 8; minute++) {
      const { length } = requests;
      if (minute === 4) {
        expect(requests.some((path) => path.includes('/houston?'))).toBe(false);
        wanted.add('KHOU');
      }
      await reader.read(signal);
      await reader.read(signal);
      expect(requests.length - length).toBeLessThanOrEqual(13);
      now += MINUTE_MS;
    }
    const ofHouston = requests.filter((path) => path.includes('/houston?'));
    expect(ofHouston).toHaveLength(4);
    expect(ofHouston.every((path) => path.includes('detailed=true'))).toBe(true);
    const first = now - 8 * MINUTE_MS;
    expect(taken.slice(0, 3)).toEqual([
      { stationId: 'KHOU', at: new Date(first - 5 * MINUTE_MS), temperatureF: 87.8, code: 'ok' },
      { stationId: 'KHOU', at: new Date(first - 4 * MINUTE_MS), temperatureF: null, code: 'pending' },
      { stationId: 'KHOU', at: new Date(first - 3 * MINUTE_MS), temperatureF: 87.8, code: 'pending' },
    ]);
  });

  it('keeps the known cities if the venue names none', async () => {
    points = { miami: [point('16:00', 90.01)] };
    spoil = (path) => (path.endsWith('/none') ? { status: 400, body: 'gone' } : undefined);
    const reader = makeReader();
    expect(await reader.read(signal)).toHaveLength(1);
    expect(reader.states).toHaveLength(4);
  });

  it.each<[string, { status: number; body: unknown }]>([
    ['the venue does not know', { status: 400, body: { code: 'bad_request', message: 'unknown city' } }],
    ['is rate-limited', { status: 429, body: { error: 'too many requests' } }],
    [
      'answers for another city',
      { status: 200, body: { city: 'miami', units: 'fahrenheit', timeseries: [] } },
    ],
    ['is in °C', { status: 200, body: { city: 'chicago', units: 'celsius', timeseries: [] } }],
    [
      'has a text value',
      {
        status: 200,
        body: { city: 'chicago', units: 'fahrenheit', timeseries: [{ t: 1, v: '9', status: 'normal' }] },
      },
    ],
  ])(
    'keeps the last values of an area that %s, logs it once and serves the others',
    async (_what, answer) => {
      points = { miami: [point('16:00', 90.01)], chicago: [point('16:00', 80.5)] };
      const reader = makeReader({ minutes: createMinuteBook() });
      expect(await reader.read(signal)).toHaveLength(2);
      spoil = (path) => (path.includes('chicago') ? answer : undefined);
      points.miami!.push(point('18:00', 92.5));
      for (let i = 0; i < 5; i++) {
        now += 2 * MINUTE_MS;
        await reader.read(signal);
      }
      const found = await reader.read(signal);
      expect(found.map(({ stationId, extremeF }) => [stationId, extremeF])).toEqual([
        ['INDEX-MIAMI', 90.01],
        ['INDEX-MIAMI', 92.5],
        ['INDEX-CHICAGO', 80.5],
      ]);
      expect(reader.states[2]!.problem).not.toBeNull();
      expect(requests.filter((path) => path.includes('/chicago?')).length).toBeGreaterThan(1);
      expect(
        requests.filter((path) => path.includes('?')).every((path) => path.includes('detailed=true')),
      ).toBe(true);
      expect(log.filter((line) => line.includes('"city":"chicago"'))).toHaveLength(1);
      spoil = undefined;
      now += 20 * MINUTE_MS;
      await reader.read(signal);
      expect(reader.states[2]!.problem).toBeNull();
    },
  );
});
