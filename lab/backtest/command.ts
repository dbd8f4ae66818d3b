import { Command, InvalidArgumentError } from 'commander';
import { type Clock, DAY_MS, MINUTE_MS } from '../../src/core/time.js';
import { formatDecimal } from '../../src/core/pages/format.js';
import { dateOf } from '../../src/markets/market/climate-day.js';
import { parseDollars } from '../../src/markets/market/money.js';
import { findStation, type Station } from '../../src/markets/market/stations.js';
import { TapeError } from '../../src/markets/tape/reader.js';
import {
  CommandError,
  dateFlag,
  messageOf,
  runCommand,
  wholeFrom,
  type Terminal,
} from '../../src/commands/kit/command.js';
import { createProgress } from '../../src/commands/kit/progress.js';
import { backtest } from './backtest.js';
import { tapeFeed, type Feed } from './feed.js';
import { restAmongTrades } from './queue.js';
import { recordsFeed } from './records-feed.js';
import { readEvents, readForecasts, readObservations, readTrades } from './records.js';
import { simulationFeed } from './simulation-feed.js';
import { toQueueText, toText } from './text.js';

interface Flags {
  every: number;
  events?: string[];
  trades?: string[];
  queue?: number[];
  forecasts?: string;
  observations?: string;
  from?: string;
  to?: string;
  stations?: Station[];
  seed: string;
  cash: string;
  shuffles: number;
  ungated: boolean;
  json: boolean;
}

const createBacktestCommand = (): Command =>
  new Command('backtest')
    .description(
      `Replays the past as the service would have traded it, with the same signals, sizes, fills, fees and ledger, from data
known at each moment. Prints profit after fees with an interval, equity, drawdown, turnover and calibration.

As a control, each round of --shuffles pairs each event's prices with the forecast for another day of the same station and
season. Such forecasts know nothing about the day, so a profit means an error in prices, fills or fees: exit status 1.
Each fill is checked against data of the following minute: whether it would have missed, and how the price moved.

Without a file: the simulated world of the demo, with forecasts and gates learned day by day.
With tapes of TAPE_FILE: the recorded markets and forecasts, one file after the other.
With --events and --trades: recorded responses of GET /events/{ticker} with nested markets (one per line), and trades. Books
hold what trades of the last ten minutes prove. No forecast was scored then, so nothing is bought without --ungated.`,
    )
    .argument('[tape...]', 'tapes of TAPE_FILE, oldest first')
    .option('--every <minutes>', 'between decisions, on tapes and records', wholeFrom(1, 1_440), 30)
    .option('--events <file...>', 'recorded events, JSON lines, plain or .gz')
    .option('--trades <file...>', 'recorded trades, JSON {series: {ticker: [trade]}}, plain or .gz')
    .option(
      '--queue <contracts...>',
      'with --trades alone: simulate bids behind this many contracts',
      readQueue,
    )
    .option(
      '--forecasts <file>',
      'with --events: CSV of station, date, model_run_at, fetched_at and a column member… for each member in °F (default: the last 31 reported maxima)',
    )
    .option(
      '--observations <file>',
      'with --events: CSV of station, observed_at, fetched_at, temperature_f (default: none, so nothing is bought once a day has begun)',
    )
    .option('--from <date>', 'first day in the simulated world (default: 30 days in all)', dateFlag)
    .option('--to <date>', 'last day in the simulated world (default: the day before yesterday)', dateFlag)
    .option(
      '--stations <id...>',
      'stations to trade in the simulated world (default: the seven cities that had markets first)',
      readStation,
    )
    .option('--seed <text>', 'of the simulated world', 'gauge')
    .option('--cash <dollars>', 'opening balance of the account', readCash, '1000.00')
    .option('--shuffles <n>', 'control rounds with forecasts of other days', wholeFrom(0, 1_000), 20)
    .option('--ungated', 'also buy what a closed gate would withhold', false)
    .option('--json', 'print JSON', false);

function findConflict(tapes: readonly string[], flags: Flags): string | undefined {
  const { events, trades, queue, forecasts, observations, from, to, stations } = flags;
  if (queue) return trades && !events && tapes.length === 0 ? undefined : '--queue goes only with --trades';
  if (tapes.length > 0 && (events || trades)) return 'either tapes or --events with --trades, not both';
  if ((events === undefined) !== (trades === undefined)) return '--events and --trades go together';
  if (forecasts !== undefined && !events) return '--forecasts goes with --events and --trades';
  if (observations !== undefined && !events) return '--observations goes with --events and --trades';
  if ((from ?? to ?? stations) !== undefined && (tapes.length > 0 || events))
    return '--from, --to and --stations apply only to the simulated world';
  return undefined;
}

