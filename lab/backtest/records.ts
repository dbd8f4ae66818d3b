import { readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { CsvError, parse } from 'csv-parse';
import { z } from 'zod';
import { isPossible, type DayEnsemble } from '../../src/markets/weather/weather.js';
import { isCrossed, toLevels, type Level, type OrderBook } from '../../src/markets/market/book.js';
import { feeTypes, type FeeRule } from '../../src/markets/market/fees.js';
import { isPlaced, type Market } from '../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../src/markets/market/money.js';
import { findStation } from '../../src/markets/market/stations.js';
import { readMarket, shareTemperatures } from '../../src/markets/venue/kalshi-market.js';
import { CommandError } from '../../src/commands/kit/command.js';
import type { NoteBook, Print } from '../../src/markets/market/source.js';

const unpack = promisify(gunzip);
/** Unpacked: a few years of events, below the maximum string length. */
const MAX_BYTES = 400 * 1024 * 1024;

const eventSchema = z.object({
  event: z
    .looseObject({
      fee_type_override: z.string().nullish(),
      fee_multiplier_override: z.number().min(0).max(100).nullish(),
    })
    .optional(),
  markets: z.array(z.unknown()).min(1),
});
/** At the close, such a bid settles a market even without the venue's result. */
const SURE_BID = 97n * CENT;

export interface RecordedEvents {
  /** By event, in file order. */
  events: ReadonlyMap<string, readonly Market[]>;
  unusable: readonly string[];
  /** The files lack the venue's result for these. */
  byClosingPrice: number;
  /** These override the default rule. */
  feeRules: ReadonlyMap<string, FeeRule>;
}

/** Bodies of `GET /events/{ticker}` with nested markets, one per line, plain or gzipped. */
export async function readEvents(files: readonly string[]): Promise<RecordedEvents> {
  const events = new Map<string, readonly Market[]>();
  const unusable: string[] = [];
  const feeRules = new Map<string, FeeRule>();
  let byClosingPrice = 0;
  for (const file of files) {
    let line = 0;
    for (const text of (await readBytes(file)).toString('utf8').split('\n')) {
      line++;
      if (text.trim() === '') continue;
      const { markets, feeRule } = readEvent(text, `${file}, line ${line}`, unusable);
      if (markets.length === 0) continue;
      if (feeRule) feeRules.set(markets[0]!.eventTicker, feeRule);
      const settled = settleByPrice(markets);
      if (settled) byClosingPrice++;
      events.set(markets[0]!.eventTicker, settled ?? markets);
    }
  }
  return { events, unusable, byClosingPrice, feeRules };
}

/** Unpacks a file whose name ends in `.gz`. */
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

function readEvent(
  text: string,
  place: string,
  unusable: string[],
): { markets: Market[]; feeRule: FeeRule | undefined } {
  const parsed = eventSchema.safeParse(parseJson(text, place));
  if (!parsed.success) throw new CommandError(`${place}: no event with nested markets`);
  const markets = parsed.data.markets.flatMap((wire, i) => {
    const notes: Pick<NoteBook, 'add'> = {
      add(kind, name, example) {
        if (kind === 'missing_field') throw new CommandError(`${place}: markets[${i}].${name}: ${example}`);
        unusable.push(example);
      },
    };
    return readMarket(wire, notes) ?? [];
  });
  return {
    markets: shareTemperatures(markets).filter(isPlaced),
    feeRule: feeRuleOf(parsed.data.event ?? {}),
  };
}

/** Undefined without an override. `unknown` prevents buying, because the fee cannot be calculated. */
function feeRuleOf({
  fee_type_override: type = null,
  fee_multiplier_override: multiplier = null,
}: NonNullable<z.output<typeof eventSchema>['event']> | Record<string, never>): FeeRule | undefined {
  if (type === null && multiplier === null) return undefined;
  return {
    type: type === null ? temperatureFees.type : (feeTypes.find((known) => known === type) ?? 'unknown'),
    multiplier:
      multiplier === null ? temperatureFees.multiplier : BigInt(Math.round(multiplier * Number(DOLLAR))),
  };
}

export const temperatureFees: FeeRule = Object.freeze({ type: 'quadratic', multiplier: DOLLAR });

function parseJson(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandError(`${place}: not JSON`);
  }
}

