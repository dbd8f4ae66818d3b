import { readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { CsvError, parse } from 'csv-parse';
import { z } from 'zod';
import type { DayEnsemble } from '../../trading/forecast/forecast.js';
import { toLevels, type Level, type OrderBook } from '../../trading/market/book.js';
import { isPlaced, type Market } from '../../trading/market/market.js';
import { CENT, DOLLAR } from '../../trading/market/money.js';
import { findStation } from '../../trading/market/stations.js';
import { readMarket } from '../../trading/venue/kalshi-market.js';
import { CommandError } from '../kit/command.js';
import type { NoteBook } from '../../trading/market/source.js';

const unpack = promisify(gunzip);
/** What a file may hold, unpacked: some years of events, and no more than a string can. */
const MAX_BYTES = 400 * 1024 * 1024;

const eventSchema = z.object({ markets: z.array(z.unknown()).min(1) });
/** A bid this high when the market closed: the outcome is not in doubt, though the venue has not said it yet. */
const SURE_BID = 97n * CENT;

export interface RecordedEvents {
  /** By event, in the order of the files. */
  events: ReadonlyMap<string, readonly Market[]>;
  /** Markets that could not be read for certain, with the reason. */
  unusable: readonly string[];
  /** Events that were taken to have ended as their closing prices say, because the venue's word is not in the files. */
  byClosingPrice: number;
}

/** Reads bodies of `GET /events/{ticker}` with nested markets, one a line, plain or gzipped. @throws CommandError */
export async function readEvents(files: readonly string[]): Promise<RecordedEvents> {
  const events = new Map<string, readonly Market[]>();
  const unusable: string[] = [];
  let byClosingPrice = 0;
  for (const file of files) {
    let line = 0;
    for (const text of (await readBytes(file)).toString('utf8').split('\n')) {
      line++;
      if (text.trim() === '') continue;
      const markets = readMarkets(text, `${file}, line ${line}`, unusable);
      if (markets.length === 0) continue;
      const settled = settleByPrice(markets);
      if (settled) byClosingPrice++;
      events.set(markets[0]!.eventTicker, settled ?? markets);
    }
  }
  return { events, unusable, byClosingPrice };
}

/** The bytes of a file, unpacked if its name says so. @throws CommandError for more than can be, or what is cut off */
async function readBytes(file: string): Promise<Buffer> {
  const { size } = await stat(file);
  if (size > MAX_BYTES) throw tooLarge(file);
  const bytes = await readFile(file);
  if (!file.endsWith('.gz')) return bytes;
  try {
    return await unpack(bytes, { maxOutputLength: MAX_BYTES });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(file);
    throw new CommandError(`${file} cannot be unpacked: ${message}`, { cause: error });
  }
}

const tooLarge = (file: string): CommandError =>
  new CommandError(`${file} holds more than ${MAX_BYTES / 1024 ** 2} MB`);

function readMarkets(text: string, place: string, unusable: string[]): Market[] {
  const parsed = eventSchema.safeParse(parseJson(text, place));
  if (!parsed.success) throw new CommandError(`${place}: no event with nested markets`);
  return parsed.data.markets.flatMap((wire, i) => {
    const notes: Pick<NoteBook, 'add'> = {
      add(kind, name, example) {
        if (kind === 'missing_field') throw new CommandError(`${place}: markets[${i}].${name}: ${example}`);
        unusable.push(example);
      },
    };
    const market = readMarket(wire, notes);
    return market && isPlaced(market) ? [market] : [];
  });
}

function parseJson(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandError(`${place}: not JSON`);
  }
}

/** The markets as settled, where they closed without a result and their last prices leave no doubt; else undefined. */
function settleByPrice(markets: readonly Market[]): Market[] | undefined {
  if (!markets.every(({ status, settlementValue }) => status === 'closed' && settlementValue === null))
    return undefined;
  const sure = markets.filter(({ yesBid }) => yesBid !== null && yesBid >= SURE_BID);
  if (sure.length !== 1) return undefined;
  return markets.map((market) => ({
    ...market,
    status: 'finalized',
    settlementValue: market === sure[0] ? DOLLAR : 0n,
  }));
}

const time = z.iso.datetime({ offset: true });
const rowSchema = z.looseObject({
  station: z.string().refine((id) => findStation(id) !== undefined, 'no station is known by this id'),
  date: z.iso.date(),
  model_run_at: time,
  fetched_at: time,
});

/**
 * Reads runs of ensembles: a CSV with the columns `station`, `date`, `model_run_at` and `fetched_at`, and one for each member
 * in °F whose name begins with `member`; plain or gzipped. A run whose members are not all there is left out.
 * @throws CommandError with line and column
 */