function readStation(given: string, before: Station[] = []): Station[] {
  const station = findStation(given.toUpperCase());
  if (!station) throw new InvalidArgumentError('It must be a station like KNYC.');
  return before.includes(station) ? before : [...before, station];
}

function readQueue(given: string, before: number[] = []): number[] {
  return [...before, wholeFrom(0, 100_000)(given)];
}

function readCash(given: string): string {
  if (!/^\d{1,9}(\.\d{1,2})?$/.test(given) || parseDollars(given) === 0n)
    throw new InvalidArgumentError('It must be an amount in dollars like 1000.00.');
  return given;
}

const MAX_DAYS = 400;

export interface BacktestTerminal extends Pick<Terminal, 'args' | 'stdout' | 'stderr'> {
  clock: Clock;
}

/** The exit status is 1 if the shuffled forecasts make a profit. */
export const runBacktestCommand = (terminal: BacktestTerminal): Promise<number> =>
  runCommand<Flags>(
    createBacktestCommand(),
    terminal,
    async (flags, tapes) => {
      const conflict = findConflict(tapes, flags);
      if (conflict) throw new CommandError(conflict);
      if (flags.queue) {
        const result = restAmongTrades(await readTrades(flags.trades!), flags.queue);
        terminal.stdout.write(`${flags.json ? JSON.stringify(result) : toQueueText(result)}\n`);
        return 0;
      }
      const feed = await openFeed(tapes, flags, terminal);
      const progress = createProgress(terminal.stderr);
      const all = feed.count === undefined ? undefined : feed.count * (flags.shuffles + 1);
      let done = 0;
      const startedAt = performance.now();
      const onPoint = () => {
        done++;
        // Events excluded from shuffling cause a second run without them.
        progress.show(all && Math.min(1, done / all), `${flags.shuffles + 1} rounds`);
      };
      const result = await backtest(feed, {
        ...flags,
        cash: parseDollars(flags.cash),
        isUngated: flags.ungated,
        onPoint,
      }).finally(() => progress.stop());
      const seconds = (performance.now() - startedAt) / 1000;
      if (terminal.stderr.isTTY || feed.takenMs !== undefined)
        terminal.stderr.write(
          `${formatDecimal(done)} moments, ${formatDecimal(Math.round(done / seconds))} a second.\n`,
        );
      terminal.stdout.write(`${flags.json ? JSON.stringify(result) : toText(result)}\n`);
      return result.shuffled?.isEarning ? 1 : 0;
    },
    messageOf(TapeError),
  );

async function openFeed(tapes: string[], flags: Flags, { clock, stderr }: BacktestTerminal): Promise<Feed> {
  const everyMs = flags.every * MINUTE_MS;
  if (tapes.length > 0) return tapeFeed(tapes, everyMs);
  if (flags.events && flags.trades) {
    const { events, unusable, byClosingPrice, feeRules } = await readEvents(flags.events);
    if (unusable.length > 0)
      stderr.write(`${unusable.length} markets cannot be read reliably and are skipped: ${unusable[0]}\n`);
    if (byClosingPrice > 0)
      stderr.write(`${byClosingPrice} events have no result and are settled by their closing prices.\n`);
    if (events.size === 0) throw new CommandError(`${flags.events.join(', ')}: no events found`);
    const trades = await readTrades(flags.trades);
    const runs = flags.forecasts === undefined ? undefined : await readForecasts(flags.forecasts);
    const observations = flags.observations === undefined ? [] : await readObservations(flags.observations);
    return recordsFeed({ events, trades, feeRules, runs, observations, everyMs });
  }
  const to = flags.to ?? dateOf(clock.now() - 2 * DAY_MS);
  const from = flags.from ?? dateOf(Date.parse(to) - 29 * DAY_MS);
  if (from > to || Date.parse(to) - Date.parse(from) >= MAX_DAYS * DAY_MS)
    throw new CommandError(`--from ${from} --to ${to}: the range must have 1 to ${MAX_DAYS} days`);
  const progress = createProgress(stderr);
  const onDay = (done: number, total: number) => progress.show(done / total, 'preparing the simulated world');
  return simulationFeed({ seed: flags.seed, from, to, stations: flags.stations, onDay }).finally(() =>
    progress.stop(),
  );
}
