import type { z } from 'zod';
import { toLevels, type OrderBook } from '../market/book.js';
import { parseCount } from '../market/contracts.js';
import {
  marketStatuses,
  WEATHER_SHARD,
  type ListedMarket,
  type MarketResult,
  type MarketStatus,
  type OutcomeMarket,
} from '../market/market.js';
import { DOLLAR, formatDollars, parseDollars, type Micros } from '../market/money.js';
import { readTemperatureRules } from '../market/rules.js';
import type { NoteBook } from '../market/source.js';
import {
  closesAsExpected,
  ContradictionError,
  placeMarket,
  type OtherMarket,
  type MarketPlace,
} from './place-market.js';
import {
  kalshiMarketSchema,
  kalshiOutcomeSchema,
  kalshiResultSchema,
  type KalshiMarket,
  type KalshiOutcome,
  type KalshiResult,
} from './kalshi-schema.js';
import { noteUnreadable, readRows } from './rows.js';

type Notes = Pick<NoteBook, 'add'>;

/** If data is missing or contradictory, only that market is excluded and noted. */
export function readMarket(value: unknown, notes: Notes): ListedMarket | undefined {
  const wire = parseWire(kalshiMarketSchema, value, notes);
  if (!wire) return undefined;
  if (wire.market_type !== 'binary') {
    notes.add('unknown_kind', wire.market_type, wire.ticker);
    return undefined;
  }
  return orContradiction(notes, () => toMarket(wire, notes));
}

/** Keeps only its result if the rest cannot be read: a position is paid whatever the venue changes. */
export function readMarketOrResult(value: unknown, notes: Notes): ListedMarket | MarketResult | undefined {
  const market = readMarket(value, notes);
  if (market) return market;
  const { data: wire } = kalshiResultSchema.safeParse(value);
  return wire && { ...toResult(wire, notes), settledTemperature: null };
}

export const isListed = (found: ListedMarket | MarketResult): found is ListedMarket => 'eventTicker' in found;

/** Reads no more than the history of outcomes needs. */
export function readOutcome(value: unknown, notes: Notes): OutcomeMarket | undefined {
  const wire = parseWire(kalshiOutcomeSchema, value, notes);
  return (
    wire &&
    orContradiction(notes, () => {
      const subject = placeMarket(wire);
      if (subject.station === null) return undefined;
      const settledTemperature = readTemperature(wire, subject);
      return { ...toResult(wire, notes), eventTicker: wire.event_ticker, ...subject, settledTemperature };
    })
  );
}

function parseWire<T extends z.ZodType>(schema: T, value: unknown, notes: Notes): z.output<T> | undefined {
  const found = readRows(schema, [value]);
  noteUnreadable(notes, found, { list: '', key: 'ticker' });
  return found.rows[0];
}

function orContradiction<T>(notes: Notes, read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ContradictionError)) throw error;
    notes.add('contradiction', error.what, error.message);
    return undefined;
  }
}

function toResult(wire: KalshiResult, notes: Notes): Omit<MarketResult, 'settledTemperature'> {
  const status = readStatus(wire, notes);
  const isVoid = wire.result === 'void';
  const value = isVoid ? null : readSettlement(wire, status, notes);
  const isContrary = value !== null && !isPayable(value, wire.result);
  if (isContrary)
    notes.add(
      'contradiction',
      'payout',
      `${wire.ticker}: it is ${wire.result} and pays ${wire.settlement_value_dollars}`,
    );
  return {
    ticker: wire.ticker,
    status,
    settlementValue: isContrary ? null : value,
    ...(isVoid ? { isVoid } : {}),
  };
}

/** @throws ContradictionError */
function toMarket(wire: KalshiMarket, notes: Notes): ListedMarket {
  const subject = placeMarket(wire);
  const result = toResult(wire, notes);
  const untradable = readBounds(wire) ?? readClose(wire, subject, result, notes);
  const market = {
    ...result,
    eventTicker: wire.event_ticker,
    seriesTicker: wire.event_ticker.split('-')[0]!,
    ...(untradable === undefined ? {} : { untradable }),
    ...(wire.exchange_index === WEATHER_SHARD ? {} : { exchangeIndex: wire.exchange_index }),
    yesBid: readPrice(wire.yes_bid_dollars),
    yesAsk: readPrice(wire.yes_ask_dollars),
    noBid: readPrice(wire.no_bid_dollars),
    noAsk: readPrice(wire.no_ask_dollars),
    lastPrice: readPrice(wire.last_price_dollars),
    volume: parseCount(wire.volume_fp),
    volume24h: parseCount(wire.volume_24h_fp),
    openInterest: parseCount(wire.open_interest_fp),
    openTime: new Date(wire.open_time),
    closeTime: new Date(wire.close_time),
    priceRanges: wire.price_ranges.map(({ start, end, step }) => ({
      start: parseDollars(start),
      end: parseDollars(end),
      step: parseDollars(step),
    })),
    settlement: {
      source: readTemperatureRules(wire.rules_primary, wire.rules_secondary)?.source ?? null,
      rulesText: wire.rules_primary,
    },
  };
  if (subject.station === null) {
    const { note, ...known } = subject;
    notes.add(note.kind, note.name, `${wire.ticker}: ${wire.rules_primary}`);
    return {
      ...market,
      ...known,
      bracket: null,
      title: wire.title,
      label: wire.yes_sub_title,
      settledTemperature: null,
    };
  }
  return { ...market, ...subject, settledTemperature: readTemperature(wire, subject) };
}

