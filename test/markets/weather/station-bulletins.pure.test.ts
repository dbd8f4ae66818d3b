import { createServer, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findStation, stations } from '../../../src/markets/market/stations.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { WeatherUnavailableError } from '../../../src/markets/weather/read-json.js';
import { createStationBulletins, parseBulletins } from '../../../src/markets/weather/station-bulletins.js';
import { groupKnownWeather } from '../../../src/markets/weather/weather.js';

const station = findStation('KNYC')!;
const header = 'runtime,ftime,model,tmp,station,txn,xnd';
const row = (cycle: string, ftime: string, values: string, id = 'KNYC', model = 'NBS') => {
  const [tmp = '', txn = '', xnd = ''] = values.split('/');
  return `2026-08-12 ${cycle}:00:00,2026-08-${ftime}:00:00,${model},${tmp},${id},${txn},${xnd}`;
};
const table = (...rows: string[]) => [header, ...rows, ''].join('\n');
const fetchedAt = new Date('2026-08-12T14:00:00Z');
const url = 'http://mesonet/mos.py';
const given = { station, url, fetchedAt, leaveOut: () => {} };
const read = (body: string) => parseBulletins(body, given);
const readNamed = (body: string) => {
  const leftOut: string[] = [];
  const runs = parseBulletins(body, { ...given, leaveOut: (problem) => leftOut.push(problem) });
  return { runs, leftOut };
};

/** Cycles of 12 August 2026. The 13Z cycle no longer has that day's maximum. */
const early = [row('07', '12 12', '73'), row('07', '13 00', '80/86/2'), row('07', '13 12', '74/71/2')];
const late = [row('13', '13 00', '81'), row('13', '13 12', '73/70/0'), row('13', '14 00', '80/88/3')];

