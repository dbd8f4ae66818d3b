import { inspect } from 'node:util';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createObserver } from '../../../src/markets/weather/weather.js';
import { createObservationReader } from '../../../src/markets/weather/nws-observations.js';
import { createOpenMeteoSource } from '../../../src/markets/weather/open-meteo.js';
import { WeatherUnavailableError } from '../../../src/markets/weather/read-json.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { startFakeWeather, type FakeWeather, type Report } from '../support/forecast-fake-weather.js';

let fake: FakeWeather;
let now = 0;
beforeAll(async () => {
  fake = await startFakeWeather();
});
afterAll(() => fake.stop());
beforeEach(() => {
  now = Date.parse('2026-07-04T20:02:00Z');
  Object.assign(fake, {
    temperature: () => 60,
    lastRun: undefined,
    spoil: undefined,
    fault: undefined,
    requests: [],
  });
  fake.reports = new Map();
});

const MINUTE_MS = 60_000;
const clock = { now: () => now };
const signal = new AbortController().signal;
const log = pino({ level: 'silent' });
const observations = (timeoutMs?: number) => [
  {
    name: 'observations',
    everyMs: 5 * MINUTE_MS,
    ...createObservationReader({ baseUrl: fake.url, clock, log, timeoutMs }),
  },
];
const makeSource = (observers = observations()) =>
  createOpenMeteoSource({
    baseUrl: fake.url,
    historyBaseUrl: fake.url,
    observations: observers,
    clock,
    log,
  });
const makeForecastSource = () => makeSource([]);
const readMain = async (source = makeForecastSource()) => {
  const data = await source.read(signal);
  return { ...data, ensembles: data.ensembles.filter(({ model }) => model === undefined) };
};
const ofMaximum = ({ kind }: { kind: string }) => kind === 'daily_maximum';
const asked = (part: string) => fake.requests.filter(({ path }) => path.startsWith(part)).length;
/** Makes the other models fail, for tests of the first one. */
const failFurther: FakeWeather['fault'] = (req, res) =>
  /models=(?!gfs025)/.test(req.url!) && (res.writeHead(503).end(), true);
const askedOfMain = () => fake.requests.filter(({ path }) => path.includes('models=gfs025')).length;

/** A Central Park report as received: whole degrees in the body, tenths in the remarks. */
const metar = (time: string, body: string, remarks: string, over: Partial<Report> = {}): Report => ({
  timestamp: `2026-07-${time}:00+00:00`,
  rawMessage: `KNYC ${time.slice(0, 2)}${time.slice(3).replace(':', '')}Z AUTO 00000KT 10SM CLR ${body} A3001 RMK AO2 SLP160 ${remarks}`,
  valueC: null,
  ...over,
});

