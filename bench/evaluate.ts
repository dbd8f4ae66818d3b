/**
 * `npm run bench:evaluate`: CPU time of `evaluate --model shrunk` for 167 stations over 167 days, where each day needs
 * a joint fit of all stations to the previous 60 days. For comparison, also runs `--model emos`, which fits each
 * station separately, on the same rows.
 */
import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import { Command } from 'commander';
import { runEvaluateCommand } from '../src/markets/lab/evaluate/command.js';
import { formatEpochDay, parseDay } from '../src/markets/lab/evaluate/training.js';
import { nextGaussian, uniformsOf } from '../src/markets/venue/simulation/random.js';
import { machine } from './embedded.js';

const options = new Command('evaluate')
  .option('--stations <n>', 'stations, each with a forecast for every day', '167')
  .option('--days <n>', 'days, the first 60 of which are only for training', '167')
  .option('--rounds <n>', 'rounds, each with both models', '3')
  .parse()
  .opts<Record<'stations' | 'days' | 'rounds', string>>();
const [stations, days, rounds] = [options.stations, options.days, options.rounds].map(Number) as [
  number,
  number,
  number,
];
const TARGET_SECONDS = 60;

/** Each station has its own bias and spread, and three forecasts per day. */
function makeCsv(): string {
  const next = uniformsOf('bench', 'evaluate');
  const noise = (deviation: number) => deviation * nextGaussian(next);
  const own = Array.from({ length: stations }, () => ({ bias: noise(1), deviation: Math.exp(noise(0.3)) }));
  const first = parseDay('2021-02-01')!;
  const rows = Array.from({ length: days * stations }, (_, i) => {
    const { bias, deviation } = own[i % stations]!;
    const truth = 60 + noise(12);
    const predicted = truth + bias + noise(2 * deviation);
    const members = [0, 1, 2].map(() => (predicted + noise(1)).toFixed(1));
    return [
      formatEpochDay(first + Math.floor(i / stations)),
      i % stations,
      truth.toFixed(1),
      ...members,
    ].join(',');
  });
  return ['day,station,observed,m1,m2,m3', ...rows].join('\n');
}

const csv = makeCsv();

interface Measured {
  /** CPU time, because other work on the machine distorts wall-clock time. */
  seconds: number;
  clockSeconds: number;
  n: number;
  crps: number;
}

async function measure(model: 'shrunk' | 'emos'): Promise<Measured> {
  const flags = ['--obs', 'observed', '--members', '^m', '--date', 'day', '--by', 'station'];
  let [out, errors] = ['', ''];
  const [startedAt, before] = [performance.now(), process.cpuUsage()];
  const code = await runEvaluateCommand({
    args: ['-', ...flags, '--train-days', '60', '--model', model],
    stdin: Readable.from([Buffer.from(csv)]),
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (errors += text) },
  });
  if (code !== 0) throw new Error(errors);
  const { n, ...summary } = JSON.parse(out) as { n: number } & Record<string, { crps: number }>;
  const { user, system } = process.cpuUsage(before);
  return {
    seconds: (user + system) / 1e6,
    clockSeconds: (performance.now() - startedAt) / 1000,
    n,
    crps: summary[model]!.crps,
  };
}

const describe = ({ seconds, clockSeconds, crps }: Measured): string =>
  `${seconds.toFixed(1)} s of processor time, ${clockSeconds.toFixed(1)} s by the clock, CRPS ${crps.toFixed(4)}`;

const medianOf = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

const samples: { shrunk: number; emos: number }[] = [];
for (let round = 1; round <= rounds; round++) {
  const [emos, shrunk] = [await measure('emos'), await measure('shrunk')];
  samples.push({ shrunk: shrunk.seconds, emos: emos.seconds });
  console.log(
    `round ${round}  shrunk ${describe(shrunk)}; emos ${describe(emos)}; ${shrunk.n.toLocaleString('en')} of ${(days * stations).toLocaleString('en')} rows tested`,
  );
}
const seconds = medianOf(samples.map(({ shrunk }) => shrunk));
const ratio = medianOf(samples.map(({ shrunk, emos }) => shrunk / emos));
console.log(
  `\n${machine()}, ${availableParallelism()} cores, Node ${process.version}: shrunk ${seconds.toFixed(1)} s of processor time (≤ ${TARGET_SECONDS} s${seconds <= TARGET_SECONDS ? '' : ' ✗'}), ${ratio.toFixed(1)} times emos`,
);
