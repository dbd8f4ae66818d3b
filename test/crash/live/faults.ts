import { Command, InvalidArgumentError } from 'commander';
import { pino } from 'pino';
import { openDatabase } from '../../../src/core/db/open.js';
import { provideOwnBuild } from '../../support/own-build.js';
import { createPostgresServer } from '../../support/postgres-server.js';
import { runLiveFaults } from './run.js';

function parseCount(value: string): number {
  if (!/^\d{1,6}$/.test(value)) throw new InvalidArgumentError('must be a whole number');
  return Number(value);
}

const flags = new Command('test:live-faults')
  .description(
    'Trades live through a service that is killed, at a venue that loses, delays and repeats answers, and checks that both sides agree to the last digit.',
  )
  .option('--orders <count>', 'orders to place', parseCount, 200)
  .option('--kills <count>', 'SIGKILLs of the service', parseCount, 8)
  .option('--traders <count>', 'concurrent traders', parseCount, 4)
  .option('--speed <factor>', "how much faster the service's clock runs", parseCount, 4)
  .option(
    '--seed <number>',
    'repeats the plan of an earlier run',
    parseCount,
    Math.floor(Math.random() * 1e6),
  )
  .parse()
  .opts<{ orders: number; kills: number; traders: number; speed: number; seed: number }>();

console.log(`seed ${flags.seed}`);
const removeBuild = await provideOwnBuild();
const postgres = await createPostgresServer();
const databaseUrl = postgres.url('postgres');
const db = await openDatabase({ databaseUrl, dataDir: '' }, pino({ level: 'silent' }));
const startedAt = Date.now();
let printedAt = 0;
try {
  const { violations, ...summary } = await runLiveFaults({
    ...flags,
    patienceMs: 8_000,
    db,
    databaseUrl,
    onProgress(line) {
      if (Date.now() - printedAt < 5_000) return;
      printedAt = Date.now();
      console.log(line);
    },
  });
  console.log({ ...summary, seconds: Math.round((Date.now() - startedAt) / 1000) });
  for (const line of violations.slice(0, 50)) console.error(line);
  if (violations.length > 0) {
    console.error(`${violations.length} broken promises; repeat with --seed ${flags.seed}`);
    process.exitCode = 1;
  } else console.log('No order was sent twice, and both sides agree to the last digit.');
} finally {
  await db.close();
  await postgres.remove();
  removeBuild();
}