describe('ensembles', () => {
  beforeEach(() => {
    fake.fault = failFurther;
  });

  it("contain each member's maximum over the climate day in standard time, from one request", async () => {
    // New York's 4 July lasts from 05:00Z to 05:00Z on the 5th. Each member peaks at 70 plus its number at 21:00Z. The
    // hotter hours just outside the day, 04:00Z on the 4th and 05:00Z on the 5th, do not count.
    fake.temperature = (_station, member, ms) => {
      const time = new Date(ms).toISOString();
      if (time === '2026-07-04T04:00:00.000Z' || time === '2026-07-05T05:00:00.000Z') return 110;
      return time === '2026-07-04T21:00:00.000Z' ? 70 + member : 60;
    };
    fake.lastRun = Date.parse('2026-07-04T12:00:00Z') / 1000;
    const { ensembles, fetchedAt } = await readMain();
    const find = (kind: string, id: string) =>
      ensembles.find((run) => run.kind === kind && run.stationId === id && run.date === '2026-07-04')!;
    const day = find('daily_maximum', 'KNYC');
    expect(day.membersF).toEqual(Array.from({ length: 31 }, (_, member) => 70 + member));
    expect(day.modelRunAt).toEqual(new Date('2026-07-04T12:00:00Z'));
    expect(day.fetchedAt).toEqual(new Date(now));
    expect(fetchedAt).toEqual(new Date(now));
    expect(new Set(ensembles.map(({ stationId }) => stationId)).size).toBe(28);
    // Los Angeles's 4 July begins at 08:00Z and ends at 08:00Z on the 5th, so the heat at 05:00Z on the 5th belongs to
    // it.
    const coast = find('daily_maximum', 'KLAX');
    expect(Math.min(...coast.membersF)).toBe(110);
    expect(askedOfMain()).toBe(1);
    expect(fake.requests[0]!.path).toContain('latitude=40.78333,41.78417,');
    expect(fake.requests[0]!.path).toContain('past_days=2&forecast_days=3');
  });

  it("include the members' mean at each hour of the climate day, for both extremes", async () => {
    fake.temperature = (_station, member, ms) => 50 + new Date(ms).getUTCHours() + (member % 3);
    const { ensembles } = await readMain();
    const ofDay = (stationId: string) =>
      ensembles.filter((run) => run.stationId === stationId && run.date === '2026-07-04');
    const [high, low] = ofDay('KNYC');
    expect([high!.kind, low!.kind]).toEqual(['daily_maximum', 'daily_minimum']);
    // The 31 members are off by 0, 1, 2, 0, 1, 2, …, 0, which is 30/31 on average. The day begins at 05:00Z.
    const mean = 50 + 30 / 31;
    expect(high!.curveF).toHaveLength(24);
    for (const [hour, curveF] of high!.curveF!.entries())
      expect(curveF).toBeCloseTo(mean + ((hour + 5) % 24), 9);
    expect(low!.curveF).toEqual(high!.curveF);
    expect(ofDay('KLAX')[0]!.curveF![0]).toBeCloseTo(mean + 8, 9);
    // Hourly forecasts of an area have no curve.
    expect(ensembles.filter(({ kind, curveF }) => kind === 'hourly' && curveF !== undefined)).toEqual([]);
  });

  it('contain minima over the same hours', async () => {
    fake.temperature = (_station, member, ms) => {
      const time = new Date(ms).toISOString();
      if (time === '2026-07-04T04:00:00.000Z' || time === '2026-07-05T05:00:00.000Z') return 10;
      return time === '2026-07-04T09:00:00.000Z' ? 50 - member : 60;
    };
    const { ensembles } = await readMain();
    const day = ensembles.find(
      ({ kind, stationId, date }) =>
        kind === 'daily_minimum' && stationId === 'KNYC' && date === '2026-07-04',
    )!;
    expect(day.membersF).toEqual(Array.from({ length: 31 }, (_, member) => 50 - member));
    // Every station has the same days for minima as for maxima.
    const keysOf = (kind: string) =>
      ensembles.filter((run) => run.kind === kind).map(({ stationId, date }) => `${stationId} ${date}`);
    expect(keysOf('daily_minimum')).toEqual(keysOf('daily_maximum'));
    expect(keysOf('daily_minimum')).toHaveLength(24 * 3);
  });

  it('contain the local hours of today and tomorrow for index areas, and no days', async () => {
    // In summer, 12:00 in Miami is 16:00Z, and in Los Angeles 19:00Z.
    fake.temperature = (station, member, ms) =>
      station === 'INDEX-MIAMI' && new Date(ms).toISOString() === '2026-07-04T16:00:00.000Z'
        ? 88 + member / 10
        : 61;
    const { ensembles } = await readMain();
    const hours = ensembles.filter(({ kind }) => kind === 'hourly');
    expect(hours).toHaveLength(4 * 48);
    expect(new Set(hours.map(({ stationId }) => stationId))).toEqual(
      new Set(['INDEX-MIAMI', 'INDEX-NYC', 'INDEX-CHICAGO', 'INDEX-LA-COASTAL']),
    );
    expect(ensembles.filter(({ stationId }) => stationId.startsWith('INDEX')).length).toBe(hours.length);
    const warm = hours.filter(({ membersF }) => membersF[0] !== 61);
    expect(warm).toMatchObject([{ stationId: 'INDEX-MIAMI', date: '2026-07-04', hour: 12 }]);
    expect(warm[0]!.membersF[30]).toBe(91);
    // After midnight on Miami's clock, but before midnight in the standard time of its climate day.
    now = Date.parse('2026-07-05T04:30:00Z');
    fake.today = '2026-07-05';
    const later = (await readMain()).ensembles.filter(({ stationId }) => stationId === 'INDEX-MIAMI');
    fake.today = '2026-07-04';
    expect(new Set(later.map(({ date }) => date))).toEqual(new Set(['2026-07-05', '2026-07-06']));
  });

  const datesOf = (ensembles: readonly { kind: string; stationId: string; date: string }[], id: string) =>
    ensembles.filter((run) => ofMaximum(run) && run.stationId === id).map(({ date }) => date);

  it('leave out the members that lack an hour, name them, and use the others', async () => {
    const gap = Date.parse('2026-07-04T18:00:00Z');
    fake.temperature = (_station, member, ms) => (member === 7 && ms === gap ? null : 60 + member);
    const { ensembles, notes } = await readMain();
    expect(datesOf(ensembles, 'KNYC')).toEqual(['2026-07-03', '2026-07-04', '2026-07-05']);
    const day = ensembles.find(({ stationId, date }) => stationId === 'KNYC' && date === '2026-07-04')!;
    expect(day.membersF).toEqual(Array.from({ length: 31 }, (_, i) => 60 + i).filter((f) => f !== 67));
    expect(day.curveF).toHaveLength(24);
    expect(notes![0]).toMatchObject({
      name: 'gfs025 in part',
      example: expect.stringContaining('KNYC 2026-07-04: 1 of 31 members lack hours') as string,
    });
  });

  it('omit days with too few complete members', async () => {
    const gap = Date.parse('2026-07-04T18:00:00Z');
    fake.temperature = (station, member, ms) => (station === 'KNYC' && member < 12 && ms === gap ? null : 60);
    const { ensembles } = await readMain();
    expect(datesOf(ensembles, 'KNYC')).toEqual(['2026-07-03', '2026-07-05']);
  });

  type Location = { hourly: Record<string, unknown[]> } & Record<string, unknown>;
  it.each<[string, (place: Location) => unknown, string]>([
    [
      'an impossible hour',
      (place) => ({
        ...place,
        hourly: { ...place.hourly, temperature_2m_member03: place.hourly.temperature_2m!.map(() => 9e9) },
      }),
      'lack hours',
    ],
    [
      'a member without values',
      (place) => ({ ...place, hourly: { ...place.hourly, temperature_2m_member03: null } }),
      'temperature_2m_member03 does not have a value for each hour',
    ],
    ['another unit', (place) => ({ ...place, hourly_units: { temperature_2m: '°C' } }), 'hourly_units'],
    ['another position', (place) => ({ ...place, latitude: 0 }), 'is not where'],
    ['nothing', () => null, 'expected object'],
  ])('of the other places go on when one place has %s', async (_what, spoil, problem) => {
    fake.spoil = (places) => places.map((place, i) => (i === 0 ? spoil(place as Location) : place));
    const { ensembles, notes } = await readMain();
    expect(new Set(ensembles.map(({ stationId }) => stationId)).size).toBeGreaterThanOrEqual(27);
    expect(notes![0]!.example).toContain('KNYC');
    expect(notes![0]!.example).toContain(problem);
  });

  it('are marked if the service does not name the run', async () => {
    // At 20:02Z, the latest run that started at least 3.5 hours earlier is the 12:00Z run.
    const run = async (lastRun: number | undefined) => {
      fake.lastRun = lastRun;
      const { modelRunAt, isRunUnknown } = (await readMain()).ensembles[0]!;
      return [modelRunAt.toISOString(), isRunUnknown];
    };
    expect(await run(undefined)).toEqual(['2026-07-04T12:00:00.000Z', true]);
    expect(await run(Date.parse('2026-07-05T12:00:00Z') / 1000)).toEqual(['2026-07-04T12:00:00.000Z', true]);
    expect(await run(Date.parse('2026-07-04T06:00:00Z') / 1000)).toEqual([
      '2026-07-04T06:00:00.000Z',
      undefined,
    ]);
  });

  it.each<[string, (locations: Record<string, unknown>[]) => unknown]>([
    ['fewer places', (places) => places.slice(1)],
    ['one object', (places) => places[0]],
    ['places in another order', (places) => places.toReversed()],
    [
      'degrees Celsius',
      (places) => places.map((place) => ({ ...place, hourly_units: { temperature_2m: '°C' } })),
    ],
    ['another time zone', (places) => places.map((place) => ({ ...place, utc_offset_seconds: -18_000 }))],
    [
      'a control run without members',
      (places) => places.map((place) => ({ ...place, hourly: { time: [1], temperature_2m: [60] } })),
    ],
    [
      'rows of different lengths',
      (places) =>
        places.map((place) => ({ ...place, hourly: { ...(place.hourly as object), time: [1, 2] } })),
    ],
    [
      'text for numbers',
      (places) =>
        places.map((place) => ({
          ...place,
          hourly: { ...(place.hourly as object), temperature_2m_member03: ['60'] },
        })),
    ],
    [
      'an impossible temperature',
      (places) =>
        places.map((place) => ({
          ...place,
          hourly: { ...(place.hourly as object), temperature_2m_member03: [9e9] },
        })),
    ],
    ['an error', () => ({ error: true, reason: 'the parameters have changed' })],
    ['nothing', () => null],
  ])('are rejected when the answer has %s', async (_what, spoil) => {
    fake.spoil = spoil;
    await expect(makeForecastSource().read(signal)).rejects.toBeInstanceOf(UnexpectedAnswerError);
  });

  it.each<[string, number, string, new (...args: never[]) => Error]>([
    ['a web page', 200, '<html>maintenance</html>', UnexpectedAnswerError],
    ['invalid JSON numbers', 200, '[{"latitude": NaN}]', UnexpectedAnswerError],
    ['a 400', 400, '{"error":true,"reason":"unknown model"}', UnexpectedAnswerError],
    ['too many requests', 429, '{"error":true}', WeatherUnavailableError],
    ['a 503', 503, 'no', WeatherUnavailableError],
  ])('are rejected for %s', async (_what, status, body, kind) => {
    fake.fault = (_req, res, path) => {
      if (path !== '/v1/ensemble') return false;
      res.writeHead(status).end(body);
      return true;
    };
    await expect(makeForecastSource().read(signal)).rejects.toBeInstanceOf(kind);
  });
});

