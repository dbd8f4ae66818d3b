import { SingleBar } from 'cli-progress';
import { CommanderError } from 'commander';
import type { Clock } from '../core/clock.js';
import { parseDollars } from '../trading/market/money.js';
import { TapeError } from '../trading/tape/reader.js';
import { backtest } from './backtest.js';
import { momentsOfRecords } from './from-records.js';
import { momentsOfSimulation } from './from-simulation.js';
import { momentsOfTapes } from './from-tape.js';
import type { MomentSource } from './moment.js';
import { createBacktestCommand, findConflict, type Flags } from './options.js';
import { readEvents, RecordError } from './records/read-events.js';
import { readForecasts } from './records/read-forecasts.js';
import { readTrades } from './records/read-trades.js';
import { toText } from './words.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const MAX_DAYS = 400;

export interface Terminal {
  args: string[];
  clock: Clock;
  stdout: { write(text: string): unknown };
  stderr: NodeJS.WritableStream & { isTTY?: boolean };
}

/** Runs the command. Resolves to its exit status: 1 where shuffled prices earn, 2 where it could not be carried out. */
export async function runBacktestCommand(terminal: Terminal): Promise<number> {
  const { args, stdout, stderr } = terminal;
  const command = createBacktestCommand()
    .exitOverride()
    .configureOutput({ writeOut: (text) => stdout.write(text), writeErr: (text) => stderr.write(text) });
  try {
    command.parse(args, { from: 'user' });
    const flags = command.opts<Flags>();
    const conflict = findConflict(command.args, flags);
    if (conflict) throw new RecordError(conflict);
    const source = await openSource(command.args, flags, terminal);
    const bar = progress(stderr);
    bar?.start(source.count === undefined ? 0 : source.count * (flags.shuffles + 1), 0);
    const result = await backtest(source, {
      ...flags,
      cash: parseDollars(flags.cash),
      isUngated: flags.ungated,
      onMoment: () => bar?.increment(),
    }).finally(() => bar?.stop());
    stdout.write(`${flags.json ? JSON.stringify(result) : toText(result)}\n`);
    return result.shuffled?.isEarning ? 1 : 0;
  } catch (error) {
    // Commander has already said what is wrong with the flags, or has printed the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    stderr.write(`backtest: ${explain(error)}\n`);
    return 2;
  }
}

async function openSource(tapes: string[], flags: Flags, { clock, stderr }: Terminal): Promise<MomentSource> {
  const everyMs = flags.every * 60_000;
  if (tapes.length > 0) return momentsOfTapes({ files: tapes, everyMs });
  if (flags.events && flags.trades) {
    const { events, unusable, byClosingPrice } = await readEvents(flags.events);
    if (unusable.length > 0)
      stderr.write(
        `${unusable.length} markets cannot be read for certain and are left out: ${unusable[0]}\n`,
      );
    if (byClosingPrice > 0)
      stderr.write(`${byClosingPrice} events have no result: they count as their closing prices say.\n`);
    if (events.size === 0) throw new RecordError(`${flags.events.join(', ')}: there is no event in it`);
    const trades = await readTrades(flags.trades);
    const runs = flags.forecasts === undefined ? undefined : await readForecasts(flags.forecasts);
    return momentsOfRecords({ events, trades, runs, everyMs });
  }
  const to = flags.to ?? dateOf(clock.now() - 2 * DAY_MS);
  const from = flags.from ?? dateOf(Date.parse(to) - 29 * DAY_MS);
  if (from > to || Date.parse(to) - Date.parse(from) >= MAX_DAYS * DAY_MS)
    throw new RecordError(`from ${from} to ${to}: at least one day and at most ${MAX_DAYS}`);
  const bar = progress(stderr);
  bar?.start(1, 0);
  const onDay = (done: number, total: number) => {
    bar?.setTotal(total);
    bar?.update(done);
  };
  return momentsOfSimulation({ seed: flags.seed, from, to, stations: flags.stations, onDay }).finally(() =>
    bar?.stop(),
  );
}

const progress = (stderr: Terminal['stderr']): SingleBar | undefined =>
  stderr.isTTY
    ? new SingleBar({
        format: '{bar} {percentage} % | {eta_formatted} left',
        clearOnComplete: true,
        // Ctrl-C ends the command at once, in the middle of a round: the terminal must be as it was.
        hideCursor: false,
        linewrap: true,
        stream: stderr,
      })
    : undefined;

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** A sentence for what a person can mend; a bug shows itself whole. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isExpected =
    error instanceof RecordError ||
    error instanceof TapeError ||
    ['ENOENT', 'EACCES', 'EISDIR', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  return isExpected ? error.message : (error.stack ?? error.message);
}
