import { spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { NoHistoryError } from '../../../src/markets/weather/weather.js';
import { createHttpModelSource } from '../../../src/markets/weather/http-model.js';
import { WeatherUnavailableError } from '../../../src/markets/weather/read-json.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { indexAreas, stations } from '../../../src/markets/market/stations.js';

type Json = Record<string, unknown>;

const MINUTE_MS = 60_000;
const signal = new AbortController().signal;
let server: Server;
let url: string;
let now = 0;
let answer: (req: IncomingMessage, res: ServerResponse) => void;
let requests: IncomingMessage[];
let log: string[];

const say = (body: unknown, status = 200) => {
  answer = (_req, res) => {
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
};
const members = [84.1, 85.3, 83.8, 86, 84.9, 85.5, 84.4, 85.1, 83.2, 86.7];
const forecast = (over: Json = {}): Json => ({
  station: 'KNYC',
  date: '2026-07-04',
  modelRunAt: '2026-07-03T18:00:00Z',
  membersF: members,
  ...over,
});
const inNumbers = (over: Json = {}): Json =>
  forecast({ membersF: undefined, meanF: 70.3, standardDeviationF: 2.4, ...over });

beforeAll(async () => {
  server = createServer((req, res) => {
    requests.push(req);
    answer(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}/highs`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  now = Date.parse('2026-07-04T15:00:00Z');
  requests = [];
  log = [];
  say({ forecasts: [forecast()] });
});

const observed = {
  kind: 'daily_maximum' as const,
  stationId: 'KNYC',
  date: '2026-07-04',
  extremeF: 71,
  observedAt: new Date('2026-07-04T14:51:00Z'),
  fetchedAt: new Date('2026-07-04T14:55:00Z'),
};
const makeSource = (address = url, observe = () => Promise.resolve([observed])) =>
  createHttpModelSource({
    url: address,
    observations: [{ name: 'observations', everyMs: 5 * MINUTE_MS, read: observe }],
    clock: { now: () => now },
    log: pino({ level: 'info' }, { write: (line: string) => void log.push(line) }),
  });
const read = (address?: string) => makeSource(address).read(signal);
const errorOf = async (work: Promise<unknown>) => work.then(() => undefined, String);

describe("the operator's own model", () => {
  it('gets requests for yesterday to tomorrow at all stations and supplies its own run time', async () => {
    const data = await read();
    expect(data.ensembles).toEqual([
      {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        date: '2026-07-04',
        modelRunAt: new Date('2026-07-03T18:00:00Z'),
        fetchedAt: new Date(now),
        membersF: members,
      },
    ]);
    expect(data.observed).toEqual([observed]);
    const query = new URL(requests[0]!.url!, url).searchParams;
    expect(Object.fromEntries(query)).toEqual({
      stations: stations.map(({ id }) => id).join(','),
      areas: 'INDEX-MIAMI,INDEX-NYC,INDEX-CHICAGO,INDEX-LA-COASTAL',
      from: '2026-07-03',
      to: '2026-07-05',
    });
    // After midnight in New York, it is still the previous day in Los Angeles. Both cities need a forecast for their
    // next day.
    now = Date.parse('2026-07-05T06:00:00Z');
    await read();
    expect(requests[1]!.url).toContain('from=2026-07-03&to=2026-07-06');
  });

  it('may forecast minima and hours of an area; a forecast without a kind is a maximum', async () => {
    const hour = { station: 'INDEX-MIAMI', kind: 'hourly', hour: 12 };
    say({
      forecasts: [
        forecast(),
        forecast({ kind: 'daily_minimum' }),
        forecast(hour),
        forecast({ ...hour, hour: 13 }),
        // This run was made after 16:00Z, the hour that it covers, so it is not a forecast.
        forecast({ ...hour, date: '2026-07-03', modelRunAt: '2026-07-03T16:30:00Z' }),
      ],
    });
    expect((await read()).ensembles.map(({ kind, stationId, hour: of }) => [kind, stationId, of])).toEqual([
      ['daily_maximum', 'KNYC', undefined],
      ['daily_minimum', 'KNYC', undefined],
      ['hourly', 'INDEX-MIAMI', 12],
      ['hourly', 'INDEX-MIAMI', 13],
    ]);
  });

  it('may answer with a mean and a deviation, which 31 members reproduce exactly', async () => {
    say({ forecasts: [inNumbers()] });
    const { membersF } = (await read()).ensembles[0]!;
    const mean = membersF.reduce((sum, x) => sum + x, 0) / 31;
    const squares = membersF.reduce((sum, x) => sum + (x - mean) ** 2, 0);
    expect(membersF).toHaveLength(31);
    expect(mean).toBeCloseTo(70.3, 12);
    expect(Math.sqrt(squares / 30)).toBeCloseTo(2.4, 12);
    // Ascending quantiles with the mean in the middle, the same on every read.
    expect(membersF.toSorted((a, b) => a - b)).toEqual(membersF);
    expect(membersF[15]).toBe(70.3);
    expect((await read()).ensembles[0]!.membersF).toEqual(membersF);
  });

  it('gets a request every five minutes however often it is read, and fewer after failures', async () => {
    const source = makeSource();
    for (let minute = 0; minute < 10; minute++) {
      await source.read(signal);
      now += MINUTE_MS;
    }
    expect(requests).toHaveLength(2);
    say({ error: 'out of order' }, 503);
    for (let minute = 0; minute < 16; minute++) {
      // The last successful response stays in use until it is three hours old.
      expect((await source.read(signal)).ensembles).toHaveLength(1);
      now += MINUTE_MS;
    }
    expect(requests).toHaveLength(7);
    now += 3 * 60 * MINUTE_MS;
    await expect(source.read(signal)).rejects.toBeInstanceOf(WeatherUnavailableError);
    expect(log.join()).toContain('no new forecasts; the last ones are kept');
  });

  it.each<[string, unknown, string]>([
    ['a list as the body', [forecast()], 'the body: '],
    ['an object instead of a list', { forecasts: {} }, 'forecasts: '],
    [
      'text for a member',
      { forecasts: [forecast(), forecast({ membersF: [...members, '85'] })] },
      'forecasts[1].membersF[10]: ',
    ],
    [
      'an impossible temperature',
      { forecasts: [forecast({ membersF: [...members, 451] })] },
      'forecasts[0].membersF[10]: ',
    ],
    ['too few members', { forecasts: [forecast({ membersF: members.slice(1) })] }, 'forecasts[0].membersF: '],
    [
      'both members and numbers',
      { forecasts: [inNumbers({ membersF: members })] },
      'forecasts[0]: must have either',
    ],
    [
      'a mean alone',
      { forecasts: [inNumbers({ standardDeviationF: undefined })] },
      'forecasts[0]: must have either',
    ],
    [
      'neither members nor numbers',
      { forecasts: [forecast({ membersF: undefined })] },
      'forecasts[0]: must have either',
    ],
    [
      'a deviation of zero',
      { forecasts: [inNumbers({ standardDeviationF: 0 })] },
      'forecasts[0].standardDeviationF: ',
    ],
    [
      'a station without markets',
      { forecasts: [forecast({ station: 'KJFK' })] },
      'forecasts[0].station: is not a station',
    ],
    [
      'a hostile station',
      { forecasts: [forecast({ station: '__proto__' })] },
      'forecasts[0].station: is not a station',
    ],
    ['a day that does not exist', { forecasts: [forecast({ date: '2026-06-31' })] }, 'forecasts[0].date: '],
    [
      'a time without an offset',
      { forecasts: [forecast({ modelRunAt: '2026-07-03T18:00:00' })] },
      'forecasts[0].modelRunAt: ',
    ],
    [
      'a run in the future',
      { forecasts: [forecast(), forecast({ modelRunAt: '2026-07-04T15:02:00Z' })] },
      'forecasts[1].modelRunAt: is in the future',
    ],
    [
      'a run from another era',
      { forecasts: [forecast({ modelRunAt: '0000-01-01T00:00:00+23:59' })] },
      'forecasts[0].modelRunAt: is more than 400 days before 2026-07-04',
    ],
    [
      'a duplicate run',
      { forecasts: [forecast(), forecast({ modelRunAt: '2026-07-03T14:00:00-04:00' })] },
      'forecasts[1]: appears twice',
    ],
    ['an unknown kind', { forecasts: [forecast({ kind: 'rain' })] }, 'forecasts[0].kind: '],
    [
      'an hourly forecast without an hour',
      { forecasts: [forecast({ station: 'INDEX-NYC', kind: 'hourly' })] },
      'forecasts[0].hour: is missing',
    ],
    [
      'an impossible hour',
      { forecasts: [forecast({ station: 'INDEX-NYC', kind: 'hourly', hour: 24 })] },
      'forecasts[0].hour: ',
    ],
    [
      'a daily forecast with an hour',
      { forecasts: [forecast({ hour: 3 })] },
      'forecasts[0].hour: is only for hourly',
    ],
    [
      'an hourly forecast for a station',
      { forecasts: [forecast({ kind: 'hourly', hour: 3 })] },
      'forecasts[0].kind: is only for areas',
    ],
    [
      'a daily forecast for an area',
      { forecasts: [forecast({ station: 'INDEX-NYC' })] },
      'forecasts[0].kind: must be hourly',
    ],
    [
      'a duplicate minimum',
      { forecasts: [forecast(), forecast({ kind: 'daily_minimum' }), forecast({ kind: 'daily_minimum' })] },
      'forecasts[2]: appears twice',
    ],
    ['an empty name', { model: '', forecasts: [] }, 'model: '],
  ])('is rejected for %s, with its place in the answer', async (_what, body, place) => {
    say(body);
    const error = await makeSource()
      .read(signal)
      .catch((problem: unknown) => problem);
    expect(error).toBeInstanceOf(UnexpectedAnswerError);
    expect((error as Error).message).toContain(`${url}: ${place}`);
  });

  it('may answer for more days than requested, and anything that is not a forecast is dropped', async () => {
    const [over, tomorrow, later] = [
      // Made after New York's 3 July ended at 05:00Z.
      forecast({ date: '2026-07-03', modelRunAt: '2026-07-04T06:00:00Z' }),
      inNumbers({ date: '2026-07-05' }),
      inNumbers({ date: '2026-07-06' }),
    ];
    say({ forecasts: [over, tomorrow, later] });
    expect((await read()).ensembles.map(({ date }) => date)).toEqual(['2026-07-05']);
  });

  it('with a clock slightly ahead counts its run as made now', async () => {
    say({ forecasts: [forecast({ modelRunAt: '2026-07-04T15:00:30Z' })] });
    expect((await read()).ensembles[0]!.modelRunAt).toEqual(new Date(now));
  });

  it.each<[string, (res: ServerResponse) => void, new (...args: never[]) => Error]>([
    ['redirects', (res) => res.writeHead(302, { location: '/other' }).end(), WeatherUnavailableError],
    ['is an HTML page', (res) => res.end('<html>'), UnexpectedAnswerError],
    ['is a 403', (res) => res.writeHead(403).end('no'), UnexpectedAnswerError],
    [
      'breaks off',
      (res) => res.writeHead(200, { 'content-length': '100' }).write('{"forecasts":[', () => res.destroy()),
      WeatherUnavailableError,
    ],
    [
      'never ends',
      (res) => {
        const more = () => {
          while (!res.destroyed && res.write('9'.repeat(1 << 20)));
        };
        res.on('drain', more);
        more();
      },
      UnexpectedAnswerError,
    ],
  ])('is rejected when its answer %s', async (_what, respond, kind) => {
    answer = (_req, res) => respond(res);
    await expect(read()).rejects.toBeInstanceOf(kind);
    expect(requests).toHaveLength(1);
  });

  it('is abandoned with the signal if it does not answer', async () => {
    const abandoned = new AbortController();
    answer = () => abandoned.abort();
    const work = makeSource().read(abandoned.signal);
    await expect(work).rejects.toBeInstanceOf(WeatherUnavailableError);
  });

  it('receives its name, password and query, and no log or error shows them', async () => {
    const address = url.replace('//', '//me:p%40ss@') + '?token=secret';
    await read(address);
    const { headers, url: path } = requests[0]!;
    expect(headers.authorization).toBe(`Basic ${Buffer.from('me:p@ss').toString('base64')}`);
    expect(path).toContain('/highs?token=secret&stations=');
    const problems: unknown[] = [];
    for (const respond of [() => say({}, 500), () => say({}, 400), () => say({ forecasts: 1 })]) {
      respond();
      problems.push(await errorOf(read(address)));
    }
    const source = makeSource(address);
    say({ model: 'mine', forecasts: [forecast()] });
    await source.read(signal);
    now += 6 * MINUTE_MS;
    say({}, 500);
    await source.read(signal);
    expect(log.join()).toContain('mine');
    expect(problems.filter(Boolean)).toHaveLength(3);
    expect(`${problems.join()} ${log.join()}`).not.toMatch(/secret|p%40ss|p@ss|me:/);
  });

  it.each([401, 404, 500, 200])(
    'may echo its request with status %s, and the secrets are never shown',
    async (status) => {
      const address = url.replace('//', '//me:p%40ss@') + '?token=se%20cret';
      answer = (req, res) => {
        const text = `not for ${req.url} ${decodeURI(req.url!)} with ${req.headers.authorization}`;
        res.writeHead(status).end(text);
      };
      const error = await errorOf(read(address));
      expect(error).toContain('not for /highs');
      const pair = Buffer.from('me:p@ss').toString('base64');
      for (const secret of ['se cret', 'se%20cret', 'se+cret', pair]) expect(error).not.toContain(secret);
    },
  );

  it('works just as well without observations', async () => {
    const source = makeSource(url, () => Promise.reject(new Error('NWS is down')));
    expect(await source.read(signal)).toMatchObject({ ensembles: [{ stationId: 'KNYC' }], observed: [] });
    expect(log.join()).toContain('no new observations');
  });
});

describe("the history of the operator's own model", () => {
  const range = { from: '2026-06-01', to: '2026-06-30' };
  const past = () => makeSource().history!.readRuns(range, signal);

  it('contains every run that was made in time', async () => {
    const early = forecast({ date: '2026-06-03', modelRunAt: '2026-06-02T18:00:00Z' });
    const late = inNumbers({ date: '2026-06-03', modelRunAt: '2026-06-03T12:00:00Z' });
    say({ forecasts: [early, late] });
    const runs = await past();
    expect(runs.map(({ modelRunAt }) => modelRunAt.toISOString())).toEqual([
      '2026-06-02T18:00:00.000Z',
      '2026-06-03T12:00:00.000Z',
    ]);
    expect(runs.every(({ fetchedAt }) => fetchedAt.getTime() === now)).toBe(true);
    expect(requests[0]!.url).toContain('from=2026-06-01&to=2026-06-30&history=true');
  });

  it('is rejected as a whole if a run was made after its day ended', async () => {
    say({ forecasts: [inNumbers({ date: '2026-06-03', modelRunAt: '2026-06-04T05:00:00Z' })] });
    await expect(past()).rejects.toThrow('forecasts[0].modelRunAt: is after the end of 2026-06-03');
  });

  it.each([404, 410, 501])('is unavailable if the model answers %i', async (status) => {
    say({}, status);
    await expect(past()).rejects.toBeInstanceOf(NoHistoryError);
  });
});

it('is available from the example model', async () => {
  const file = fileURLToPath(new URL('../../../docs/examples/model-server.mjs', import.meta.url));
  const child = spawn(process.execPath, [file], { env: { PATH: process.env.PATH, PORT: '0' } });
  try {
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString()));
      child.stderr.once('data', (chunk: Buffer) => reject(new Error(chunk.toString())));
    });
    const address = /http:\S+/.exec(line)![0];
    // The example server uses the real date.
    now = Date.now();
    const source = makeSource(address);
    const { ensembles } = await source.read(signal);
    const { from, to } = { from: '2026-01-01', to: '2026-01-31' };
    const runs = await source.history!.readRuns({ from, to }, signal);
    const countOf = (found: readonly (typeof runs)[number][], kind: string, id: string) =>
      found.filter((run) => run.kind === kind && run.stationId === id).length;
    for (const { id } of stations) {
      expect(countOf(ensembles, 'daily_maximum', id)).toBeGreaterThanOrEqual(3);
      expect(countOf(ensembles, 'daily_minimum', id)).toBeGreaterThanOrEqual(3);
      expect(countOf(runs, 'daily_maximum', id)).toBe(31);
      expect(countOf(runs, 'daily_minimum', id)).toBe(31);
    }
    for (const { id } of indexAreas) {
      expect(countOf(ensembles, 'hourly', id)).toBeGreaterThanOrEqual(24);
      expect(countOf(runs, 'hourly', id)).toBe(31 * 24);
    }
    const mean = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;
    const january = (kind: string, id: string) =>
      mean(
        runs.filter((run) => run.kind === kind && run.stationId === id).map(({ membersF }) => mean(membersF)),
      );
    // Thirty-year normals for January: 39.5 and 27.9 °F in New York, 76 and 61 °F in Miami.
    expect(Math.abs(january('daily_maximum', 'KNYC') - 39.5)).toBeLessThan(4);
    expect(Math.abs(january('daily_minimum', 'KNYC') - 27.9)).toBeLessThan(4);
    expect(Math.abs(january('daily_maximum', 'KMIA') - 76)).toBeLessThan(4);
    expect(Math.abs(january('daily_minimum', 'KMIA') - 61)).toBeLessThan(4);
    expect(january('hourly', 'INDEX-MIAMI')).toBeGreaterThan(january('daily_minimum', 'KMIA'));
    expect(january('hourly', 'INDEX-MIAMI')).toBeLessThan(january('daily_maximum', 'KMIA'));
    expect((await fetch(address)).status).toBe(400);
  } finally {
    child.kill();
  }
});
