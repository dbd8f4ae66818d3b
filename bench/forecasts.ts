/** The measures for the calibrated forecast: building snapshots, training, and the effect of training on reads. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { inSlices } from '../src/core/steps.js';
import { buildSnapshotInSteps } from '../src/markets/snapshot/build-snapshot.js';
import { createArchive } from '../src/markets/training/forecast-archive.js';
import { insertFits, insertHourFits, insertMixes } from '../src/markets/training/queries.js';
import { trainHoursInSteps } from '../src/markets/training/train-hours.js';
import { trainInSteps } from '../src/markets/training/training.js';
import { noFits } from '../src/markets/learning/fits.js';
import { createSimulatedWeatherSource } from '../src/markets/weather/simulated.js';
import { newId } from '../src/core/ids.js';
import { createPast, pastParts } from '../src/markets/past/past.js';
import { readGates } from '../src/markets/scores/gates.js';
import { PAST_DAYS } from '../src/markets/scores/records.js';
import { historyAt, inputsAt, rules, SEED, trainAnew, weather } from './forecast-world.js';
import { measureIdle, rate } from './market-reads.js';
import type { Measure, Sample } from './measures.js';
import { cpuMsOf, startProduct } from './world.js';

const HOUR_MS = 60 * 60 * 1000;
/** A fixed time in the simulated world when all 84 markets are open. */
const NOON = new Date('2026-11-20T17:00:00Z');
const silent = pino({ level: 'silent' });
const names = { marketSource: 'simulated', forecastSource: 'simulated' };

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const medianOf = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

/** Repeatedly builds a snapshot for each hour of a day and measures the CPU time of each. */
async function measureSnapshot(seconds: number): Promise<Sample> {
  const { book } = trainAnew(await historyAt(NOON));
  const inputs = Array.from({ length: 24 }, (_, hour) =>
    inputsAt(new Date(NOON.getTime() + hour * HOUR_MS), book),
  );
  const times: number[] = [];
  let signals = 0;
  for (const endsAt = performance.now() + seconds * 1000; performance.now() < endsAt;)
    for (const input of inputs) {
      const before = cpuMs();
      const snapshot = await inSlices(buildSnapshotInSteps(input, rules, undefined, silent));
      times.push(cpuMs() - before);
      signals += snapshot.signals.events.reduce((sum, event) => sum + event.signals.length, 0);
      await nextTurn();
    }
  const open = inputs[0]!.data.markets.filter(({ status }) => status === 'active').length;
  const ofHours = book.hours?.fits.length ?? 0;
  const note = `${book.fits.length} fits and ${ofHours} of running days, ${open} open markets, ${(signals / times.length).toFixed(0)} signals; slowest ${Math.max(...times).toFixed(0)} ms`;
  return { value: medianOf(times), note };
}

async function measureSnapshotPause(): Promise<Sample> {
  const input = inputsAt(NOON, trainAnew(await historyAt(NOON)).book);
  const build = () => inSlices(buildSnapshotInSteps(input, rules, undefined, silent));
  // Warms up compiled code and caches.
  for (let i = 0; i < 5; i++) await build();
  const { cpu, wall } = await pauseOf(build);
  return { value: cpu, note: `wall clock ${wall.toFixed(0)} ms` };
}

async function measureFits(seconds: number): Promise<Sample> {
  const history = await historyAt(NOON);
  const times: number[] = [];
  let made = 0;
  for (const endsAt = performance.now() + seconds * 1000; performance.now() < endsAt; await nextTurn()) {
    const before = cpuMs();
    made = trainAnew(history, []).added.length;
    times.push(cpuMs() - before);
  }
  return {
    value: medianOf(times),
    note: `${made} fits from ${history.runs.length.toLocaleString('en')} runs`,
  };
}