describe('further models', () => {
  const ofModel = ({ ensembles }: { ensembles: readonly { model?: string | undefined }[] }, model: string) =>
    ensembles.filter((run) => run.model === model);

  beforeEach(() => {
    fake.lastRun = Date.parse('2026-07-04T18:00:00Z') / 1000;
  });

  it('arrive beside the first model, each with its own members and run time', async () => {
    fake.temperature = (_station, _member, _ms, model) =>
      ({ gfs025: 60, ecmwf_ifs025: 61, ncep_hrrr_conus: 62, ncep_nbm_conus: 63, icon_global: 64 })[model] ??
      null;
    fake.lastRun = Date.parse('2026-07-04T12:00:00Z') / 1000;
    const data = await makeForecastSource().read(signal);
    expect(data.notes).toEqual([]);
    for (const [model, temperatureF, members] of [
      ['ecmwf', 61, 51],
      ['hrrr', 62, 1],
      ['nbm', 63, 1],
      ['icon', 64, 1],
    ] as const) {
      const runs = ofModel(data, model);
      expect(runs).toHaveLength(24 * 2 * 3 + 4 * 48);
      expect(runs[0]).toMatchObject({
        membersF: Array.from({ length: members }, () => temperatureF),
        modelRunAt: new Date('2026-07-04T12:00:00Z'),
      });
      expect(runs[0]).not.toHaveProperty('curveF', expect.anything());
    }
  });

  it('keep the last run that the service named, and are left out if it has named none', async () => {
    const source = makeForecastSource();
    fake.lastRun = undefined;
    const { notes } = await source.read(signal);
    expect(notes!.map(({ name }) => name)).toEqual(['ecmwf', 'hrrr', 'nbm', 'icon']);
    for (const { kind, example } of notes!) {
      expect(kind).toBe('missing_model');
      expect(example).toContain('the time of its run is unknown');
    }
    fake.lastRun = Date.parse('2026-07-04T18:00:00Z') / 1000;
    now += 6 * 60 * MINUTE_MS;
    expect(ofModel(await source.read(signal), 'nbm')).not.toEqual([]);
    fake.lastRun = undefined;
    now += 4 * 60 * MINUTE_MS;
    expect(ofModel(await source.read(signal), 'nbm')[0]!).toMatchObject({
      modelRunAt: new Date('2026-07-04T18:00:00Z'),
    });
  });

  it.each<[string, string, (path: string) => [status: number, body: string] | undefined]>([
    ['one that fails', 'nbm', (path) => (path.includes('ncep_nbm') ? [503, 'down'] : undefined)],
    ['one that is busy', 'hrrr', (path) => (path.includes('ncep_hrrr') ? [429, 'limit'] : undefined)],
    ['one that no longer exists', 'ecmwf', (path) => (path.includes('ecmwf') ? [400, '{}'] : undefined)],
    [
      'one that does not answer with JSON',
      'ecmwf',
      (path) => (path.includes('ecmwf') ? [200, '<html>'] : undefined),
    ],
    [
      'one with an unexpected answer',
      'nbm',
      (path) => (path.includes('ncep_nbm') ? [200, '[{}]'] : undefined),
    ],
  ])('do not affect each other: %s is counted and left out', async (_what, name, answer) => {
    fake.fault = (req, res) => {
      const found = answer(decodeURIComponent(req.url!));
      if (found) res.writeHead(found[0]).end(found[1]);
      return found !== undefined;
    };
    const data = await makeForecastSource().read(signal);
    expect(data.notes).toMatchObject([{ kind: 'missing_model', name, count: 1 }]);
    expect(data.notes![0]!.example).not.toBe('');
    expect(ofModel(data, name)).toEqual([]);
    expect(new Set(data.ensembles.map(({ model }) => model)).size).toBe(4);
  });

  it('cannot replace the first model', async () => {
    fake.fault = (req, res) => req.url!.includes('models=gfs025') && (res.writeHead(503).end(), true);
    await expect(makeForecastSource().read(signal)).rejects.toBeInstanceOf(WeatherUnavailableError);
  });

  it('are left out once the newest run is over a day old, or the last answer nine hours old', async () => {
    const source = makeForecastSource();
    const names = async () => new Set((await source.read(signal)).ensembles.map(({ model }) => model));
    expect((await names()).has('hrrr')).toBe(true);
    fake.fault = (req, res) => req.url!.includes('hrrr') && (res.writeHead(503).end(), true);
    now += 8 * 60 * MINUTE_MS;
    expect((await names()).has('hrrr')).toBe(true);
    now += 61 * MINUTE_MS;
    expect([...(await names())]).toEqual([undefined, 'ecmwf', 'nbm', 'icon']);
    fake.fault = undefined;
    fake.lastRun = now / 1000 - 25 * 3600;
    now += 6 * 60 * MINUTE_MS;
    const { notes } = await source.read(signal);
    expect(notes!.map(({ name }) => name)).toEqual(['ecmwf', 'hrrr', 'nbm', 'icon']);
    expect(notes![0]!.example).toContain('its newest run is from');
  });

  it("are joined by the first model's run from half a day earlier", async () => {
    fake.fault = failFurther;
    const source = makeForecastSource();
    const runsOfMain = async () =>
      new Set((await readMain(source)).ensembles.map(({ modelRunAt }) => modelRunAt.toISOString()));
    for (const [run, known] of [
      ['2026-07-04T06:00:00', ['06']],
      ['2026-07-04T12:00:00', ['12']],
      ['2026-07-04T18:00:00', ['18', '06']],
      ['2026-07-05T00:00:00', ['00', '12']],
    ] as const) {
      fake.lastRun = Date.parse(`${run}Z`) / 1000;
      now = fake.lastRun * 1000 + 5 * 60 * MINUTE_MS;
      fake.today = new Date(now).toISOString().slice(0, 10);
      expect([...(await runsOfMain())].map((time) => time.slice(11, 13))).toEqual(known);
    }
    fake.today = '2026-07-04';
  });
});

