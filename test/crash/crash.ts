import { Command, InvalidArgumentError, Option } from 'commander';
import { provideOwnBuild } from '../support/own-build.js';
import { runCrashTest, type CrashOptions } from './run.js';

function parseCount(value: string): number {
  if (!/^\d{1,6}$/.test(value)) throw new InvalidArgumentError('must be a whole number');
  return Number(value);
}

const command = new Command('test:crash')
  .description(
    'Kills the service, and Postgres under it, at random moments, and checks that no acknowledged event was lost or counted twice.',
  )
  .addOption(new Option('--database <name>').choices(['postgres', 'embedded']).default('postgres'))
  .option('--kills <count>', 'SIGKILLs of the server', parseCount, 100)
  .option(
    '--postgres-crashes <count>',
    'immediate shutdowns of Postgres (default: one per four kills)',
    parseCount,
  )
  .option('--terminations <count>', 'SIGTERMs in between (default: one per ten kills)', parseCount)
  .option('--senders <count>', 'concurrent senders', parseCount, 6)
  .option('--max-up-ms <ms>', 'longest time between two crashes', parseCount, 1_500)
  .option(
    '--seed <number>',
    'repeats the plan and the data of an earlier run',
    parseCount,
    Math.floor(Math.random() * 1e6),
  )
  .parse();

type Flags = Omit<CrashOptions, 'onProgress' | 'postgresCrashes' | 'terminations'> & {
  postgresCrashes?: number;
  terminations?: number;
};
const flags = command.opts<Flags>();
const options: CrashOptions = {
  ...flags,
  postgresCrashes: flags.database === 'embedded' ? 0 : (flags.postgresCrashes ?? Math.ceil(flags.kills / 4)),
  terminations: flags.terminations ?? Math.ceil(flags.kills / 10),
};

console.log(`seed ${options.seed}`);
const removeBuild = await provideOwnBuild();
const startedAt = Date.now();
let printedAt = 0;
const report = await runCrashTest({
  ...options,
  onProgress(line) {
    if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${line}`);
    else if (Date.now() - printedAt > 5_000) {
      printedAt = Date.now();
      console.log(line);
    }
  },
});
if (process.stdout.isTTY) console.log();
removeBuild();
const { violations, ...summary } = report;
console.log({ ...summary, seconds: Math.round((Date.now() - startedAt) / 1000) });
for (const line of violations.slice(0, 50)) console.error(line);
if (violations.length > 0) {
  console.error(`${violations.length} broken promises; repeat with --seed ${options.seed}`);
  process.exitCode = 1;
} else console.log('Nothing that was acknowledged is missing, nothing is counted twice.');