/** Measures computing the fits for days in progress, which the service does once a day. */
async function measureHourFits(): Promise<Sample> {
  const history = await historyAt(NOON);
  const options = { previous: [], newId: () => newId(NOON.getTime()) };
  let made = 0;
  const before = cpuMs();
  const { cpu, wall } = await pauseOf(async () => {
    made = (await inSlices(trainHoursInSteps(history, options))).added.length;
  });
  const all = cpuMs() - before;
  const note = `${made} fits in ${(all / 1000).toFixed(1)} s of processor time, once a day; wall clock ${wall.toFixed(0)} ms`;
  return { value: cpu, note };
}

interface Pause {
  /** Largest CPU time of an event-loop turn in ms, including the garbage collector's threads. */
  cpu: number;
  /** The longest wall-clock pause in ms, which includes time taken by other processes. */
  wall: number;
}

/** Runs `work` and returns the longest event-loop pauses during it. */
async function pauseOf(work: () => Promise<unknown>): Promise<Pause> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  let [cpu, last, isOver] = [0, cpuMs(), false];
  const watch = () => {
    const now = cpuMs();
    [cpu, last] = [Math.max(cpu, now - last), now];
    if (!isOver) setImmediate(watch);
  };
  delay.enable();
  watch();
  await work();
  isOver = true;
  // The monitor records a pause only after it ends.
  await sleep(5);
  delay.disable();
  return { cpu, wall: delay.max / 1e6 };
}

/**
 * Measures what the background jobs do on an empty database: filling the simulated past, training, and evaluating
 * gates.
 */
async function measureLearning(database: { databaseUrl?: string; dataDir: string }): Promise<Sample> {
  const db = await openDatabase({ databaseUrl: undefined, ...database }, silent);
  const clock = { now: () => NOON.getTime() };
  const { furtherModels } = createSimulatedWeatherSource({ clock, seed: SEED, weather });
  const archive = createArchive({ db, ...names, furtherModels });
  const past = createPast({ db, archive, clock, names, world: { seed: SEED, weather }, days: PAST_DAYS });
  const { signal } = new AbortController();
  try {
    for (const table of [
      'forecast_records',
      'forecast_fits',
      'forecast_mixes',
      'same_day_fits',
      'ensemble_runs',
      'observed_hours',
      'climate_reports',
    ])
      await db.orm.execute(`truncate ${table}`);
    const idle = await measureIdle(2);
    const pauses = {
      past: await pauseOf(async () => {
        for (const part of pastParts) await past.fillRecords(part, await past.learn(part, signal), signal);
      }),
      archive: await pauseOf(async () => {
        for (const part of pastParts) await past.fillArchive(part, signal);
      }),
      gates: await pauseOf(() => readGates(db, names, NOON)),
      fits: await pauseOf(async () => {
        const history = await archive.asOf(NOON);
        const steps = trainInSteps(history, { previous: noFits, newId: () => newId(NOON.getTime()) });
        for (;;) {
          const { done, value } = steps.next();
          await nextTurn();
          if (!done) continue;
          for (const added of value.added) {
            await insertFits(db.orm, names, [added]);
            await nextTurn();
          }
          for (const added of value.addedHours) {
            await insertHourFits(db.orm, names, [added]);
            await nextTurn();
          }
          await insertMixes(db.orm, names, value.addedMixes);
          return;
        }
      }),
    };
    const each = Object.entries(pauses).map(([name, { cpu }]) => `${name} ${cpu.toFixed(0)}`);
    const wall = Math.max(...Object.values(pauses).map((pause) => pause.wall));
    return {
      value: Math.max(...Object.values(pauses).map(({ cpu }) => cpu)),
      note: `${each.join(', ')}; wall clock ${wall.toFixed(0)} ms, ${idle.toFixed(0)} ms while the process did nothing`,
    };
  } finally {
    await db.close();
  }
}

function learningMeasure(
  key: string,
  where: string,
  open: (directUrl: string) => { databaseUrl?: string },
): Measure {
  return {
    key,
    name: `longest turn of the event loop, in processor time, while the past is filled in, learned from and judged, ${where}`,
    target: '≤ 50 ms',
    isGood: (value) => value <= 50,
    async run({ directUrl }) {
      const dataDir = mkdtempSync(join(tmpdir(), 'gauge-bench-learning-'));
      try {
        return await measureLearning({ ...open(directUrl), dataDir });
      } finally {
        rmSync(dataDir, { recursive: true, force: true });
      }
    },
  };
}