describe('observations', () => {
  const extreme = async (wanted: string) => {
    const observer = createObserver(observations(), { clock, log });
    await observer.read(signal);
    const observed = observer.observed();
    return observed.find(
      ({ kind, stationId, date }) => kind === wanted && stationId === 'KNYC' && date === '2026-07-04',
    );
  };
  const observed = () => extreme('daily_maximum');
  const lowest = () => extreme('daily_minimum');

  it('include the highest temperature in tenths that the station reported within the day', async () => {
    fake.reports.set('KNYC', [
      metar('04T19:51', '29/15', 'T02890150', { valueC: 28.9 }),
      metar('04T18:51', '28/15', 'T02830150', { valueC: 28.3 }),
      // Reported at 04:51Z, before the day began.
      metar('04T04:51', '33/15', 'T03330150', { valueC: 33.3 }),
    ]);
    // 28.9 °C is 84.02 °F.
    expect(await observed()).toMatchObject({
      extremeF: expect.closeTo(84.02, 9) as number,
      observedAt: new Date('2026-07-04T19:51:00Z'),
      fetchedAt: new Date(now),
    });
    expect(fake.requests.find(({ path }) => path.startsWith('/stations/KNYC'))).toMatchObject({
      path: '/stations/KNYC/observations?start=2026-07-04T05:00:00.000Z&limit=500',
      agent: expect.stringContaining('gauge') as string,
    });
  });

  it('record each hour from the nearest report, and nothing between the hours', async () => {
    fake.reports.set('KNYC', [
      metar('04T17:51', '28/15', 'T02780150'),
      // A special report between the hours, and a report closer to 18:00Z than the first.
      metar('04T17:20', '30/15', 'T03000150'),
      metar('04T17:56', '28/15', 'T02830150'),
      metar('04T18:51', '29/15', 'T02890150'),
    ]);
    const { hoursF, extremeF } = (await observed())!;
    // 13:00 and 14:00 in New York's standard time are 18:00Z and 19:00Z.
    expect(hoursF).toHaveLength(24);
    expect(hoursF![13]).toBeCloseTo(28.3 * 1.8 + 32, 9);
    expect(hoursF![14]).toBeCloseTo(28.9 * 1.8 + 32, 9);
    expect(hoursF!.filter((temperatureF) => temperatureF !== null)).toHaveLength(2);
    expect(extremeF).toBeCloseTo(30 * 1.8 + 32, 9);
    expect((await lowest())!.hoursF).toEqual(hoursF);
  });

  it.each(['=', '$', ' $', ' $='])('accept reports that end in “%s”', async (end) => {
    fake.reports.set('KNYC', [metar('04T19:51', '29/15', `T02890150${end}`, { valueC: 28.9 })]);
    expect((await observed())!.extremeF).toBeCloseTo(84.02, 9);
  });

  it('include the maximum between two reports if its six hours lie within the day', async () => {
    fake.reports.set('KNYC', [metar('04T17:51', '27/15', 'T02720150 10283 20200', { valueC: 27.2 })]);
    expect((await observed())!.extremeF).toBeCloseTo(28.3 * 1.8 + 32, 9);
    // At other hours, the group 10283 is not a six-hour maximum. If the six hours began before the day, the peak may
    // also have occurred before the day.
    fake.reports.set('KNYC', [metar('04T18:51', '27/15', 'T02720150 10283', { valueC: 27.2 })]);
    expect((await observed())!.extremeF).toBeCloseTo(27.2 * 1.8 + 32, 9);
    now = Date.parse('2026-07-04T06:00:00Z');
    fake.reports.set('KNYC', [metar('04T05:51', '27/15', 'T02720150 10283', { valueC: 27.2 })]);
    expect((await observed())!.extremeF).toBeCloseTo(27.2 * 1.8 + 32, 9);
  });

  it.each<[string, Report]>([
    [
      'five-minute readings, which are rounded twice',
      { timestamp: '2026-07-04T19:55:00+00:00', rawMessage: null, valueC: 35 },
    ],
    [
      'whole degrees without remarks',
      {
        timestamp: '2026-07-04T19:55:00+00:00',
        rawMessage: 'KNYC 041955Z AUTO 10SM CLR 35/15 A3001',
        valueC: 35,
      },
    ],
    [
      'a reading that failed its check',
      metar('04T19:51', '35/15', 'T03500150', { valueC: 35, qualityControl: 'X' }),
    ],
    ['a remark that contradicts the decoded value', metar('04T19:51', '25/15', 'T03500150', { valueC: 25 })],
    [
      'a report from another station',
      {
        ...metar('04T19:51', '35/15', 'T03500150', { valueC: 35 }),
        rawMessage: 'KJFK 041951Z AUTO 35/15 A3001 RMK AO2 T03500150',
      },
    ],
    ['a report from the future', metar('04T20:51', '35/15', 'T03500150', { valueC: 35 })],
    ['an impossible temperature', metar('04T19:51', '99/15', 'T09990150')],
    [
      'a wind that looks like a maximum',
      metar('04T17:51', '26/15', 'PK WND 10350/1715 20100/1720 T02610150', { valueC: 26.1 }),
    ],
  ])('ignore %s', async (_what, report) => {
    const trusted = metar('04T16:51', '26/15', 'T02610150', { valueC: 26.1 });
    fake.reports.set('KNYC', [report, trusted]);
    expect((await observed())!.extremeF).toBeCloseTo(26.1 * 1.8 + 32, 9);
    expect((await lowest())!.extremeF).toBeCloseTo(26.1 * 1.8 + 32, 9);
  });

  it('include the lowest temperature in the same way', async () => {
    fake.reports.set('KNYC', [
      metar('04T10:51', '18/15', 'T01830150', { valueC: 18.3 }),
      metar('04T09:51', '19/15', 'T01940150', { valueC: 19.4 }),
      metar('04T04:51', '11/10', 'T01110100', { valueC: 11.1 }),
    ]);
    expect((await lowest())!).toMatchObject({
      kind: 'daily_minimum',
      extremeF: expect.closeTo(18.3 * 1.8 + 32, 9) as number,
      observedAt: new Date('2026-07-04T10:51:00Z'),
    });
    // The six hours before 12Z lie within the day; five of the six before 06Z belong to the previous day.
    fake.reports.set('KNYC', [metar('04T11:51', '20/15', 'T02000150 10256 20172', { valueC: 20 })]);
    expect((await lowest())!.extremeF).toBeCloseTo(17.2 * 1.8 + 32, 9);
    fake.reports.set('KNYC', [metar('04T05:51', '20/15', 'T02000150 10256 20172', { valueC: 20 })]);
    expect((await lowest())!.extremeF).toBeCloseTo(20 * 1.8 + 32, 9);
    fake.reports.set('KNYC', [metar('04T11:51', 'M02/M10', 'T10221100 10011 21044', { valueC: -2.2 })]);
    expect((await lowest())!.extremeF).toBeCloseTo(32 - 4.4 * 1.8, 9);
  });

  it('take both extremes of the day from the report at its end, and from no other', async () => {
    now = Date.parse('2026-07-05T05:30:00Z');
    const atEnd = metar('05T04:51', '22/15', 'T02220150 402940167', { valueC: 22.2 });
    fake.reports.set('KNYC', [atEnd]);
    expect((await observed())!.extremeF).toBeCloseTo(29.4 * 1.8 + 32, 9);
    expect((await lowest())!.extremeF).toBeCloseTo(16.7 * 1.8 + 32, 9);
    fake.reports.set('KNYC', [metar('05T03:51', '22/15', 'T02220150 402940167', { valueC: 22.2 })]);
    expect((await observed())!.extremeF).toBeCloseTo(22.2 * 1.8 + 32, 9);
    expect((await lowest())!.extremeF).toBeCloseTo(22.2 * 1.8 + 32, 9);
  });

  /** Hours from 06:51Z to 17:51Z at 10 °C; the given reports replace those of the same time. */
  const coldDay = (...over: Report[]): Report[] => [
    ...over,
    ...Array.from({ length: 12 }, (_, i) => `04T${String(i + 6).padStart(2, '0')}:51`)
      .filter((time) => !over.some(({ timestamp }) => timestamp.includes(time)))
      .map((time) => metar(time, '10/05', 'T01000050')),
  ];
  const hoursC = async () =>
    (await observed())!.hoursF!.flatMap((f) => (f === null ? [] : [Math.round((f - 32) / 0.18) / 10]));

  it.each<[string, Report[]]>([
    ['a remark that contradicts the body', [metar('04T17:51', '10/05', 'T03440150', { valueC: 34.4 })]],
    ['one spike', [metar('04T14:51', '34/05', 'T03440050')]],
    ['a jump in the latest report', [metar('04T17:51', '34/05', 'T03440050')]],
    ['a six-hour maximum far above its hours', [metar('04T17:51', '10/05', 'T01000050 10344 20100')]],
    ['a six-hour minimum far below its hours', [metar('04T17:51', '10/05', 'T01000050 10100 21144')]],
    ['a six-hour maximum below its hours', [metar('04T17:51', '10/05', 'T01000050 10020 20011')]],
    [
      'a six-hour maximum of the report with the spike',
      [metar('04T17:51', '34/05', 'T03440050 10344 20100')],
    ],
    ['a six-hour maximum of a lone report', [metar('04T17:51', '10/05', 'T01000050 10344 20100')]],
    [
      'a report that a correction replaces',
      [metar('04T17:51', '15/05', 'T01500050'), metar('04T17:51', 'COR 10/05', 'T01000050')],
    ],
    [
      'a correction that a later one replaces',
      [
        metar('04T17:51', 'CCB 10/05', 'T01000050'),
        metar('04T17:51', 'CCA 15/05', 'T01500050'),
        metar('04T17:51', '16/05', 'T01600050'),
      ],
    ],
  ])('do not believe %s', async (what, reports) => {
    fake.reports.set('KNYC', what.includes('lone') ? reports : coldDay(...reports));
    expect((await observed())!.extremeF).toBeCloseTo(50, 9);
    expect((await lowest())!.extremeF).toBeCloseTo(50, 9);
    expect(new Set(await hoursC())).toEqual(new Set([10]));
  });

  it("do not believe a day's extremes that its hours exclude", async () => {
    now = Date.parse('2026-07-05T05:30:00Z');
    const atEnd = (group: string) => metar('05T04:51', '10/05', `T01000050 ${group}`);
    const hours = Array.from({ length: 20 }, (_, i) => String(i + 5).padStart(2, '0')).flatMap((hour) =>
      Number(hour) < 24 ? [metar(`04T${hour}:51`, '10/05', 'T01000050')] : [],
    );
    fake.reports.set('KNYC', [atEnd('403440100'), ...hours]);
    expect((await observed())!.extremeF).toBeCloseTo(50, 9);
    fake.reports.set('KNYC', [atEnd('401280094'), ...hours]);
    expect((await observed())!.extremeF).toBeCloseTo(12.8 * 1.8 + 32, 9);
  });

  it('believe a spike that a second report or a later six-hour maximum confirms, and a front', async () => {
    const spike = metar('04T14:51', '34/05', 'T03440050');
    const high = 34.4 * 1.8 + 32;
    fake.reports.set('KNYC', coldDay(spike, metar('04T15:10', '34/05', 'T03390050')));
    expect((await observed())!.extremeF).toBeCloseTo(high, 9);
    fake.reports.set('KNYC', coldDay(spike, metar('04T17:51', '10/05', 'T01000050 10344 20100')));
    expect((await observed())!.extremeF).toBeCloseTo(high, 9);
    expect(await hoursC()).toContain(34.4);
    fake.reports.set(
      'KNYC',
      coldDay(metar('04T16:51', '20/05', 'T02000050'), metar('04T17:51', '20/05', 'T02000050')),
    );
    expect((await observed())!.extremeF).toBeCloseTo(68, 9);
  });

  /** The reports of another station, at the same temperature all day. */
  const steady = (id: string, body: string, remarks: string): Report[] =>
    coldDay().map((report) => ({
      ...report,
      rawMessage: metar(report.timestamp.slice(8, 16), body, remarks).rawMessage!.replace('KNYC', id),
    }));

  it('believe a jump that a neighbouring station shows too', async () => {
    fake.reports.set('KNYC', coldDay(metar('04T17:51', '34/05', 'T03440050')));
    fake.reports.set('KPHL', steady('KPHL', '32/05', 'T03220050'));
    expect((await observed())!.extremeF).toBeCloseTo(34.4 * 1.8 + 32, 9);
  });

  it('do not believe a lone report that the neighbouring stations exclude', async () => {
    fake.reports.set('KNYC', [metar('04T17:51', '34/05', 'T03440050')]);
    fake.reports.set('KPHL', steady('KPHL', '10/05', 'T01000050'));
    expect(await observed()).toBeUndefined();
    fake.reports.set('KNYC', [metar('04T17:51', '20/05', 'T02000050')]);
    expect((await observed())!.extremeF).toBeCloseTo(68, 9);
  });

  it('name the doubtful reports for as long as they are left out', async () => {
    const source = makeSource();
    const notes = async () =>
      (await source.read(signal)).notes!.filter(({ kind }) => kind === 'doubtful_report');
    fake.reports.set(
      'KNYC',
      coldDay(metar('04T14:51', '34/05', 'T03440050'), metar('04T17:51', '10/05', 'T01000050 10344 20100')),
    );
    expect(await notes()).toEqual([]);
    now += 5 * MINUTE_MS;
    fake.reports.set('KNYC', coldDay(metar('04T17:51', '10/05', 'T01000050 10500 20100')));
    expect(await notes()).toEqual([
      {
        kind: 'doubtful_report',
        name: 'KNYC',
        count: 1,
        example: '2026-07-04T17:51Z: extremes of 6 hours, 122.0 and 50.0 °F',
      },
    ]);
  });

  it('leave out one unreadable report, and use the others', async () => {
    fake.fault = (_req, res, path) => {
      if (!path.startsWith('/stations/KNYC')) return false;
      const good = metar('04T17:51', '10/05', 'T01000050');
      const features = [
        { properties: { timestamp: 'noon' } },
        { properties: { timestamp: good.timestamp, temperature: { unitCode: 'wmoUnit:K', value: 283 } } },
        { properties: { ...good, station: `${fake.url}/stations/KNYC` } },
      ];
      res.end(JSON.stringify({ features }));
      return true;
    };
    expect((await observed())!.extremeF).toBeCloseTo(50, 9);
  });

  it('can be below freezing', async () => {
    fake.reports.set('KNYC', [metar('04T19:51', 'M02/M10', 'T10171100', { valueC: -1.7 })]);
    expect((await observed())!.extremeF).toBeCloseTo(32 - 1.7 * 1.8, 9);
  });

  it("keep a station's reports, and leave forecasts unaffected, when they fail", async () => {
    const source = makeSource();
    fake.reports.set('KNYC', [metar('04T19:51', '29/15', 'T02890150', { valueC: 28.9 })]);
    await source.read(signal);
    fake.fault = (_req, res, path) => {
      if (!path.startsWith('/stations')) return false;
      if (path.includes('KAUS')) res.writeHead(200).end('<html>');
      else if (path.includes('KDEN'))
        res.writeHead(200).end('{"features":[{"properties":{"timestamp":"noon"}}]}');
      else res.writeHead(500).end();
      return true;
    };
    now += 6 * MINUTE_MS;
    const { ensembles, observed } = await source.read(signal);
    expect(ensembles.length).toBeGreaterThan(0);
    const kept = { stationId: 'KNYC', fetchedAt: new Date(now - 6 * MINUTE_MS) };
    expect(observed).toMatchObject([kept, kept]);
    expect((await makeSource().read(signal)).observed).toEqual([]);
  });
});

