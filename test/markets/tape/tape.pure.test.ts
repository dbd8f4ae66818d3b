import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import { pino } from 'pino';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMarketMetrics } from '../../../src/markets/metrics.js';
import type { SnapshotInputs } from '../../../src/markets/snapshot/build-snapshot.js';
import {
  createCalibrationStore,
  createSnapshotStore,
  nothingLearned,
  type Snapshot,
} from '../../../src/markets/snapshot/snapshot.js';
import type { Fit } from '../../../src/markets/learning/fits.js';
import { rawEnsemble } from '../learning/raw-ensemble.js';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import { tapeFeed } from '../../../lab/backtest/feed.js';
import type { MarkableFill } from '../../../src/markets/execution/marker.js';
import { asksOf } from '../../../src/markets/market/book.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import type { Print, PrintsRead } from '../../../src/markets/market/source.js';
import { createSnapshotReads } from '../../../src/markets/api/snapshot-reads.js';
import { createRefresher } from '../../../src/markets/snapshot/refresh.js';
import { findStation, stations } from '../../../src/markets/market/stations.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { everything } from '../../../src/markets/venue/simulation/world.js';
import { readValue, writeMember, writeValue } from '../../../src/markets/tape/format.js';
import { openTapePlayer } from '../../../src/markets/tape/player.js';
import { readTape, TapeError, type TapeEntry } from '../../../src/markets/tape/reader.js';
import { createPrintFollower, tapedPrints } from '../../../src/markets/tape/prints.js';
import { createTapeWriter, requireTapeTarget } from '../../../src/markets/tape/writer.js';
import { TestClock } from '../../support/service.js';
import { lineCoefficients } from '../support/forecast-past.js';
import { ScriptedWeather } from '../support/scripted-sources.js';

