/**
 * `npm run fuzz -- --requests N --seed S` starts the service as a separate process, sends requests of every kind from
 * every kind of caller, and checks each response against the OpenAPI document. A failing request is printed as a curl
 * command.
 */
import { Command, InvalidArgumentError, Option } from 'commander';
import { fuzz } from './run.js';
import { startServer } from './server.js';

function parseCount(value: string): number {
  if (!/^\d{1,9}$/.test(value)) throw new InvalidArgumentError('must be a whole number');
  return Number(value);
}

const { requests, seed, database } = new Command('fuzz')
  .option('--requests <count>', 'how many', parseCount, 3_000)
  .option('--seed <number>', 'makes the same requests again', parseCount, Math.floor(Math.random() * 1e6))
  .addOption(new Option('--database <name>').choices(['embedded', 'postgres']).default('embedded'))
  .parse()
  .opts<{ requests: number; seed: number; database: 'embedded' | 'postgres' }>();

const server = await startServer(database);
let hasFailed = false;
try {
  console.log(`seed ${seed}, ${requests.toLocaleString('en')} requests, ${database} database`);
  const startedAt = Date.now();
  const report = await fuzz({
    url: server.url,
    pid: server.pid,
    requests,
    seed,
    onProgress(line) {
      if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${line}`);
    },
  });
  if (process.stdout.isTTY) console.log();
  const { faults, ...summary } = report;
  console.log({ ...summary, seconds: Math.round((Date.now() - startedAt) / 1000) });
  for (const fault of faults) console.error(fault);
  hasFailed = faults.length > 0;
  if (hasFailed) console.error(`${faults.length} faults; repeat with --seed ${seed} --requests ${requests}`);
} finally {
  await server.stop();
}
process.exit(hasFailed ? 1 : 0);