describe('a subscription key', () => {
  const apiKey = 'abcDEF-123456';
  const makeSubscribed = (to = log) =>
    createOpenMeteoSource({
      baseUrl: fake.url,
      historyBaseUrl: fake.url,
      apiKey,
      observations: observations(),
      clock,
      log: to,
    });
  const keyIn = (path: string) => new URL(path, 'http://x').searchParams.get('apikey');

  it('goes with each request to Open-Meteo, and with no other request', async () => {
    const source = makeSubscribed();
    await source.read(signal);
    await source.history!.readRuns({ from: '2026-07-01', to: '2026-07-02' }, signal);
    const paths = fake.requests.map(({ path }) => path);
    const ofWeatherService = paths.filter((path) => path.startsWith('/stations/'));
    const others = paths.filter((path) => !path.startsWith('/stations/'));
    // Five current models, each with a request for its run time, plus past runs of five models.
    expect(others).toHaveLength(15);
    expect(others.map(keyIn)).toEqual(others.map(() => apiKey));
    expect(ofWeatherService).toHaveLength(24);
    expect(ofWeatherService.map(keyIn)).toEqual(ofWeatherService.map(() => null));
    fake.requests = [];
    await makeSource().read(signal);
    expect(fake.requests.map(({ path }) => keyIn(path)).filter((key) => key !== null)).toEqual([]);
  });

  it.each<[string, NonNullable<FakeWeather['fault']>]>([
    [
      'echoes the request',
      (req, res) => (
        res.writeHead(400).end(`{"reason":"Unknown key ${keyIn(req.url!)}","error":true}`),
        true
      ),
    ],
    ['is a 429', (req, res) => (res.writeHead(429).end(`too many questions of ${keyIn(req.url!)}`), true)],
    ['is not JSON', (req, res) => (res.writeHead(200).end(`<b>${keyIn(req.url!)}</b>`), true)],
    ['redirects', (req, res) => (res.writeHead(302, { location: req.url! }).end(), true)],
    ['is cut off', (req) => Boolean(req.socket.destroy())],
  ])('appears in no message, log line or note when an answer %s', async (_what, fault) => {
    const lines: string[] = [];
    // A logger that does not mask anything.
    const source = makeSubscribed(pino({ level: 'trace' }, { write: (line) => lines.push(line) }));
    fake.fault = (req, res, path) => !path.startsWith('/stations/') && fault(req, res, path);
    const failure = await source.read(signal).catch((error: unknown) => error);
    const pastFailure = await source
      .history!.readRuns({ from: '2026-07-01', to: '2026-07-02' }, signal)
      .catch((error: unknown) => error);
    for (const error of [failure, pastFailure]) expect(error).toBeInstanceOf(Error);
    // The first model answers again; the notes about the others remain.
    fake.fault = failFurther;
    now += 2 * MINUTE_MS;
    const { notes } = await source.read(signal);
    expect(notes).toHaveLength(4);
    expect(lines.length).toBeGreaterThan(2);
    const text = inspect([failure, pastFailure, notes], { depth: 10 }) + lines.join('');
    expect(text).toContain('/v1/');
    expect(text).not.toContain(apiKey);
  });
});