interface Reading {
  requests: number;
  cpuMs: number;
}

const perCpuSecond = (readings: readonly Reading[]): number => {
  const sum = (read: (reading: Reading) => number) => readings.reduce((all, each) => all + read(each), 0);
  return (sum(({ requests }) => requests) / sum(({ cpuMs }) => cpuMs)) * 1000;
};

/**
 * Measures reads from one server in alternating turns, without training and with training every few seconds. The
 * requests per second of server CPU time estimate the rate on an idle machine.
 */
async function measureReads(databaseUrl: string, seconds: number): Promise<Sample> {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-bench-reads-'));
  const readyFile = join(folder, 'ready');
  const server = await startProduct(
    { DATABASE_URL: databaseUrl, READY_FILE: readyFile },
    ['--import', 'tsx'],
    'bench/learning-server.ts',
  );
  const read = async (): Promise<Reading> => {
    // Rounds to a multiple of the training interval.
    const readSeconds = Math.max(1, Math.round(seconds / 3)) * 3;
    const before = cpuMsOf(server.pid);
    const perSecond = await rate(server.port, '/markets?status=active', readSeconds);
    return { requests: perSecond * readSeconds, cpuMs: cpuMsOf(server.pid) - before };
  };
  const toggle = () => process.kill(server.pid, 'SIGUSR2');
  try {
    while (!existsSync(readyFile)) await sleep(100);
    await read();
    const share = await shareOfLearning(server.pid, toggle);
    const readings = { with: [] as Reading[], without: [] as Reading[] };
    for (let turn = 0; turn < 4; turn++) {
      readings.without.push(await read());
      toggle();
      readings.with.push(await read());
      toggle();
    }
    const [during, otherwise] = [perCpuSecond(readings.with), perCpuSecond(readings.without)];
    return {
      value: during / otherwise,
      note: `${Math.round(during).toLocaleString('en')} ÷ ${Math.round(otherwise).toLocaleString('en')} requests per second of its processor time; learning takes ${(share * 100).toFixed(1)} % of the time`,
    };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the share of a core that training uses while nobody reads from the server. */
async function shareOfLearning(pid: number, toggle: () => void): Promise<number> {
  const begin = cpuMsOf(pid);
  await sleep(6_000);
  const quiet = cpuMsOf(pid) - begin;
  toggle();
  await sleep(6_000);
  toggle();
  return (cpuMsOf(pid) - begin - 2 * quiet) / 6_000;
}

export const forecastMeasures: Measure[] = [
  {
    key: 'snapshot-cpu',
    name: 'processor time of a snapshot: calibrated forecasts, joint sizing, all gates open',
    target: '≤ 300 ms',
    isGood: (value) => value <= 300,
    run: ({ seconds }) => measureSnapshot(seconds),
  },
  {
    key: 'snapshot-pause',
    name: 'longest turn of the event loop, in processor time, while snapshots are built',
    target: '≤ 50 ms',
    isGood: (value) => value <= 50,
    run: measureSnapshotPause,
  },
  {
    key: 'fits-cpu',
    name: 'processor time of recomputing all fits',
    target: '≤ 100 ms',
    isGood: (value) => value <= 100,
    run: ({ seconds }) => measureFits(seconds),
  },
  {
    key: 'hour-fits-pause',
    name: 'longest turn of the event loop, in processor time, while the fits for days in progress are computed',
    target: '≤ 50 ms',
    isGood: (value) => value <= 50,
    run: measureHourFits,
  },
  learningMeasure('learning-pause', 'Postgres', (databaseUrl) => ({ databaseUrl })),
  learningMeasure('learning-pause-embedded', 'embedded database', () => ({})),
  {
    key: 'reads-learning',
    name: '`/markets` while all fits and gates are recomputed every 3 s ÷ while they are not',
    target: '≥ 0.90',
    isGood: (value) => value >= 0.9,
    run: ({ product: { databaseUrl }, seconds }) => measureReads(databaseUrl, seconds),
  },
];