const log = pino({ level: 'silent' });
const folder = mkdtempSync(join(tmpdir(), 'gauge-tape-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const newFile = () => join(folder, `${++files}.tape.gz`);
let file: string;
let files = 0;
/** A tape of five refreshes, and the snapshots shown after each of them. */
let taped: string;
let recorded: Awaited<ReturnType<typeof record>>;
beforeAll(async () => {
  file = taped = newFile();
  recorded = await record(5);
});
beforeEach(() => (file = newFile()));

const fit: Fit = {
  id: '019a0000-0000-7000-8000-000000000000',
  kind: 'daily_maximum',
  stationId: 'KNYC',
  leadHours: 24,
  coefficients: { ...lineCoefficients({ a: 1.25, b: 0.98, c: 0.1 + 0.2 }), 'by spread': 1e-300 },
  n: 60,
  firstDate: '2026-09-01',
  lastDate: '2026-10-30',
  lowestMeanF: 50.1,
  highestMeanF: 80.2,
  trainingCrps: 1.1,
  rawCrps: 1.4,
  knownThrough: new Date('2026-11-20T14:00:00Z'),
  trainedAt: new Date('2026-11-20T14:05:00Z'),
};

/** Returns every public output of a snapshot, byte for byte, as of 1.5 s after `atMs`. */
async function bytesOf({ snapshot, atMs }: Shown): Promise<string[]> {
  const store = createSnapshotStore();
  store.replace(snapshot);
  const reads = createSnapshotReads({ store, clock: { now: () => atMs + 1_500 } });
  const answers = [
    reads.markets({}),
    reads.markets({ status: 'finalized' }),
    reads.signals(),
    await reads.signalsFor(123n * DOLLAR),
    ...selection.stations.map(({ id }) => reads.forecast(id)),
  ];
  return Promise.all(
    answers.map(async ({ answer, lastFields, tag }) => {
      const bytes = await answer.encode('identity', lastFields);
      return `${answer.version} ${tag} ${bytes.toString('base64')}`;
    }),
  );
}

const selection = {
  stations: ['KNYC', 'KMIA', 'KDEN'].map((id) => findStation(id)!),
  kinds: everything.kinds,
};

interface Shown {
  snapshot: Snapshot;
  atMs: number;
}

/**
 * Runs a simulated service with a tape for the given number of refreshes and returns the snapshot after each refresh.
 */
async function record(refreshes: number) {
  const clock = new TestClock();
  clock.set('2026-11-20T17:40:00Z');
  const weather = simulateWeather('tape');
  const store = createSnapshotStore();
  const markets = createSimulatedSource({ clock, seed: 'tape', weather }, selection);
  const forecasts = createSimulatedWeatherSource({ clock, seed: 'tape', weather }, selection);
  const calibration = createCalibrationStore();
  const tape = createTapeWriter({
    file,
    header: { marketSource: 'simulated', forecastSource: 'simulated', bankroll: 1_000n * DOLLAR },
    log,
  });
  const refresher = createRefresher({
    markets,
    weather: forecasts,
    model: rawEnsemble,
    calibration,
    store,
    bankroll: 1_000n * DOLLAR,
    tape,
    clock,
    log,
    metrics: createMetrics([createMarketMetrics]),
  });
  const shown: Shown[] = [];
  for (let i = 0; i < refreshes; i++) {
    if (i === 2) calibration.replace({ fits: { madeAt: new Date(clock.now()), fits: [fit] } });
    await refresher.refresh();
    shown.push({ atMs: clock.now(), snapshot: store.current! });
    clock.advance(30_000);
  }
  await refresher.stop();
  await tape.close();
  return shown;
}

async function readAll(path: string): Promise<TapeEntry[]> {
  const entries: TapeEntry[] = [];
  for await (const entry of readTape(path)) entries.push(entry);
  return entries;
}

async function playAll(path: string, from?: Date) {
  const player = await openTapePlayer({ path, speed: Infinity, from });
  const store = createSnapshotStore();
  const shown: Shown[] = [];
  store.subscribe((snapshot: Snapshot) => shown.push({ snapshot, atMs: player.clock.now() }));
  const refresher = player.createRefresher({ store, model: rawEnsemble, log });
  await refresher.refresh();
  await player.ended;
  await refresher.stop();
  return shown;
}

const header = { marketSource: 'simulated', forecastSource: 'simulated', bankroll: 1_000n * DOLLAR };

async function oneRefresh(): Promise<SnapshotInputs> {
  const clock = new TestClock();
  clock.set('2026-11-20T17:40:00Z');
  const weather = simulateWeather('tape');
  const data = await createSimulatedSource({ clock, seed: 'tape', weather }, selection).read(
    new AbortController().signal,
  );
  const at = new Date(clock.now());
  return { sequence: 1, at, data, weather: undefined, calibration: nothingLearned, sources: [] };
}

const sequencesOf = async (path: string): Promise<number[]> =>
  (await readAll(path)).map(({ inputs }) => inputs.sequence);

const until = (read: () => Promise<number[]>, expected: number[]) =>
  expect.poll(read, { interval: 5 }).toEqual(expected);

/** Waits long enough for the queued records to fail. */
const nextFailure = () => sleep(100);

/** Writes a well-formed record that contains arbitrary bytes. */
async function writeFramed(content: Buffer): Promise<void> {
  const member = await writeMember('');
  const plain = gzipSync(content).subarray(10);
  member.writeUInt32LE(20 + plain.length, 16);
  writeFileSync(file, Buffer.concat([member.subarray(0, 20), plain]));
}

describe('a tape', () => {
  it('plays back the same responses, byte by byte, at the same times', async () => {
    const shown = await playAll(taped);
    expect(shown.map(({ atMs }) => atMs)).toEqual(recorded.map(({ atMs }) => atMs));
    const bytes = await Promise.all(recorded.map(bytesOf));
    expect(await Promise.all(shown.map(bytesOf))).toEqual(bytes);
    // Prices move between refreshes; if the bytes never changed, the comparison would prove nothing.
    expect(new Set(bytes.map(([markets]) => markets)).size).toBe(5);
  });

  it('records training results when they appear, and nothing twice', async () => {
    const entries = await readAll(taped);
    expect(entries.map(({ inputs }) => inputs.calibration.fits.fits)).toEqual([[], [], [fit], [fit], [fit]]);
    expect(entries[3]!.inputs.calibration).toBe(entries[2]!.inputs.calibration);
    // Forecasts stay fresh for a minute, so two refreshes share them.
    expect(entries[1]!.inputs.weather).toBe(entries[0]!.inputs.weather);
    expect(entries[2]!.inputs.weather).not.toBe(entries[1]!.inputs.weather);
  });

  it('is a gzip file of lines of JSON', async () => {
    const lines = gunzipSync(await readFile(taped))
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ format, sequence }) => [format, sequence])).toEqual([
      [1, undefined],
      ...[1, 2, 3, 4, 5].map((sequence) => [undefined, sequence]),
    ]);
  });

  it('starts at the requested time', async () => {
    const shown = await playAll(taped, new Date(recorded[2]!.atMs + 1));
    expect(shown.map(({ snapshot }) => snapshot.sequence)).toEqual([4, 5]);
    expect(await bytesOf(shown[0]!)).toEqual(await bytesOf(recorded[3]!));
    await expect(openTapePlayer({ path: taped, speed: 1, from: new Date('2027-01-01') })).rejects.toThrow(
      'nothing on this tape after 2027-01-01T00:00:00.000Z',
    );
  });

  it('continues after a restart, and after a record truncated by a crash', async () => {
    copyFileSync(taped, file);
    truncateSync(file, statSync(file).size - 10);
    expect(await sequencesOf(file)).toEqual([1, 2, 3, 4]);
    await record(2);
    expect(await sequencesOf(file)).toEqual([1, 2, 3, 4, 1, 2]);
  });

  it('that is damaged is rejected with the position', async () => {
    const bytes = await readFile(taped);
    bytes[bytes.length - 200]! ^= 0xff;
    writeFileSync(file, bytes);
    await expect(readAll(file)).rejects.toThrow(/\.tape\.gz, byte \d+: /);
    appendFileSync(file, Buffer.alloc(64));
    await expect(readAll(file)).rejects.toThrow(TapeError);
  });

  it.each([
    ['an empty file', '', 'there is nothing on this tape'],
    ['a text', 'not a tape at all, but longer than a header', 'byte 0: no record of a tape begins at byte 0'],
  ])('cannot be %s', async (_, content, message) => {
    writeFileSync(file, content);
    await expect(readAll(file)).rejects.toThrow(message);
  });

  it.each([
    ['a text that is short', 'short'],
    ['a text', 'what is longer than the header of a record, and not one'],
    ['a gzip file of another kind', gzipSync('x'.repeat(10))],
  ])('never overwrites %s', async (_, content) => {
    writeFileSync(file, content);
    expect(await record(1)).toHaveLength(1);
    expect(await readFile(file)).toEqual(Buffer.from(content));
    expect(() => requireTapeTarget(file)).toThrow('is not a tape');
  });

  it('is rejected at startup if it could not be written', async () => {
    expect(() => requireTapeTarget(join(folder, 'missing', 'a.tape.gz'))).toThrow(
      `TAPE_FILE: the folder ${join(folder, 'missing')} does not exist`,
    );
    expect(() => requireTapeTarget(folder)).toThrow('is not an ordinary file');
    expect(() => requireTapeTarget('/dev/null')).toThrow('is not an ordinary file');
    copyFileSync(taped, file);
    expect(() => requireTapeTarget(file)).not.toThrow();
    truncateSync(file, 7);
    expect(() => requireTapeTarget(file)).not.toThrow();
    expect(() => requireTapeTarget(join(folder, 'new.tape.gz'))).not.toThrow();
  });

  it("is readable only by the service's own user", () => {
    expect(statSync(taped).mode & 0o777).toBe(0o600);
  });

  it('starts over when the file is moved away, with a complete first record', async () => {
    const tape = createTapeWriter({ file, header, log });
    const inputs = await oneRefresh();
    for (const sequence of [1, 2]) tape.write({ ...inputs, sequence });
    await until(() => sequencesOf(file), [1, 2]);
    renameSync(file, `${file}.1`);
    tape.write({ ...inputs, sequence: 3 });
    await nextFailure();
    for (const sequence of [4, 5]) tape.write({ ...inputs, sequence });
    await tape.close();
    expect(await sequencesOf(`${file}.1`)).toEqual([1, 2]);
    expect(await sequencesOf(file)).toEqual([4, 5]);
  });

  it('holds records of one service only: a second writer stops', async () => {
    const [first, second] = [
      createTapeWriter({ file, header, log }),
      createTapeWriter({ file, header, log }),
    ];
    const inputs = await oneRefresh();
    first.write({ ...inputs, sequence: 1 });
    await until(() => sequencesOf(file), [1]);
    second.write({ ...inputs, sequence: 10 });
    await until(() => sequencesOf(file), [1, 10]);
    for (const sequence of [2, 3]) first.write({ ...inputs, sequence });
    await first.close();
    second.write({ ...inputs, sequence: 11 });
    await second.close();
    expect(await sequencesOf(file)).toEqual([1, 10, 11]);
  });

  it('can be read to its end after writing failed while records waited', async () => {
    file = join(folder, 'later', `${files}.tape.gz`);
    const tape = createTapeWriter({ file, header, log });
    const inputs = await oneRefresh();
    // The first record fails, and the ones queued behind it contain only changes.
    for (const sequence of [1, 2, 3]) tape.write({ ...inputs, sequence });
    await nextFailure();
    mkdirSync(join(folder, 'later'));
    for (const sequence of [4, 5]) tape.write({ ...inputs, sequence });
    await tape.close();
    expect(await sequencesOf(file)).toEqual([4, 5]);
  });

  it('that expands beyond the size limit of a record is rejected before it fills the memory', async () => {
    await writeFramed(Buffer.alloc(80 * 1024 * 1024));
    await expect(readAll(file)).rejects.toThrow(/byte 0: Cannot create a Buffer larger than/);
  });

  it('that cannot be written loses refreshes and affects nothing else', async () => {
    file = join(folder, 'missing', 'folder.tape.gz');
    expect(await record(3)).toHaveLength(3);
  });
});