describe('a station bulletin', () => {
  it('gives at 00Z the maximum of the day that ends, and at 12Z the minimum of that day', () => {
    const runs = read(table(...early));
    expect(runs).toEqual([
      expect.objectContaining({ kind: 'daily_maximum', date: '2026-08-12', membersF: [86], spreadF: 2 }),
      expect.objectContaining({ kind: 'daily_minimum', date: '2026-08-13', membersF: [71], spreadF: 2 }),
    ]);
    expect(runs[0]).toMatchObject({
      model: 'nbs',
      stationId: 'KNYC',
      modelRunAt: new Date('2026-08-12T07:00:00Z'),
      fetchedAt,
    });
  });

  it('keeps what the newest cycle lacks, and never states a spread below a degree', () => {
    const ensembles = read(table(...early, ...late));
    const main = ensembles.map((run) => ({ ...run, model: undefined, membersF: Array<number>(20).fill(80) }));
    const { further } = groupKnownWeather(
      { fetchedAt, ensembles: [...main, ...ensembles], observed: [] },
      fetchedAt,
    );
    const of = (key: string) => [...further].find(([target]) => target.includes(key))?.[1]?.at(-1);
    expect(of('daily_maximum')).toMatchObject({ date: '2026-08-12', membersF: [86] });
    expect(ensembles.find(({ date, membersF }) => date === '2026-08-13' && membersF[0] === 70)!.spreadF).toBe(
      1,
    );
  });

  it('is read by its header, whatever columns are missing', () => {
    const body = 'station,xnd,txn,ftime,runtime,model\nKNYC,,86,2026-08-13 00:00,2026-08-12 07:00,NBS\n';
    expect(read(body)).toMatchObject([{ membersF: [86] }]);
    expect(read(body)[0]).not.toHaveProperty('spreadF');
    expect(read('runtime,ftime,model,station\n2026-08-12 07:00,2026-08-13 00:00,NBS,KNYC\n')).toEqual([]);
    expect(read(table())).toEqual([]);
  });

  it.each(['-99', '', 'M', '999', '-999.0', '151'])('has no value where it says %j', (text) => {
    expect(read(table(row('07', '13 00', `80/${text}/2`)))).toEqual([]);
  });

  it('marks days whose extreme may fall outside of its window, near midnight', () => {
    const warmNight = row('07', '12 09', '86');
    expect(read(table(warmNight, ...early))[0]).toMatchObject({ isNearMidnight: true });
    const coldEvening = row('07', '14 03', '70');
    const [maximum, minimum] = read(table(...early, coldEvening));
    expect(minimum).toMatchObject({ kind: 'daily_minimum', isNearMidnight: true });
    expect(maximum).not.toHaveProperty('isNearMidnight');
  });

  it.each([
    ['another station', table(row('07', '13 00', '80/86/2', 'KLGA')), /NBS of KLGA instead/],
    ['another model', table(row('07', '13 00', '80/86/2', 'KNYC', 'GFS')), /GFS of KNYC instead/],
    ['a run from the future', table(row('15', '13 00', '80/86/2')), /invalid or in the future/],
    ['no time', table(row('99', '13 00', '80/86/2')), /invalid or in the future/],
    ['half of a row', table(row('07', '13 00', '80/86/2').slice(0, 30)), /truncated/],
  ])('is refused for nothing but %s', (_, body, problem) => {
    expect(() => read(body)).toThrow(UnexpectedAnswerError);
    expect(() => read(body)).toThrow(problem);
  });

  it.each([
    ['another station', row('07', '13 00', '80/86/2', 'KLGA'), 'row 4: NBS of KLGA instead of NBS of KNYC'],
    [
      'a run from the future',
      row('15', '14 00', '80/86/2'),
      'row 4: its runtime is invalid or in the future',
    ],
    ['no time', row('07', '99 00', '80/86/2'), 'row 4: its ftime is invalid'],
    ['half of a row', row('07', '14 00', '80/86/2').slice(0, 30), 'row 4: it is truncated'],
    ['a quote', `"${row('07', '14 00', '80/86/2')}`, 'row 4: its runtime is invalid or in the future'],
    ['no number', row('07', '14 00', '80/hot/2'), 'txn is "hot" at 2026-08-14 00:00:00'],
  ])('goes on without a row with %s, and names it', (_, wrong, problem) => {
    const { runs, leftOut } = readNamed(table(...early, wrong));
    expect(runs).toEqual(read(table(...early)));
    expect(leftOut).toEqual([problem]);
  });

  it('goes on without a spread that is not a number', () => {
    const { runs, leftOut } = readNamed(table(row('07', '13 00', '80/86/wide')));
    expect(runs).toMatchObject([{ membersF: [86] }]);
    expect(runs[0]).not.toHaveProperty('spreadF');
    expect(leftOut).toEqual(['xnd is "wide" at 2026-08-13 00:00:00']);
  });

  it.each(['', 'Too many requests, slow down', '<html>busy</html>'])(
    'treats the text %j as a busy service',
    (text) => {
      expect(() => read(text)).toThrow(WeatherUnavailableError);
    },
  );
});

