/**
 * `npm run bench`: interleaved rounds, each compared with a baseline from the same round. `--rows 10000000` first fills
 * a table, which takes a few minutes.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import pg from 'pg';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { compareVersions, Failure } from './compare.js';
import { creditMeasures } from './credits.js';
import { embeddedMeasure, machine } from './embedded.js';
import { fillEvents } from './fill.js';
import { marketMeasures } from './market-reads.js';
import { measures, type Sample, type World } from './measures.js';
import { reservationMeasures, stopRolling } from './reservations.js';
import { serviceKeyMeasures } from './service-keys.js';
import { tradeMeasures } from './trades.js';
import { createTenants, startBaseline, startProduct, waitUntilIdle } from './world.js';

const options = new Command('bench')
  .option('--rounds <n>', 'rounds of each measure', '5')
  .option('--seconds <n>', 'seconds of each load', '5')
  .option('--only <keys>', 'measures to run, comma-separated')
  .option('--rows <n>', 'events in the full table of the measure "grown"', '0')
  .option('--compare <refs>', 'commits to compare this version with, comma-separated')
  .addOption(
    new Option('--without <part>', 'part of this version to compare it with and without').choices([
      'stripe',
      'markets',
    ]),
  )
  .addOption(new Option('--markets <switch>', 'markets of the service').choices(['on', 'off']).default('on'))
  .parse()
  .opts<{
    rounds: string;
    seconds: string;
    only?: string;
    rows: string;
    compare?: string;
    without?: 'stripe' | 'markets';
    markets: string;
  }>();

const wanted = options.only?.split(',');
const { compare, without, markets } = options;
if (compare !== undefined || without !== undefined) {
  await compareVersions({
    refs: compare?.split(',') ?? [],
    without,
    keys: wanted ?? (without ? ['batch-100'] : ['batch-1', 'batch-100', 'batch-500', 'check', 'memory']),
    markets,
    turns: Number(options.rounds) * Number(options.seconds),
  }).catch((error: unknown) => {
    if (!(error instanceof Failure)) throw error;
    console.error(error.message);
    process.exit(1);
  });
  process.exit();
}

const chosen = [
  ...measures,
  ...tradeMeasures,
  ...marketMeasures,
  embeddedMeasure,
  ...reservationMeasures,
  ...creditMeasures,
  ...serviceKeyMeasures,
].filter(
  ({ key }) =>
    (wanted ? wanted.includes(key) : true) &&
    (!['grown', 'check-rolling'].includes(key) || Number(options.rows) > 0),
);

const silent = pino({ level: 'silent' });
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const admin = new pg.Client({ connectionString: server.url('postgres') });
await admin.connect();

async function createDatabase(name: string): Promise<string> {
  await admin.query(`create database ${name}`);
  return server.url(name);
}

async function startSide(name: string, rows: number) {
  const url = await createDatabase(name);
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, silent);
  const tenants = await createTenants(db, 16);
  await db.close();
  if (rows > 0) await fillEvents(url, rows);
  const product = await startProduct({ DATABASE_URL: url, MARKETS: options.markets });
  await waitUntilIdle(product);
  return { product, tenants, url };
}

const side = await startSide('product', 0);
const directUrl = await createDatabase('direct');
await (await openDatabase({ databaseUrl: directUrl, dataDir: '' }, silent)).close();
const express = await startBaseline('bench/baseline-express.ts', side.url);
const world: World = {
  seconds: Number(options.seconds),
  tenants: side.tenants,
  product: side.product,
  productUrl: side.url,
  express,
  directUrl,
  databasePid: Number(readFileSync(join(server.dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]),
  createDatabase,
  rows: Number(options.rows),
};
if (chosen.some(({ key }) => key === 'grown')) {
  world.grown = {
    full: await startSide('grown_full', Number(options.rows)),
    empty: await startSide('grown_empty', 0),
  };
}

const samples = new Map<string, Sample[]>(chosen.map(({ key }) => [key, []]));
try {
  // Warms up compiled code, caches and connections.
  for (const measure of chosen) await measure.run({ ...world, seconds: Math.min(2, world.seconds) });
  for (let round = 1; round <= Number(options.rounds); round++) {
    for (const measure of chosen) {
      const sample = await measure.run(world);
      samples.get(measure.key)!.push(sample);
      console.log(
        `round ${round}  ${measure.key.padEnd(10)} ${sample.value.toFixed(2).padStart(8)}  ${sample.note}`,
      );
    }
  }
} finally {
  for (const product of [side.product, world.grown?.full.product, world.grown?.empty.product])
    await product?.stop();
  await stopRolling();
  await express.stop();
  await admin.end();
  await server.remove();
}

console.log(
  `\n${machine()}, ${availableParallelism()} cores, Node ${process.version}, ${options.rounds} rounds of ${options.seconds} s\n`,
);
console.log('| work | target | median | lowest – highest | the last round |\n|---|---|---|---|---|');
for (const measure of chosen) {
  const found = samples.get(measure.key)!;
  const values = found.map(({ value }) => value).toSorted((a, b) => a - b);
  const median = values[values.length >> 1]!;
  const range = `${values[0]!.toFixed(2)} – ${values.at(-1)!.toFixed(2)}`;
  const sign = measure.isGood(median) ? '' : ' ✗';
  console.log(
    `| ${measure.name} | ${measure.target} | **${median.toFixed(2)}**${sign} | ${range} | ${found.at(-1)!.note} |`,
  );
}
