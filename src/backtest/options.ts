import { Command, InvalidArgumentError } from 'commander';
import { parseDollars } from '../trading/market/money.js';
import { findStation, type Station } from '../trading/market/stations.js';

export interface Flags {
  every: number;
  events?: string[];
  trades?: string[];
  forecasts?: string;
  from?: string;
  to?: string;
  stations?: Station[];
  seed: string;
  cash: string;
  shuffles: number;
  ungated: boolean;
  json: boolean;
}

export const createBacktestCommand = (): Command =>
  new Command('backtest')
    .description(
      `Goes through the past as the service would have: the same signals, sizes, fills, fees and ledger, with what was known
at each moment. Prints profit after fees with an interval, drawdown, turnover and calibration, and the same with the
prices of each event set against the forecast of another one: nothing may be earned then (exit status 1 if it is).

Without a file: the invented world of the demo, forecasts and gates made anew day by day.
With tapes of TAPE_FILE: what was taped, one file after the other.
With --events and --trades: recorded answers of GET /events/{ticker} with nested markets (one a line) and trades. Books
are what trades of the last ten minutes prove. Nothing was scored then, so nothing is bought without --ungated.`,
    )
    .argument('[tape...]', 'tapes of TAPE_FILE, in the order of time')
    .option('--every <minutes>', 'from one decision to the next, on tapes and records', wholeUpTo(1_440), 30)
    .option('--events <file...>', 'recorded events, JSON lines, plain or .gz')
    .option('--trades <file...>', 'recorded trades, JSON {series: {ticker: [trade]}}, plain or .gz')
    .option(
      '--forecasts <file>',
      'with --events: CSV of station, date, model_run_at, fetched_at and a column member… for each member in °F. Left out: the last 31 reported maxima stand in',
    )
    .option('--from <date>', 'first day of the invented world; left out: 30 days before the last', readDate)
    .option('--to <date>', 'last day of the invented world; left out: the day before yesterday', readDate)
    .option(
      '--stations <id...>',
      'whose days of the invented world are traded; left out: the seven cities that had markets first',
      readStation,
    )
    .option('--seed <text>', 'of the invented world', 'gauge')
    .option('--cash <dollars>', 'what the account begins with', readCash, '1000.00')
    .option('--shuffles <n>', 'rounds with other events’ forecasts', wholeUpTo(1_000, 0), 20)
    .option('--ungated', 'follow also what the gate would withhold', false)
    .option('--json', 'print JSON', false);

/** What cannot go together, in a sentence; undefined if nothing is wrong. */
export function findConflict(tapes: readonly string[], flags: Flags): string | undefined {
  const { events, trades, forecasts, from, to, stations } = flags;
  if (tapes.length > 0 && (events || trades)) return 'either tapes or --events with --trades, not both';
  if ((events === undefined) !== (trades === undefined)) return '--events and --trades are needed both';
  if (forecasts !== undefined && !events) return '--forecasts goes with --events and --trades';
  if ((from ?? to ?? stations) !== undefined && (tapes.length > 0 || events))
    return '--from, --to and --stations are of the invented world';
  return undefined;
}

function wholeUpTo(most: number, least = 1): (given: string) => number {
  return (given) => {
    const value = Number(given);
    if (!/^\d{1,6}$/.test(given) || value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return value;
  };
}

function readDate(given: string): string {
  const ms = /^\d{4}-\d\d-\d\d$/.test(given) ? Date.parse(`${given}T00:00:00Z`) : NaN;
  // The 31st of a month that has 30 days is taken for the next day.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== given)
    throw new InvalidArgumentError('It must be a date like 2026-10-01.');
  return given;
}

function readStation(given: string, before: Station[] = []): Station[] {
  const station = findStation(given.toUpperCase());
  if (!station) throw new InvalidArgumentError('It must be a station like KNYC.');
  return before.includes(station) ? before : [...before, station];
}

function readCash(given: string): string {
  if (!/^\d{1,9}(\.\d{1,2})?$/.test(given) || parseDollars(given) === 0n)
    throw new InvalidArgumentError('It must be an amount in dollars like 1000.00.');
  return given;
}