function readTemperature({ expiration_value: text }: KalshiOutcome, { kind }: MarketPlace): number | null {
  const value = readValue(text);
  return kind === 'hourly' || Number.isInteger(value) ? value : null;
}

const open: ReadonlySet<MarketStatus> = new Set(['initialized', 'inactive', 'active']);

/** The venue may close a market at any time before its day ends, so the time of a closed market proves nothing. */
function readClose(
  { ticker, close_time: time }: KalshiMarket,
  subject: MarketPlace | OtherMarket,
  { status }: Pick<MarketResult, 'status'>,
  notes: Notes,
): string | undefined {
  if (subject.station === null || !open.has(status) || closesAsExpected(subject, new Date(time)))
    return undefined;
  const { station, date, hour } = subject;
  const day = `${date}${hour === undefined ? '' : ` ${hour}:00`}`;
  const why = `it closes at ${time}, which is not the end of ${day} at ${station.id}`;
  notes.add('contradiction', 'close_time', `${ticker}: ${why}`);
  return why;
}

/** The venue always gives it for the winner, but not for all other markets of the event. */
export function shareTemperatures<M extends ListedMarket | OutcomeMarket>(markets: readonly M[]): M[] {
  const byEvent = new Map<string, Set<number>>();
  for (const { eventTicker, settledTemperature: known } of markets)
    if (known !== null) byEvent.set(eventTicker, (byEvent.get(eventTicker) ?? new Set()).add(known));
  return markets.map((market) => {
    const known = byEvent.get(market.eventTicker);
    const isMissing = market.settledTemperature === null && market.settlementValue !== null;
    return isMissing && market.station !== null && known?.size === 1
      ? { ...market, settledTemperature: [...known][0]! }
      : market;
  });
}

export function toOrderBook(wire: { yes: [string, string][]; no: [string, string][] }): OrderBook {
  const read = (levels: [string, string][]) =>
    toLevels(
      levels.map(([price, contracts]) => ({ price: parseDollars(price), contracts: parseCount(contracts) })),
    );
  return { yes: read(wire.yes), no: read(wire.no) };
}

export function toTopOfBook(value: unknown): OrderBook | undefined {
  const parsed = topSchema.safeParse(value);
  if (!parsed.success) return undefined;
  const { yes_bid_dollars: bid, yes_ask_dollars: ask } = parsed.data;
  return {
    yes: toLevels([{ price: parseDollars(bid), contracts: parseCount(parsed.data.yes_bid_size_fp) }]),
    // An offer to sell YES is a bid for NO.
    no: toLevels([{ price: DOLLAR - parseDollars(ask), contracts: parseCount(parsed.data.yes_ask_size_fp) }]),
  };
}

const topSchema = kalshiMarketSchema
  .pick({ yes_bid_dollars: true, yes_ask_dollars: true, yes_bid_size_fp: true, yes_ask_size_fp: true })
  .required();

function readStatus({ status, ticker }: KalshiResult, notes: Notes): MarketStatus {
  const known = marketStatuses.find((name) => name === status);
  if (known) return known;
  notes.add('unknown_status', status, ticker);
  return 'inactive';
}

/** The venue writes 0.00 for no bid and 1.00 for no ask. */
function readPrice(text: string): Micros | null {
  const price = parseDollars(text);
  return price > 0n && price < DOLLAR ? price : null;
}

/** Sizes and worst cases assume payouts without settlement bounds, so markets with such bounds are not traded. */
function readBounds({ settlement_bounds_type: type, settlement_floor_dollars: floor }: KalshiMarket) {
  if (type === 'default') return undefined;
  if (type !== 'floor') return `its payout has unknown bounds (“${type.slice(0, 40)}”)`;
  const least = floor == null ? 'more than nothing' : `$${formatDollars(parseDollars(floor))} or more`;
  return `YES always pays ${least}, and markets with such a floor are not traded here`;
}

const decided: ReadonlySet<MarketStatus> = new Set(['determined', 'disputed', 'amended', 'finalized']);
const results: ReadonlySet<string> = new Set(['yes', 'no', 'scalar', '']);

function readSettlement(wire: KalshiResult, status: MarketStatus, notes: Notes): Micros | null {
  const { ticker, result, settlement_value_dollars: value } = wire;
  if (!results.has(result)) notes.add('unknown_result', result, ticker);
  // Without a result, a payout may be a placeholder value.
  if (!decided.has(status) || result === '' || !results.has(result)) return null;
  if (value != null) return parseDollars(value);
  if (result === 'yes') return DOLLAR;
  return result === 'no' ? 0n : null;
}

function isPayable(value: Micros, result: string): boolean {
  if (result === 'yes') return value === DOLLAR;
  return result === 'no' ? value === 0n : value >= 0n && value <= DOLLAR;
}

/** Parses a value, which is usually a number but sometimes a sentence that starts with a number. */
function readValue(text: string): number | null {
  const [, digits] = /^(-?\d+(?:\.\d{1,2})?)(?!\.?\d)/.exec(text) ?? [];
  return digits === undefined ? null : Number(digits);
}