/** Undefined unless exactly one bid is at least `SURE_BID`. */
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
 * CSV, plain or gzipped, with the columns `station`, `date`, `model_run_at` and `fetched_at`, and one column in °F for
 * each member, named `member…`. Runs with missing members are skipped.
 * @throws CommandError with line and column
 */
export async function readForecasts(file: string): Promise<DayEnsemble[]> {
  return (await readRows(file, rowSchema, toRun)).flat();
}

function toRun(
  { station, date, model_run_at, fetched_at, ...rest }: z.output<typeof rowSchema>,
  place: string,
): DayEnsemble[] {
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

const observationSchema = z.looseObject({
  station: z.string().refine((id) => findStation(id) !== undefined, 'no station is known by this id'),
  observed_at: time,
  fetched_at: time,
  temperature_f: z
    .string()
    .regex(/^-?\d+(\.\d+)?$/, 'not a number')
    .transform(Number)
    .refine(isPossible, 'no temperature in °F'),
});

export interface RecordedObservation {
  stationId: string;
  observedAt: Date;
  fetchedAt: Date;
  temperatureF: number;
}

/**
 * CSV with the columns `station`, `observed_at`, `fetched_at` and `temperature_f`.
 * @throws CommandError with line and column
 */
export const readObservations = (file: string): Promise<RecordedObservation[]> =>
  readRows(file, observationSchema, ({ station, observed_at, fetched_at, temperature_f }, place) => {
    const [observedAt, fetchedAt] = [new Date(observed_at), new Date(fetched_at)];
    if (fetchedAt < observedAt) throw new CommandError(`${place}, column fetched_at: before it was observed`);
    return { stationId: station, observedAt, fetchedAt, temperatureF: temperature_f };
  });

/** @throws CommandError for a file that is not a CSV or has a wrong field, and any error of `read` */
async function readRows<Row, Found>(
  file: string,
  schema: z.ZodType<Row>,
  read: (row: Row, place: string) => Found,
): Promise<Found[]> {
  const found: Found[] = [];
  const rows = parse(await readBytes(file), { columns: true, bom: true, trim: true, info: true });
  try {
    for await (const { record, info } of rows as AsyncIterable<{
      record: unknown;
      info: { lines: number };
    }>) {
      const place = `${file}, line ${info.lines}`;
      const { data, error } = schema.safeParse(record);
      if (error) throw wrongField(`${place}, column ${String(error.issues[0]!.path[0])}`, error);
      found.push(read(data, place));
    }
    return found;
  } catch (error) {
    if (error instanceof CsvError) throw new CommandError(`${file}: ${error.message}`);
    throw error;
  }
}

const wrongField = (place: string, { issues: [issue] }: z.ZodError): CommandError =>
  new CommandError(`${place}: ${issue!.message}`);

const tradeSchema = z.object({
  count: z.int().positive(),
  created_time: z.iso.datetime({ offset: true }),
  yes_price: z.int().min(1).max(99),
  no_price: z.int().min(1).max(99),
  taker_side: z.enum(['yes', 'no']),
});
const fileSchema = z.record(z.string(), z.record(z.string(), z.array(z.unknown())));
const tradesSchema = z.array(tradeSchema);

export interface RecordedTrade {
  atMs: number;
  /** Cents. */
  yesPrice: number;
  contracts: number;
  takerSide: 'yes' | 'no';
}

/** `{series: {ticker: [trade]}}` with prices in whole cents, plain or gzipped. In chronological order. */
export async function readTrades(files: readonly string[]): Promise<Map<string, RecordedTrade[]>> {
  const trades = new Map<string, RecordedTrade[]>();
  for (const file of files) {
    const parsed = fileSchema.safeParse(parseJson((await readBytes(file)).toString('utf8'), file));
    if (!parsed.success) throw wrongTrade(file, [], parsed.error);
    for (const [series, markets] of Object.entries(parsed.data))
      for (const [ticker, wire] of Object.entries(markets)) {
        // One market at a time, so that parsed input can be freed.
        const ofMarket = tradesSchema.safeParse(wire);
        if (!ofMarket.success) throw wrongTrade(file, [series, ticker], ofMarket.error);
        const found = trades.get(ticker) ?? [];
        trades.set(ticker, found);
        for (const trade of ofMarket.data) found.push(toTrade(trade));
        markets[ticker] = [];
      }
  }
  for (const ofMarket of trades.values()) ofMarket.sort((a, b) => a.atMs - b.atMs);
  return trades;
}

const wrongTrade = (file: string, at: readonly string[], error: z.ZodError): CommandError =>
  wrongField(`${file}: ${[...at, ...error.issues[0]!.path].join('.')}`, error);

const toTrade = (trade: z.output<typeof tradeSchema>): RecordedTrade => ({
  atMs: Date.parse(trade.created_time),
  yesPrice: trade.yes_price,
  contracts: trade.count,
  takerSide: trade.taker_side,
});

/** @param n position within the market, for the print's id */
export const toPrint = (
  ticker: string,
  { atMs, yesPrice, contracts, takerSide }: RecordedTrade,
  n: number,
): Print => ({
  id: `${ticker} ${n}`,
  ticker,
  at: new Date(atMs),
  yesPrice: BigInt(yesPrice) * CENT,
  contracts,
  takerSide,
});

/**
 * A taker who bought YES proves that the traded contracts were offered at that price, one who bought NO that as many
 * were bid for. Further depth is unknown and omitted. Takers get the best price first, so a buyer who paid more proves
 * that cheaper offers were used up.
 * @param trades in chronological order
 */
export function bookOfTrades(trades: readonly RecordedTrade[], fromMs: number, toMs: number): OrderBook {
  const recent = trades.slice(firstAfter(trades, fromMs), firstAfter(trades, toMs));
  const bids = (taker: 'yes' | 'no', price: (trade: RecordedTrade) => number) =>
    toLevels(
      remainingBids(
        recent
          .filter(({ takerSide }) => takerSide === taker)
          .map((trade) => ({ price: BigInt(price(trade)) * CENT, contracts: trade.contracts })),
      ),
    );
  return { yes: bids('no', ({ yesPrice }) => yesPrice), no: bids('yes', ({ yesPrice }) => 100 - yesPrice) };
}

/** A side exists with unknown depth. Less than a whole contract cannot be bought. */
const TRACE = 0.01;

/**
 * If only one side has traded for a few minutes, the other is assumed to still exist, as a trace that cannot be bought.
 */
export function bookWithTraces(
  trades: readonly RecordedTrade[],
  { fromMs, traceMs, toMs }: { fromMs: number; traceMs: number; toMs: number },
): OrderBook {
  const book = bookOfTrades(trades, fromMs, toMs);
  if (book.yes.length > 0 === book.no.length > 0) return book;
  const missing = book.yes.length === 0 ? 'no' : 'yes';
  const earlier = trades.slice(firstAfter(trades, traceMs), firstAfter(trades, fromMs));
  const last = earlier.findLast(({ takerSide }) => takerSide === missing);
  if (!last) return book;
  const price = BigInt(missing === 'no' ? last.yesPrice : 100 - last.yesPrice) * CENT;
  const trace = [{ price, contracts: TRACE }];
  const traced = missing === 'no' ? { ...book, yes: trace } : { ...book, no: trace };
  return isCrossed(traced) ? book : traced;
}

function firstAfter(trades: readonly RecordedTrade[], ms: number): number {
  let [low, high] = [0, trades.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (trades[middle]!.atMs <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** @param bids in the order of their trades: a later, lower bid proves that higher ones were used up */
function remainingBids(bids: readonly Level[]): Level[] {
  const kept: Level[] = [];
  for (const bid of bids.toReversed()) if (bid.price <= (kept.at(-1)?.price ?? bid.price)) kept.push(bid);
  return kept;
}
