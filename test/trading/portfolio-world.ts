import { randomUUID } from 'node:crypto';
import { and, eq, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import type { Clock } from '../../src/core/clock.js';
import type { Database } from '../../src/core/db/client.js';
import { asksOf, toLevels, type OrderBook, type Side } from '../../src/trading/market/book.js';
import type { Market } from '../../src/trading/market/market.js';
import type { MarketSource } from '../../src/trading/market/source.js';
import { CENT, DOLLAR, parseDollars, type Micros } from '../../src/trading/market/money.js';
import { tradingFills, tradingOrders, type OrderStatus } from '../../src/trading/ledger/orders-table.js';
import { openPaperAccount } from '../../src/trading/ledger/accounts.js';
import { applyFill, type Booking, type Holding } from '../../src/trading/ledger/positions.js';
import {
  ledgerEntries,
  tradingAccounts,
  tradingPositions,
  tradingSettlements,
  type SettlementState,
} from '../../src/trading/ledger/portfolio-table.js';
import { bracketLabel, type Bracket } from '../../src/trading/market/brackets.js';
import { findStation } from '../../src/trading/market/stations.js';

export const EVENT = 'KXHIGHNY-26NOV21';
export const COLD = `${EVENT}-T60`;
export const MILD = `${EVENT}-B60.5`;
export const WARM = `${EVENT}-T61`;
const station = findStation('KNYC')!;

const brackets: Record<string, Bracket> = {
  [COLD]: { kind: 'less', floor: null, cap: 60 },
  [MILD]: { kind: 'between', floor: 60, cap: 61 },
  [WARM]: { kind: 'greater', floor: 61, cap: null },
};

export const levels = (...bids: [price: string, contracts: number][]) =>
  toLevels(bids.map(([price, contracts]) => ({ price: parseDollars(price), contracts })));

/** A venue with one day of three brackets in New York, whose books and states a test sets. */
export interface FixedVenue extends MarketSource {
  books: Map<string, OrderBook>;
  /** What differs from a market that trades. */
  states: Map<string, Partial<Market>>;
  isDown: boolean;
}

export function createFixedVenue(clock: () => Clock): FixedVenue {
  const venue: FixedVenue = {
    name: 'fixed',
    isDown: false,
    books: new Map([
      // YES sells at 0.56 × 100 and 0.55 × 50.
      [COLD, { yes: levels(['0.56', 100], ['0.55', 50]), no: levels(['0.42', 80]) }],
      [MILD, { yes: levels(['0.30', 40]), no: levels(['0.68', 25]) }],
      [WARM, { yes: [], no: levels(['0.90', 10]) }],
    ]),
    states: new Map(),
    async read() {
      if (venue.isDown) throw new Error('the venue is down');
      const at = clock().now();
      return {
        fetchedAt: new Date(at),
        isTrading: true,
        markets: Object.keys(brackets).map((ticker) => toMarket(venue, ticker, at)),
        books: venue.books,
        feeRules: new Map([[station.series.maximum, { type: 'quadratic', multiplier: DOLLAR }]]),
      };
    },
    find: async (tickers) =>
      tickers.filter((ticker) => ticker in brackets).map((ticker) => toMarket(venue, ticker, clock().now())),
  };
  return venue;
}

function toMarket({ books, states }: FixedVenue, ticker: string, at: number): Market {
  const book = books.get(ticker)!;
  return {
    ticker,
    eventTicker: EVENT,
    seriesTicker: station.series.maximum,
    kind: 'daily_maximum',
    station,
    date: '2026-11-21',
    bracket: brackets[ticker]!,
    status: 'active',
    yesBid: book.yes[0]?.price ?? null,
    yesAsk: asksOf(book, 'yes')[0]?.price ?? null,
    noBid: book.no[0]?.price ?? null,
    noAsk: asksOf(book, 'no')[0]?.price ?? null,
    lastPrice: null,
    volume: 0,
    volume24h: 0,
    openInterest: 0,
    openTime: new Date(at - 3_600_000),
    closeTime: new Date(at + 3_600_000),
    priceRanges: [{ start: CENT, end: DOLLAR - CENT, step: CENT }],
    settlement: { source: 'The Weather Company', rulesText: '' },
    settlementValue: null,
    settledTemperature: null,
    ...states.get(ticker),
  };
}

export interface TestTrade {
  orgId: string;
  by: { apiKeyId: string } | { userId: string };
  at: Date;
  ticker?: string;
  side?: Side;
  action?: 'buy' | 'sell';
  /** What is filled, level by level. */
  fills?: [price: string, contracts: number, fee: string][];
  /** What was asked for; left out: what is filled. */
  contracts?: number;
  status?: OrderStatus;
  reason?: string;
  mode?: 'paper' | 'live';
  reserved?: string;
}

/** Books an order and its fills as the order transaction does. @returns the order's id */
export async function bookTrade(db: Database, trade: TestTrade): Promise<string> {
  const { orgId, at, ticker = COLD, side = 'yes', action = 'buy', fills = [], mode = 'paper' } = trade;
  const id = uuid({ msecs: at.getTime() });
  const filledContracts = fills.reduce((sum, [, contracts]) => sum + contracts, 0);
  const contracts = trade.contracts ?? filledContracts;
  const eventTicker = ticker.replace(/-[TB][^-]*$/, '');
  if (mode === 'paper') await openPaperAccount(db.orm, { orgId, cash: 1_000n * DOLLAR, at });
  else
    await db.orm
      .insert(tradingAccounts)
      .values({ orgId, mode, cash: 0n, openedAt: at })
      .onConflictDoNothing();
  await db.orm.insert(tradingOrders).values({
    orgId,
    id,
    mode,
    idempotencyKey: randomUUID(),
    requestHash: '0',
    clientOrderId: id,
    ticker,
    eventTicker,
    label: ticker in brackets ? bracketLabel(brackets[ticker]!) : '83° or below',
    seriesTicker: eventTicker.split('-')[0]!,
    side,
    action,
    contracts,
    limitPrice: action === 'buy' ? 990_000n : 10_000n,
    timeInForce: 'immediate_or_cancel',
    status: trade.status ?? (filledContracts === contracts ? 'filled' : 'partially_filled'),
    reason: trade.reason ?? null,
    filledContracts,
    fees: fills.reduce((sum, [, , fee]) => sum + parseDollars(fee), 0n),
    reserved: parseDollars(trade.reserved ?? '0'),
    feeRule: { type: 'quadratic', multiplier: '1000000' },
    bookFetchedAt: at,
    apiKeyId: null,
    userId: null,
    ...trade.by,
    createdAt: at,
    finishedAt: trade.status === 'pending' ? null : at,
  });
  for (const [index, [price, count, fee]] of fills.entries()) {
    const fill = { side, action, price: parseDollars(price), contracts: count, fee: parseDollars(fee) };
    const booking = applyFill(await findHolding(db, orgId, mode, ticker), fill);
    const { postings } = booking;
    await db.orm.insert(tradingFills).values({
      ...fill,
      orgId,
      orderId: id,
      n: index + 1,
      balanceChange: postings.cash,
      filledAt: at,
    });
    await book(db, { orgId, mode, ticker, eventTicker, at, booking }, { orderId: id, fillN: index + 1 });
  }
  return id;
}

interface Booked {
  orgId: string;
  mode: 'paper' | 'live';
  ticker: string;
  eventTicker: string;
  at: Date;
  booking: Booking;
}

async function book(
  db: Database,
  { orgId, mode, ticker, eventTicker, at, booking: { holding, postings } }: Booked,
  why: { orderId: string; fillN: number } | { settlementN: number },
): Promise<void> {
  const kind = 'orderId' in why ? ('fill' as const) : ('settlement' as const);
  const id = uuid({ msecs: at.getTime() });
  await db.orm.insert(ledgerEntries).values({ orgId, id, mode, kind, at, ticker, ...postings, ...why });
  await db.orm
    .insert(tradingPositions)
    .values({
      orgId,
      mode,
      ticker,
      eventTicker,
      ...holding,
      realised: -postings.realised,
      fees: postings.fees,
      openedAt: at,
      updatedAt: at,
    })
    .onConflictDoUpdate({
      target: [tradingPositions.orgId, tradingPositions.mode, tradingPositions.ticker],
      set: {
        ...holding,
        realised: sql`trading_positions.realised + excluded.realised`,
        fees: sql`trading_positions.fees + excluded.fees`,
        updatedAt: at,
      },
    });
  await db.orm
    .update(tradingAccounts)
    .set({ cash: sql`${tradingAccounts.cash} + ${String(postings.cash)}::bigint` })
    .where(and(eq(tradingAccounts.orgId, orgId), eq(tradingAccounts.mode, mode)));
}

async function findHolding(db: Database, orgId: string, mode: 'paper' | 'live', ticker: string) {
  const [row] = await db.orm
    .select()
    .from(tradingPositions)
    .where(
      and(
        eq(tradingPositions.orgId, orgId),
        eq(tradingPositions.mode, mode),
        eq(tradingPositions.ticker, ticker),
      ),
    );
  return row satisfies Holding | undefined;
}

export interface TestWord {
  orgId: string;
  at: Date;
  ticker?: string;
  n: number;
  state: SettlementState;
  value: Micros | null;
  temperature: number | null;
  cost: string;
  contracts: number;
  side?: Side;
  cashChange?: string;
}

/** Writes a word of the venue about a market's end down, without what it moves. */
export async function writeWord(db: Database, word: TestWord): Promise<void> {
  const { ticker = COLD, side = 'yes' } = word;
  await db.orm.insert(tradingSettlements).values({
    ...word,
    mode: 'paper',
    ticker,
    side,
    eventTicker: EVENT,
    cost: parseDollars(word.cost),
    cashChange: parseDollars(word.cashChange ?? '0'),
  });
}

/** Settles what is held of a market, with everything that it moves. */
export async function bookSettlement(
  db: Database,
  word: Omit<TestWord, 'side' | 'cost' | 'contracts' | 'cashChange'>,
  settle: (held: Holding) => Booking,
): Promise<void> {
  const { orgId, at, n, ticker = COLD } = word;
  const held = (await findHolding(db, orgId, 'paper', ticker))!;
  const booking = settle(held);
  await db.orm.insert(tradingSettlements).values({
    ...word,
    mode: 'paper',
    ticker,
    side: held.side,
    contracts: held.contracts,
    eventTicker: EVENT,
    cost: held.cost,
    cashChange: booking.postings.cash,
  });
  await book(db, { orgId, mode: 'paper', ticker, eventTicker: EVENT, at, booking }, { settlementN: n });
}
