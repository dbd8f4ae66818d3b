/**
 * `npm run fuzz:venue -- --minutes M --seed S` spoils the venue's bodies and messages until the time is up, and prints
 * the seed of each round. A failure is printed with its seed and its smallest counterexample.
 */
import { Command, InvalidArgumentError } from 'commander';
import fc from 'fast-check';
import { properties } from './properties.js';

function parseNumber(value: string): number {
  if (!/^\d{1,9}(\.\d+)?$/.test(value)) throw new InvalidArgumentError('must be a number');
  return Number(value);
}

const { minutes, seed } = new Command('fuzz:venue')
  .option('--minutes <number>', 'how long', parseNumber, 10)
  .option('--seed <number>', 'begins with the same examples', parseNumber, Math.floor(Math.random() * 1e8))
  .parse()
  .opts<{ minutes: number; seed: number }>();

const RUNS_AT_ONCE = 200;
const endsAt = performance.now() + minutes * 60_000;
let failed = 0;
let runs = 0;
for (let round = 0; performance.now() < endsAt; round++) {
  console.log(`round ${round}: seed ${seed + round}`);
  for (const [name, property] of Object.entries(properties)) {
    const found = await fc.check(property as fc.IAsyncProperty<unknown>, {
      seed: seed + round,
      numRuns: RUNS_AT_ONCE,
    });
    runs += found.numRuns;
    if (!found.failed) continue;
    failed++;
    console.error(`${name}: ${fc.defaultReportMessage(found)}`);
  }
}
console.log(`${runs.toLocaleString('en')} examples, ${failed} failures`);
process.exit(failed > 0 ? 1 : 0);