describe('polling', () => {
  it('spares the weather service: four requests at a time, only for new reports', async () => {
    let [running, most] = [0, 0];
    fake.fault = (_req, res, path) => {
      if (!path.startsWith('/stations')) return false;
      most = Math.max(most, ++running);
      setTimeout(() => {
        running--;
        res.writeHead(200).end('{"features":[]}');
      }, 5);
      return true;
    };
    const source = makeSource();
    await source.read(signal);
    expect(asked('/stations')).toBe(24);
    expect(most).toBe(4);
    fake.fault = undefined;
    fake.reports.set('KNYC', [metar('04T19:51', '29/15', 'T02890150', { valueC: 28.9 })]);
    const startOf = () =>
      new URL(
        fake.requests.findLast(({ path }) => path.startsWith('/stations/KNYC'))!.path,
        'http://x',
      ).searchParams.get('start');
    now += 5 * MINUTE_MS;
    await source.read(signal);
    expect(startOf()).toBe('2026-07-04T05:00:00.000Z');
    now += 5 * MINUTE_MS;
    await source.read(signal);
    // Reads start three hours before the latest report, to catch late reports and corrections.
    expect(startOf()).toBe('2026-07-04T16:51:00.000Z');
    fake.reports.set('KNYC', [metar('04T17:30', '31/15', 'T03110150', { valueC: 31.1 })]);
    now += 5 * MINUTE_MS;
    const { observed } = await source.read(signal);
    expect(observed.find(ofMaximum)!.extremeF).toBeCloseTo(31.1 * 1.8 + 32, 9);
  });

  it("stays far below Open-Meteo's free limits, even while it fails", async () => {
    // Open-Meteo counts a tenth of a call per place and series; the series here are the members.
    const calls = () =>
      fake.requests.reduce((sum, { path }) => {
        const query = new URL(path, 'http://x').searchParams;
        const members = { gfs025: 31, ecmwf_ifs025: 51 }[query.get('models') ?? ''] ?? 1;
        const places = query.get('latitude')?.split(',').length ?? 0;
        return sum + (path.startsWith('/data/') ? 1 : places * Math.max(1, members / 10));
      }, 0);
    const callsOfADay = async () => {
      fake.requests = [];
      const source = makeForecastSource();
      for (let minute = 0; minute < 24 * 60; minute += 5) {
        await source.read(signal).catch(() => undefined);
        now += 5 * MINUTE_MS;
      }
      return calls();
    };
    now = Date.parse('2026-07-04T12:00:00Z');
    fake.lastRun = now / 1000;
    // Returns only the first hour, because the later hours do not affect the requests.
    fake.spoil = (places) => places.map((place) => ({ ...place, hourly: firstOf(place.hourly as object) }));
    const firstOf = (hourly: object) =>
      Object.fromEntries(Object.entries(hourly).map(([name, values]) => [name, values.slice(0, 1)]));
    const further = 6 * (28 * 5.1 + 1) + (2 * 8 + 6) * (28 + 1);
    expect(await callsOfADay()).toBeCloseTo(24 * (28 * 3.1 + 1) + further, 6);
    now = Date.parse('2026-07-04T12:00:00Z');
    fake.fault = (_req, res) => (res.writeHead(503).end(), true);
    const whileItFails = await callsOfADay();
    expect(whileItFails).toBeLessThan(9_600);
  });

  it('happens every hour for ensembles and every five minutes for observations, however often the source is read', async () => {
    const source = makeSource();
    for (let minute = 0; minute < 120; minute++) {
      await source.read(signal);
      now += MINUTE_MS;
    }
    expect(askedOfMain()).toBe(2);
    expect(asked('/data/ncep_gefs025')).toBe(2);
    expect(asked('/v1/')).toBe(6);
    expect(asked('/stations/KNYC')).toBe(24);
  });

  it('slows down while a service fails, and the last ensembles stay for three hours', async () => {
    const source = makeForecastSource();
    const first = await readMain(source);
    fake.fault = (req, res) => req.url!.includes('models=gfs025') && (res.writeHead(503).end(), true);
    const fates: boolean[] = [];
    for (let minute = 0; minute < 240; minute += 5) {
      now += 5 * MINUTE_MS;
      const read = await readMain(source).catch(() => undefined);
      fates.push(read !== undefined);
      if (read) expect(read.ensembles).toEqual(first.ensembles);
    }
    // The last successful response is used for three hours.
    expect(fates.indexOf(false)).toBe(35);
    // The first retry is due after an hour; the pauses then grow to 1, 2, 4, 8 and 15 minutes. Reads do not add
    // requests.
    expect(askedOfMain()).toBeLessThan(22);
    fake.fault = undefined;
    now += 15 * MINUTE_MS;
    expect((await source.read(signal)).ensembles[0]!.fetchedAt).toEqual(new Date(now));
  });

  it('continues with forecasts if the weather service fails, and with the stations that answered', async () => {
    fake.reports.set('KMIA', [
      { timestamp: '2026-07-04T19:53:00Z', rawMessage: 'KMIA 041953Z 31/25 RMK AO2 T03110250', valueC: 31.1 },
    ]);
    fake.fault = (_req, _res, path) => path.startsWith('/stations/KNYC');
    const { ensembles, observed } = await makeSource(observations(3000)).read(signal);
    expect(ensembles.length).toBeGreaterThan(0);
    expect(observed.map(({ stationId }) => stationId)).toEqual(['KMIA', 'KMIA']);
  });

  it('waits no longer than the timeout for a service that does not answer', async () => {
    fake.fault = (_req, _res, path) => path === '/v1/ensemble';
    await expect(makeSource().read(AbortSignal.timeout(100))).rejects.toBeInstanceOf(WeatherUnavailableError);
  });
});