const TICKER = 'KXHIGHNY-26NOV21-B40.5';
const at = (seconds: number) => new Date(Date.parse('2026-11-20T17:40:00Z') + seconds * 1000);
const print = (seconds: number, ticker = TICKER): Print => ({
  id: `${ticker} ${seconds}`,
  ticker,
  at: at(seconds),
  yesPrice: 450_000n,
  contracts: 2.5,
  takerSide: 'yes',
});
const readFrom = (from: number, until: number, prints: Print[] = []): PrintsRead => ({
  tickers: [TICKER],
  since: at(from),
  until: at(until),
  prints,
});

describe('the prints on a tape', () => {
  const printsOf = async (path = file) => (await readAll(path)).map(({ prints }) => prints);

  it('are those read since the previous record, each one once', async () => {
    const tape = createTapeWriter({ file, header, log });
    const inputs = await oneRefresh();
    tape.write(inputs);
    tape.addPrints(readFrom(0, 60, [print(20)]));
    tape.addPrints(readFrom(10, 75, [print(20), print(70)]));
    tape.write(inputs);
    tape.addPrints(readFrom(15, 90, [print(70), print(20), print(80)]));
    tape.write(inputs);
    await tape.close();
    expect(await printsOf()).toEqual([
      [],
      [readFrom(0, 60, [print(20)]), readFrom(10, 75, [print(70)])],
      [readFrom(15, 90, [print(80)])],
    ]);
    // Prints leave the inputs of a refresh unchanged.
    for (const entry of await readAll(file))
      expect(Object.keys(entry.inputs).sort()).toEqual([
        'at',
        'calibration',
        'data',
        'sequence',
        'sources',
        'weather',
      ]);
  });

  it('are complete again after records that could not be written', async () => {
    const tape = createTapeWriter({ file, header, log });
    const inputs = await oneRefresh();
    tape.addPrints(readFrom(0, 60, [print(20)]));
    tape.write(inputs);
    await until(() => sequencesOf(file), [1]);
    renameSync(file, `${file}.1`);
    tape.addPrints(readFrom(10, 75, [print(20), print(70)]));
    tape.write(inputs);
    await nextFailure();
    tape.addPrints(readFrom(15, 90, [print(20), print(70)]));
    tape.write(inputs);
    await tape.close();
    expect(await printsOf()).toEqual([[readFrom(15, 90, [print(20), print(70)])]]);
  });

  it('are bounded: a reading that exceeds the limit is dropped whole', async () => {
    const tape = createTapeWriter({ file, header, log });
    const many = Array.from({ length: 20_000 }, (_, i) => print(i / 1000));
    tape.addPrints(readFrom(0, 60, many));
    tape.addPrints(readFrom(0, 60, many.slice(0, 19_999)));
    tape.addPrints(readFrom(60, 70));
    tape.write(await oneRefresh());
    await tape.close();
    expect((await printsOf()).map((reads) => reads.map(({ prints }) => prints.length))).toEqual([[19_999]]);
  });

  it('that are damaged are rejected with the position', async () => {
    const record = { ...(await oneRefresh()), prints: [{ tickers: [TICKER], since: 'yesterday' }] };
    const members = [{ format: 1, ...header }, record].map((value) => writeMember(`${writeValue(value)}\n`));
    writeFileSync(file, Buffer.concat(await Promise.all(members)));
    await expect(readAll(file)).rejects.toThrow('record 2: not a refresh of Gauge');
  });

  it('are captured from every reader', async () => {
    const clock = new TestClock();
    clock.set('2026-11-20T17:41:00Z');
    const heard: PrintsRead[] = [];
    const source = {
      readPrints: () => {
        clock.advance(5_000);
        return Promise.resolve([print(20)]);
      },
    };
    const taped = tapedPrints(source, { addPrints: (read) => heard.push(read) }, clock);
    const { signal } = new AbortController();
    expect(await taped.readPrints!([TICKER], at(0), signal)).toEqual([print(20)]);
    // A read covers the time up to its request, but at most an hour.
    expect(heard).toEqual([readFrom(0, 60, [print(20)])]);
    await taped.readPrints!([TICKER], at(-7_200), signal);
    expect(heard[1]).toMatchObject({ until: at(-3_600) });
    expect(tapedPrints(source, undefined, clock)).toBe(source);
    const failing = { readPrints: () => Promise.reject(new Error('away')) };
    const silent = tapedPrints(failing, { addPrints: (read) => heard.push(read) }, clock);
    await expect(silent.readPrints!([TICKER], at(0), signal)).rejects.toThrow('away');
    expect(heard).toHaveLength(2);
  });

  it('are read for markets worth trading, and for those that were until a moment ago', async () => {
    const clock = new TestClock();
    clock.set('2026-11-20T17:40:00Z');
    let asked: [string, number][] = [];
    let unreadable: string | undefined;
    const prints = {
      readPrints([ticker]: readonly string[], since: Date) {
        asked.push([ticker!, (since.getTime() - at(0).getTime()) / 1000]);
        return ticker === unreadable ? Promise.reject(new Error('away')) : Promise.resolve([]);
      },
    };
    let tickers: string[] = [];
    const follower = createPrintFollower({ prints, tickers: () => tickers, clock, log });
    const next = async (now: string[]) => {
      tickers = now;
      clock.advance(30_000);
      asked = [];
      await follower.follow();
      return Object.fromEntries(asked);
    };
    expect(await next([])).toEqual({});
    expect(await next(['A'])).toEqual({ A: -30 });
    expect(await next(['B'])).toEqual({ A: 0, B: 0 });
    // A failed read is repeated, and holds up no other market.
    unreadable = 'A';
    expect(await next(['B'])).toEqual({ A: 30, B: 30 });
    expect(await next(['B'])).toEqual({ A: 30, B: 60 });
    unreadable = undefined;
    expect(await next(['B'])).toEqual({ A: 30, B: 90 });
    for (let i = 0; i < 4; i++) await next(['B']);
    expect(asked.map(([ticker]) => ticker)).toEqual(['B']);
    expect(Object.keys(await next(Array.from({ length: 100 }, (_, i) => `C${i}`)))).toHaveLength(40);
    follower.stop();
    expect(await next(['B'])).toEqual({});
  });

  it('show the fate of fills in the taped books, and nothing without prints', async () => {
    const clock = new TestClock();
    clock.set('2026-11-20T17:40:00Z');
    const world = simulateWeather('tape');
    const source = createSimulatedSource({ clock, seed: 'tape', weather: world }, selection);
    const { signal } = new AbortController();
    const [withPrints, without] = [file, `${file}.2`].map((path) =>
      createTapeWriter({ file: path, header, log }),
    );
    const fills: MarkableFill[] = [];
    for (let i = 0; i < 8; i++) {
      const data = await source.read(signal);
      const now = new Date(clock.now());
      const tickers = [...data.books.keys()].slice(0, 20);
      const inputs = {
        sequence: i + 1,
        at: now,
        data,
        weather: undefined,
        calibration: nothingLearned,
        sources: [],
      };
      if (i < 5)
        for (const ticker of tickers)
          for (const { price, contracts } of asksOf(data.books.get(ticker)!, 'yes').slice(0, 1))
            fills.push({ ticker, side: 'yes', action: 'buy', price, contracts, at: now, hasTaken: true });
      withPrints!.addPrints({
        tickers,
        since: at(0),
        until: now,
        prints: await source.readPrints!(tickers, at(0), signal),
      });
      for (const tape of [withPrints!, without!]) tape.write(inputs);
      clock.advance(30_000);
    }
    await Promise.all([withPrints!.close(), without!.close()]);
    const marks = (path: string) => tapeFeed([path], 60_000).lookBack(fills);
    const known = await marks(file);
    expect(known).toHaveLength(fills.length);
    expect(known.every(({ hasPrints }) => hasPrints)).toBe(true);
    expect(known.filter(({ after }) => after[2] !== null).length).toBeGreaterThan(fills.length / 2);
    expect(known.some(({ missed }) => missed === true)).toBe(true);
    expect(known.some(({ missed }) => missed === false)).toBe(true);
    // Without prints, no fill counts as missed or confirmed, but the books still show the price moves.
    const bare = await marks(`${file}.2`);
    expect(bare.every(({ hasPrints, missed }) => !hasPrints && missed === null)).toBe(true);
    expect(bare.filter(({ after }) => after[2] !== null)).not.toEqual([]);
  });
});