export async function readForecasts(file: string): Promise<DayEnsemble[]> {
  const rows = parse(await readBytes(file), { columns: true, bom: true, trim: true, info: true });
  const runs: DayEnsemble[] = [];
  try {
    for await (const row of rows as AsyncIterable<{ record: unknown; info: { lines: number } }>)
      runs.push(...toRun(row.record, `${file}, line ${row.info.lines}`));
  } catch (error) {
    if (error instanceof CsvError) throw new CommandError(`${file}: ${error.message}`);
    throw error;
  }
  return runs;
}

function toRun(record: unknown, place: string): DayEnsemble[] {
  const parsed = rowSchema.safeParse(record);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new CommandError(`${place}, column ${String(issue!.path[0])}: ${issue!.message}`);
  }
  const { station, date, model_run_at, fetched_at, ...rest } = parsed.data;
  const members = Object.entries(rest).filter(([name]) => name.startsWith('member'));
  if (members.length === 0) throw new CommandError(`${place}: no column whose name begins with “member”`);
  if (members.some(([, value]) => value === '')) return [];
  const membersF = members.map(([name, value]) => {
    const temperatureF = Number(value);
    if (!Number.isFinite(temperatureF)) throw new CommandError(`${place}, column ${name}: not a number`);
    return temperatureF;
  });
  return [
    {
      kind: 'daily_maximum',
      stationId: station,
      date,
      modelRunAt: new Date(model_run_at),
      fetchedAt: new Date(fetched_at),
      membersF,
    },
  ];
}

const tradeSchema = z.object({
  count: z.int().positive(),
  created_time: z.iso.datetime({ offset: true }),
  yes_price: z.int().min(1).max(99),
  no_price: z.int().min(1).max(99),
  taker_side: z.enum(['yes', 'no']),
});
const fileSchema = z.record(z.string(), z.record(z.string(), z.array(tradeSchema)));

export interface RecordedTrade {
  atMs: number;
  /** Cents. */
  yesPrice: number;
  contracts: number;
  takerSide: 'yes' | 'no';
}

/** Reads `{series: {ticker: [trade]}}` in whole cents, plain or gzipped; each market's trades in the order of time. @throws CommandError */
export async function readTrades(files: readonly string[]): Promise<Map<string, RecordedTrade[]>> {
  const trades = new Map<string, RecordedTrade[]>();
  for (const file of files) {
    const parsed = fileSchema.safeParse(parseJson((await readBytes(file)).toString('utf8'), file));
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      throw new CommandError(`${file}: ${issue!.path.join('.')}: ${issue!.message}`);
    }
    for (const [ticker, ofMarket] of Object.values(parsed.data).flatMap((series) => Object.entries(series)))
      trades.set(ticker, [...(trades.get(ticker) ?? []), ...ofMarket.map(toTrade)]);
  }
  for (const ofMarket of trades.values()) ofMarket.sort((a, b) => a.atMs - b.atMs);
  return trades;
}

const toTrade = (trade: z.output<typeof tradeSchema>): RecordedTrade => ({
  atMs: Date.parse(trade.created_time),
  yesPrice: trade.yes_price,
  contracts: trade.count,
  takerSide: trade.taker_side,
});

/**
 * The part of an order book that trades prove: who bought YES at a price found as many contracts asked there, and who
 * bought NO found them bid for. What stood behind them is unknown, so it is not there. The best offer is taken first: a buyer who
 * paid more than earlier ones found nothing left of what those had paid.
 */
export function bookOfTrades(trades: readonly RecordedTrade[], fromMs: number, toMs: number): OrderBook {
  const recent = trades.filter(({ atMs }) => atMs > fromMs && atMs <= toMs);
  const bids = (taker: 'yes' | 'no', price: (trade: RecordedTrade) => number) =>
    toLevels(
      stillThere(
        recent
          .filter(({ takerSide }) => takerSide === taker)
          .map((trade) => ({ price: BigInt(price(trade)) * CENT, contracts: trade.contracts })),
      ),
    );
  return { yes: bids('no', ({ yesPrice }) => yesPrice), no: bids('yes', ({ yesPrice }) => 100 - yesPrice) };
}

/** @param bids in the order of their trades: one that is higher than a later one had been used up by then */
function stillThere(bids: readonly Level[]): Level[] {
  const kept: Level[] = [];
  for (const bid of bids.toReversed()) if (bid.price <= (kept.at(-1)?.price ?? bid.price)) kept.push(bid);
  return kept;
}
