/** The measures for a venue with 24 cities and 1,500 markets: reading it, serving it, and streaming its changes. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { systemClock } from '../src/core/time.js';
import { createMetrics } from '../src/core/metrics.js';
import { createMarketMetrics } from '../src/markets/metrics.js';
import { createCalibrationStore, createSnapshotStore } from '../src/markets/snapshot/snapshot.js';
import { createKalshiClient } from '../src/markets/venue/kalshi-client.js';
import { createKalshiSource } from '../src/markets/venue/kalshi.js';
import { createSnapshotReads } from '../src/markets/api/snapshot-reads.js';
import { createRefresher } from '../src/markets/snapshot/refresh.js';
import { plentyOfTokens } from '../test/markets/support/venue-tokens.js';
import { measureIdle, measureRefreshes, openReader, rate } from './market-reads.js';
import type { Measure, World } from './measures.js';
import { startBaseline, startProduct, type Product } from './world.js';
import { calibratedModel } from '../src/markets/learning/calibrated.js';

const READERS = 1_000;
const CHANGES_PER_SECOND = 200;
const startVenue = (changesPerSecond = 0) => startBaseline('bench/venue.ts', String(changesPerSecond));

const urlOf = ({ port }: { port: number }) => `http://127.0.0.1:${port}/trade-api/v2`;

/** Starts the product on a fake venue. Weather services are unreachable, because only markets are measured. */
const onVenue = (venue: { port: number }, databaseUrl: string, env: Record<string, string> = {}) =>
  startProduct({
    DATABASE_URL: databaseUrl,
    MARKET_SOURCE: 'kalshi',
    KALSHI_BASE_URL: urlOf(venue),
    OPEN_METEO_BASE_URL: 'http://127.0.0.1:9',
    NWS_BASE_URL: 'http://127.0.0.1:9',
    REFRESH_SECONDS: '10',
    ...env,
  });

async function untilListed(product: Product): Promise<void> {
  for (let i = 0; ; i++) {
    const answer = await fetch(`http://127.0.0.1:${product.port}/markets`);
    const { markets = [] } = (await answer.json()) as { markets?: unknown[] };
    if (markets.length > 1_000) return;
    if (i > 300) throw new Error('The markets were not read.');
    await setTimeout(200);
  }
}

/** Measures refreshes that read the venue with signed requests, including building `/markets` in every encoding. */
async function measureRefresh(seconds: number) {
  const venue = await startVenue();
  const clock = systemClock;
  const client = createKalshiClient({ baseUrl: urlOf(venue), budget: plentyOfTokens(), headers: signed });
  const log = pino({ level: 'silent' });
  const store = createSnapshotStore();
  const refresher = createRefresher({
    markets: createKalshiSource({ client, series: undefined, clock, log }),
    weather: { name: 'none', freshMs: Infinity, read: () => Promise.reject(new Error('no weather')) },
    model: calibratedModel,
    calibration: createCalibrationStore(),
    store,
    bankroll: 1_000_000_000n,
    clock,
    log,
    metrics: createMetrics([createMarketMetrics]),
  });
  const reads = createSnapshotReads({ store, clock });
  try {
    return await measureRefreshes({ refresher, store }, seconds, async () => {
      for (const encoding of ['br', 'gzip', 'identity'] as const) {
        const { answer, lastFields } = reads.markets({});
        await answer.encode(encoding, lastFields);
        await setImmediate();
      }
    });
  } finally {
    await refresher.stop();
    await venue.stop();
  }
}

const signed = () => ({ 'kalshi-access-key': 'key', 'kalshi-access-signature': 'signed' });

function readMeasure(key: string, name: string, path: string, target: number): Measure {
  return {
    key,
    name,
    target: `≥ ${target.toFixed(2)}`,
    isGood: (value) => value >= target,
    async run({ seconds, productUrl }: World) {
      const venue = await startVenue();
      const product = await onVenue(venue, productUrl);
      try {
        await untilListed(product);
        const other = await startBaseline(
          'bench/baseline-markets.ts',
          `http://127.0.0.1:${product.port}${path}`,
        );
        try {
          await rate(other.port, '/bytes', 1);
          await rate(product.port, path, 1);
          const theirs = await rate(other.port, '/bytes', seconds);
          const ours = await rate(product.port, path, seconds);
          const note = `${Math.round(ours).toLocaleString('en')} ÷ ${Math.round(theirs).toLocaleString('en')} requests/s`;
          return { value: ours / theirs, note };
        } finally {
          await other.stop();
        }
      } finally {
        await product.stop();
        await venue.stop();
      }
    },
  };
}

async function measureStreams({ seconds, productUrl }: World) {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-bench-key-'));
  const file = join(folder, 'key.pem');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(file, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const venue = await startVenue(CHANGES_PER_SECOND);
  const product = await onVenue(venue, productUrl, {
    KALSHI_KEY_ID: 'key',
    KALSHI_PRIVATE_KEY_FILE: file,
  });
  const sockets: Socket[] = [];
  let events = 0;
  try {
    await untilListed(product);
    for (let i = 0; i < READERS; i += 50)
      sockets.push(
        ...(await Promise.all(
          Array.from({ length: 50 }, (_, n) => openReader(product.port, i + n, () => events++)),
        )),
      );
    events = 0;
    const measuredMs = Math.max(5, seconds) * 1000;
    await setTimeout(measuredMs);
    const { now, peak } = product.memoryMb();
    const perReader = (events / READERS / measuredMs) * 1000;
    return {
      value: peak,
      note: `${now} MB resident, each reader got ${perReader.toFixed(1)} events per second`,
    };
  } finally {
    for (const socket of sockets) socket.destroy();
    await product.stop();
    await venue.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

export const venueMeasures: Measure[] = [
  {
    key: 'venue-refresh-cpu',
    name: 'processor time of a refresh of 1,500 markets with their books, and of `/markets` in every encoding',
    target: '≤ 400 ms',
    isGood: (value) => value <= 400,
    async run({ seconds }) {
      const { cpuMs, markets } = await measureRefresh(seconds);
      return { value: cpuMs, note: `${markets} markets` };
    },
  },
  {
    key: 'venue-refresh-pause',
    name: 'longest pause of the event loop over such refreshes',
    target: '≤ 50 ms',
    isGood: (value) => value <= 50,
    async run({ seconds }) {
      const idleMs = await measureIdle(seconds);
      const { pauseMs } = await measureRefresh(seconds);
      return { value: pauseMs, note: `${idleMs.toFixed(0)} ms while this process did nothing` };
    },
  },
  readMeasure(
    'venue-markets',
    '`/markets` of 1,500 markets ÷ the same bytes from a bare Express handler',
    '/markets',
    0.9,
  ),
  readMeasure(
    'venue-station',
    '`/markets?station=KNYC` of them ÷ the same bytes from a bare Express handler',
    '/markets?station=KNYC',
    0.5,
  ),
  {
    key: 'venue-streams',
    name: `memory of the server with ${READERS} readers of \`/stream\` and ${CHANGES_PER_SECOND} changes of books a second`,
    target: '≤ 400 MB',
    isGood: (value) => value <= 400,
    run: measureStreams,
  },
];
