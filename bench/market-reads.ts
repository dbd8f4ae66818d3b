/** Serving, refreshing and streaming. */
import { connect, type Socket } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { systemClock } from '../src/core/time.js';
import { createMetrics } from '../src/core/metrics.js';
import { createMarketMetrics } from '../src/markets/metrics.js';
import { createCalibrationStore, createSnapshotStore } from '../src/markets/snapshot/snapshot.js';
import { createSimulatedWeatherSource } from '../src/markets/weather/simulated.js';
import { createSimulatedSource } from '../src/markets/venue/simulated.js';
import { createSnapshotReads } from '../src/markets/api/snapshot-reads.js';
import { createRefresher } from '../src/markets/snapshot/refresh.js';
import { stations } from '../src/markets/market/stations.js';
import { historyAt, openGates, SEED, trainAnew, weather } from './forecast-world.js';
import type { Measure, World } from './measures.js';
import { getRequest, load, startBaseline, startProduct } from './world.js';
import { calibratedModel } from '../src/markets/learning/calibrated.js';

/** Two days with six brackets each in seven cities. */
const MARKETS = '/markets?status=active';
const CONNECTIONS = 32;
const READERS = 1_000;

/** Responses per second. */
export async function rate(port: number, path: string, seconds: number): Promise<number> {
  const { perSecond, statuses } = await load({
    port,
    seconds,
    connections: CONNECTIONS,
    requests: [getRequest(path)],
  });
  if (Object.keys(statuses).some((status) => status !== '200'))
    throw new Error(`Unexpected answers: ${JSON.stringify(statuses)}`);
  return perSecond;
}

function readMeasure(key: string, name: string, baseline: '/bytes' | '/json', target: number): Measure {
  return {
    key,
    name,
    target: `≥ ${target.toFixed(2)}`,
    isGood: (value) => value >= target,
    async run({ product, seconds }: World) {
      const other = await startBaseline(
        'bench/baseline-markets.ts',
        `http://127.0.0.1:${product.port}${MARKETS}`,
      );
      try {
        // Warms up compiled code and caches.
        await rate(other.port, baseline, 1);
        const theirs = await rate(other.port, baseline, seconds);
        const ours = await rate(product.port, MARKETS, seconds);
        const note = `${Math.round(ours).toLocaleString('en')} ÷ ${Math.round(theirs).toLocaleString('en')} requests/s`;
        return { value: ours / theirs, note };
      } finally {
        await other.stop();
      }
    },
  };
}

/** In this process, with simulated sources and fully trained forecasts. */
async function makeRefresher() {
  const clock = systemClock;
  const at = new Date(clock.now());
  const { book } = trainAnew(await historyAt(at));
  const store = createSnapshotStore();
  const refresher = createRefresher({
    markets: createSimulatedSource({ clock, seed: SEED, weather }),
    // New forecasts on every refresh are the most expensive case.
    weather: { ...createSimulatedWeatherSource({ clock, seed: SEED, weather }), freshMs: 0 },
    model: calibratedModel,
    calibration: createCalibrationStore({ fits: book, gates: openGates(at) }),
    store,
    bankroll: 1_000_000_000n,
    clock,
    log: pino({ level: 'silent' }),
    metrics: createMetrics([createMarketMetrics]),
  });
  return { refresher, reads: createSnapshotReads({ store, clock }), store };
}

type Refreshed = Awaited<ReturnType<typeof makeRefresher>>;

/** @param serve builds every response that readers may request after a refresh */
export async function measureRefreshes(
  { refresher, store }: Pick<Refreshed, 'refresher' | 'store'>,
  seconds: number,
  serve: () => Promise<void>,
) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  await refresher.refresh();
  let cpuMicros = 0;
  let rounds = 0;
  delay.enable();
  for (const endsAt = performance.now() + seconds * 1000; performance.now() < endsAt; rounds++) {
    const before = process.cpuUsage();
    await refresher.refresh();
    await serve();
    const { user, system } = process.cpuUsage(before);
    cpuMicros += user + system;
    await setTimeout(20);
  }
  delay.disable();
  return { cpuMs: cpuMicros / 1000 / rounds, pauseMs: delay.max / 1e6, markets: store.current!.markets.size };
}

async function measureRefresh(seconds: number) {
  const { reads, ...refreshed } = await makeRefresher();
  return measureRefreshes(refreshed, seconds, async () => {
    for (const encoding of ['br', 'gzip', 'identity'] as const)
      for (const { answer, lastFields } of [
        reads.markets({}),
        reads.signals(),
        ...stations.map(({ id }) => reads.forecast(id)),
      ]) {
        await answer.encode(encoding, lastFields);
        // In the service, each encoding belongs to a separate request.
        await setImmediate();
      }
  });
}

/** The longest event-loop pause of an idle process in ms: the machine's noise level. */
export async function measureIdle(seconds: number): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await setTimeout(seconds * 1000);
  delay.disable();
  return delay.max / 1e6;
}

/** Each address may open only a few streams. */
export function openReader(port: number, i: number, onEvent: () => void): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const localAddress = `127.0.${1 + Math.floor(i / 250)}.${1 + (i % 250)}`;
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', reject);
    socket.on('connect', () => socket.write(getRequest('/stream')));
    socket.on('data', (chunk) => {
      if (chunk.includes('event: ')) onEvent();
      resolve(socket);
    });
  });
}

export const marketMeasures: Measure[] = [
  readMeasure(
    'markets-bytes',
    '`/markets`, every market, ÷ the same bytes from a bare Express handler',
    '/bytes',
    0.9,
  ),
  readMeasure('markets-json', '`/markets`, every market, ÷ `res.json` of the same object', '/json', 3),
  {
    key: 'refresh-cpu',
    name: 'processor time of a refresh, and of every shared answer in every encoding',
    target: '≤ 100 ms',
    isGood: (value) => value <= 100,
    async run({ seconds }) {
      const { cpuMs, markets } = await measureRefresh(seconds);
      return { value: cpuMs, note: `${markets} markets, signals, ${stations.length} forecasts` };
    },
  },
  {
    key: 'refresh-pause',
    name: 'longest pause of the event loop over such refreshes',
    target: '≤ 50 ms',
    isGood: (value) => value <= 50,
    async run({ seconds }) {
      const idleMs = await measureIdle(seconds);
      const { pauseMs } = await measureRefresh(seconds);
      return { value: pauseMs, note: `${idleMs.toFixed(0)} ms while this process did nothing` };
    },
  },
  {
    key: 'streams',
    name: `memory of the server with ${READERS} readers of \`/stream\`, refreshed every second`,
    target: '≤ 300 MB',
    isGood: (value) => value <= 300,
    async run({ seconds, product: { databaseUrl } }) {
      const product = await startProduct({ DATABASE_URL: databaseUrl, REFRESH_SECONDS: '1' });
      let events = 0;
      const sockets: Socket[] = [];
      try {
        for (let i = 0; i < READERS; i += 100)
          sockets.push(
            ...(await Promise.all(
              Array.from({ length: 100 }, (_, n) => openReader(product.port, i + n, () => events++)),
            )),
          );
        events = 0;
        await setTimeout(Math.max(3, seconds) * 1000);
        const { now, peak } = product.memoryMb();
        return { value: peak, note: `${now} MB resident, ${events.toLocaleString('en')} events received` };
      } finally {
        for (const socket of sockets) socket.destroy();
        await product.stop();
      }
    },
  },
];