describe('the time of a tape', () => {
  it('passes at the requested speed, and stops before and after', async () => {
    const player = await openTapePlayer({ path: taped, speed: 600 });
    expect(player.clock.now()).toBe(recorded[0]!.atMs);
    const store = createSnapshotStore();
    const refresher = player.createRefresher({ store, model: rawEnsemble, log });
    await refresher.refresh();
    expect(store.current?.sequence).toBe(1);
    await player.ended;
    expect(store.current?.sequence).toBe(5);
    const end = player.clock.now();
    expect(end).toBeGreaterThanOrEqual(recorded[4]!.atMs);
    expect(player.clock.now()).toBe(end);
    await refresher.stop();
  });
});

describe('values on a tape', () => {
  it('read back unchanged: bigints, times, maps and stations, at any nesting', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        fc.bigInt(),
        fc.date({ noInvalidDate: true }),
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => (x === 0 ? 0 : x)),
        fc.string(),
        fc.constantFrom(null, true, false, ...stations),
        fc.array(tie('any')),
        fc.array(fc.tuple(fc.string(), tie('any'))).map((entries) => new Map(entries)),
        fc.dictionary(
          fc.string().filter((key) => !key.startsWith('$') && key !== '__proto__'),
          tie('any'),
          { noNullPrototype: true },
        ),
      ),
    })).any;
    fc.assert(
      fc.property(value, (one) => {
        expect(readValue(writeValue(one))).toEqual(one);
      }),
      // Names that every object inherits are ordinary keys here.
      { numRuns: 200, examples: [[{ toString: 'a' }], [{ constructor: null }]] },
    );
  });

  it('name existing stations', () => {
    expect(() => readValue('{"$s":"KXYZ"}')).toThrow('the station KXYZ is not known');
  });

  it.each([
    ['{"$n":"0x10"}', '$n is not a whole number'],
    ['{"$n":12}', '$n is not a whole number'],
    [`{"$n":"${'9'.repeat(1_000_000)}"}`, '$n is not a whole number'],
    ['{"$t":"yesterday"}', '$t is not a time'],
    ['{"$t":1e300}', '$t is not a time'],
    ['{"$t":null}', '$t is not a time'],
    ['{"$m":"ab"}', '$m is not a map'],
    ['{"$m":[["key"]]}', '$m is not a map'],
  ])('are rejected as %.20s', (text, message) => {
    expect(() => readValue(text)).toThrow(message);
  });
});

it('a source that has not answered yet is left off the tape', async () => {
  const weather = new ScriptedWeather();
  weather.behaviour = new Error('away');
  const clock = new TestClock();
  clock.set('2026-11-20T17:40:00Z');
  const world = simulateWeather('tape');
  const tape = createTapeWriter({
    file,
    header: { marketSource: 'simulated', forecastSource: 'scripted', bankroll: DOLLAR },
    log,
  });
  const refresher = createRefresher({
    markets: createSimulatedSource({ clock, seed: 'tape', weather: world }, selection),
    weather,
    model: rawEnsemble,
    calibration: createCalibrationStore(),
    store: createSnapshotStore(),
    bankroll: DOLLAR,
    tape,
    clock,
    log,
    metrics: createMetrics([createMarketMetrics]),
  });
  await refresher.refresh();
  await refresher.stop();
  await tape.close();
  const [entry] = await readAll(file);
  expect(entry!.inputs.weather).toBeUndefined();
  expect(entry!.inputs.sources.map(({ state }) => state)).toEqual(['ok', 'failing']);
});