describe('the bulletin service', () => {
  const signal = new AbortController().signal;
  let nowMs = fetchedAt.getTime();
  let asked: URL[] = [];
  let agents: (string | undefined)[] = [];
  let answer: (id: string, res: ServerResponse) => string;
  let baseUrl = '';
  const server = createServer((req, res) => {
    const to = new URL(req.url!, 'http://mesonet');
    asked.push(to);
    agents.push(req.headers['user-agent']);
    res.end(answer(to.searchParams.get('station')!, res));
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    baseUrl = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  });
  afterAll(() => void server.close());
  beforeEach(() => {
    nowMs = fetchedAt.getTime();
    asked = [];
    agents = [];
    answer = (id) => table(...[...early, ...late].map((line) => line.replace('KNYC', id)));
  });
  const create = () => createStationBulletins({ baseUrl, clock: { now: () => nowMs } });

  it('asks for one station at a time, at least 4 s apart and once an hour each', async () => {
    const bulletins = create();
    for (let i = 0; i < 10; i++, nowMs += 1_000) await bulletins.read(signal);
    expect(asked).toHaveLength(3);
    for (let i = 0; i < 50; i++, nowMs += 60_000) await bulletins.read(signal);
    expect(asked).toHaveLength(stations.length);
    expect(new Set(asked.map(({ searchParams }) => searchParams.get('station'))).size).toBe(stations.length);
    const { searchParams } = asked[0]!;
    expect(searchParams.get('model')).toBe('NBS');
    expect(searchParams.get('sts')).toBe('2026-08-11T14:00:00.000Z');
    expect(searchParams.get('ets')).toBe('2026-08-12T14:00:00.000Z');
    expect(agents[0]).toContain('gauge');
    const { ensembles, notes } = await bulletins.read(signal);
    expect(new Set(ensembles.map(({ stationId }) => stationId)).size).toBe(stations.length);
    expect(notes).toEqual([]);
  });

  it('reads past cycles of one station, from a day before the first day to the end of the last', async () => {
    nowMs += 30 * 86_400_000;
    const { history } = create();
    const range = { from: '2026-08-12', to: '2026-08-13' };
    const runs = await history!.readRuns(station, range, signal);
    expect(asked).toHaveLength(1);
    expect(Object.fromEntries(asked[0]!.searchParams)).toEqual({
      station: 'KNYC',
      model: 'NBS',
      sts: '2026-08-11T05:00:00.000Z',
      ets: '2026-08-14T05:00:00.000Z',
      format: 'csv',
    });
    expect(runs.map(({ kind, date, membersF }) => [kind, date, membersF[0]])).toEqual([
      ['daily_maximum', '2026-08-12', 86],
      ['daily_minimum', '2026-08-13', 71],
      ['daily_minimum', '2026-08-13', 70],
      ['daily_maximum', '2026-08-13', 88],
    ]);
    expect(runs[0]!.fetchedAt).toEqual(new Date(nowMs));
    expect(await history!.readRuns(station, { from: '2026-08-12', to: '2026-08-12' }, signal)).toHaveLength(
      1,
    );
    answer = () => 'Too many requests';
    await expect(history!.readRuns(station, range, signal)).rejects.toThrow(WeatherUnavailableError);
  });

  it('queries a throttling service at growing intervals, and keeps what it has', async () => {
    const bulletins = create();
    await bulletins.read(signal);
    answer = () => 'Too many requests';
    for (let i = 0; i < 120; i++) {
      nowMs += 60_000;
      await bulletins.read(signal);
    }
    // Pauses of 2, 4, 8, 16, 32 and 64 minutes.
    expect(asked).toHaveLength(7);
    const { ensembles, notes } = await bulletins.read(signal);
    expect(ensembles.length).toBeGreaterThan(0);
    expect(notes).toMatchObject([{ kind: 'missing_model', name: 'nbs', count: stations.length - 1 }]);
  });

  it('names the parts that a station lacks', async () => {
    answer = (id) => table(...early, row('07', '14 00', '80/hot/2')).replaceAll('KNYC', id);
    const { ensembles, notes } = await create().read(signal);
    expect(ensembles).toHaveLength(2);
    expect(notes).toContainEqual({
      kind: 'missing_model',
      name: 'nbs in part',
      count: 1,
      example: 'KNYC: txn is "hot" at 2026-08-14 00:00:00',
    });
  });

  it('leaves a station out with its reason once its runs are a day old', async () => {
    const bulletins = create();
    answer = (id) => (id === 'KNYC' ? table(...early.map((line) => line.replace('NBS', 'MAV'))) : table());
    await bulletins.read(signal);
    expect(await bulletins.read(signal)).toMatchObject({
      ensembles: [],
      notes: [{ example: expect.stringContaining('MAV of KNYC instead of NBS of KNYC') as string }],
    });
    answer = () => table(...early);
    const other = create();
    await other.read(signal);
    nowMs += 25 * 3_600_000;
    answer = () => 'busy';
    const { ensembles, notes } = await other.read(signal);
    expect(ensembles).toEqual([]);
    expect(notes[0]!.count).toBe(stations.length);
  });
});
