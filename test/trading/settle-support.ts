import { and, asc, eq, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import type { Database } from '../../src/core/db/client.js';
import { emptyBook, type OrderBook, type Side } from '../../src/trading/market/book.js';
import type { Market } from '../../src/trading/market/market.js';
import type { MarketSource } from '../../src/trading/market/source.js';
import { CENT, DOLLAR, type Micros } from '../../src/trading/market/money.js';
import { tradingFills, tradingOrders, type TradeMode } from '../../src/trading/ledger/orders-table.js';
import { openPaperAccount } from '../../src/trading/ledger/accounts.js';
import { applyFill } from '../../src/trading/ledger/positions.js';
import {
  ledgerEntries,
  tradingAccounts,
  tradingPositions,
  tradingSettlements,
} from '../../src/trading/ledger/portfolio-table.js';
import { findStation } from '../../src/trading/market/stations.js';
import type { TestClock } from '../support/service.js';

/** Two hours after the end of July 4 in New York. */
export const AFTER_CLOSE = '2026-07-05T07:00:00Z';
export const EVENT = 'KXHIGHNY-26JUL04';

/** `84° to 85°` of July 4 in New York, unless told otherwise. */
export const makeMarket = (change: Partial<Market> = {}): Market => ({
  ticker: `${EVENT}-B84.5`,
  eventTicker: EVENT,
  seriesTicker: 'KXHIGHNY',
  kind: 'daily_maximum',
  station: findStation('KNYC')!,
  date: '2026-07-04',
  bracket: { kind: 'between', floor: 84, cap: 85 },
  status: 'active',
  yesBid: null,
  yesAsk: null,
  noBid: null,
  noAsk: null,
  lastPrice: null,
  volume: 0,
  volume24h: 0,
  openInterest: 0,
  openTime: new Date('2026-07-03T14:00:00Z'),
  closeTime: new Date('2026-07-05T05:00:00Z'),
  priceRanges: [{ start: 0n, end: DOLLAR, step: CENT }],
  settlement: { source: 'The Weather Company', rulesText: '' },
  settlementValue: null,
  settledTemperature: null,
  ...change,
});

/** What a market says at its end. */
const end = (status: Market['status'], settlementValue: Micros | null = null): Partial<Market> => ({
  status,
  settlementValue,
});
export const ends = {
  closed: end('closed'),
  provisional: (temperature: number) => ({ ...end('closed'), settledTemperature: temperature }),
  determined: (value: Micros) => end('determined', value),
  disputed: (value: Micros) => end('disputed', value),
  amended: (value: Micros) => end('amended', value),
  finalized: (value: Micros) => end('finalized', value),
  void: { ...end('finalized'), isVoid: true } as Partial<Market>,
};

export interface TestVenue extends MarketSource {
  /** What a refresh reads. */
  listed: Market[];
  /** What is found by name besides. */
  unlisted: Market[];
  /** Every question by name. */
  asked: string[][];
  isDown: boolean;
  /** Of every market that is listed; empty if there is none. */
  book: OrderBook | undefined;
  /** Only questions by name fail. */
  isMute: boolean;
}

/** A source of markets that a test holds in its hands. */
export function makeVenue(clock: { now(): number }): TestVenue {
  const assertUp = () => {
    if (venue.isDown) throw new Error('the venue is down');
  };
  const venue: TestVenue = {
    name: 'test',
    listed: [],
    unlisted: [],
    asked: [],
    isDown: false,
    isMute: false,
    book: undefined,
    async read() {
      assertUp();
      return {
        fetchedAt: new Date(clock.now()),
        isTrading: true,
        markets: venue.listed,
        books: new Map(venue.listed.map(({ ticker }) => [ticker, venue.book ?? emptyBook])),
        feeRules: new Map([['KXHIGHNY', { type: 'quadratic', multiplier: DOLLAR }]]),
      };
    },
    async find(tickers) {
      venue.asked.push([...tickers]);
      assertUp();
      if (venue.isMute) throw new Error('the venue does not answer');
      return [...venue.listed, ...venue.unlisted].filter(({ ticker }) => tickers.includes(ticker));
    },
  };
  return venue;
}

/** What a test venue's clock is before its service has one. */
export const clockOf = (service: () => { clock: TestClock }) => ({ now: () => service().clock.now() });

export interface Purchase {
  orgId: string;
  mode?: TradeMode;
  ticker?: string;
  side?: Side;
  contracts: number;
  /** Of one contract. */
  price: Micros;
  fee?: Micros;
  at?: Date;
}

/** Buys as an order does, with everything that it writes. The account begins with 1,000 dollars. */
export async function buy(db: Database, purchase: Purchase): Promise<void> {
  const { orgId, mode = 'paper', ticker = `${EVENT}-B84.5`, side = 'yes' } = purchase;
  const { contracts, price, fee = 0n, at = new Date('2026-07-04T12:00:00Z') } = purchase;
  const eventTicker = ticker.replace(/-[^-]*$/, '');
  await openPaperAccount(db.orm, { orgId, cash: 1000n * DOLLAR, at });
  if (mode === 'live') await openLiveAccount(db, orgId, at);
  const isPosition = and(
    eq(tradingPositions.orgId, orgId),
    eq(tradingPositions.mode, mode),
    eq(tradingPositions.ticker, ticker),
  );
  const [held] = await db.orm.select().from(tradingPositions).where(isPosition);
  const { holding, postings } = applyFill(held, { side, action: 'buy', price, contracts, fee });
  const orderId = uuid({ msecs: at.getTime() });
  const booked = -price * BigInt(contracts) - fee;
  await db.orm.insert(tradingOrders).values({
    orgId,
    id: orderId,
    mode,
    idempotencyKey: orderId,
    requestHash: '',
    clientOrderId: orderId,
    ticker,
    eventTicker,
    seriesTicker: 'KXHIGHNY',
    label: '60° to 61°',
    side,
    action: 'buy',
    contracts,
    limitPrice: price,
    timeInForce: 'immediate_or_cancel',
    status: 'filled',
    filledContracts: contracts,
    exact: booked,
    booked,
    fees: fee,
    feeRule: { type: 'quadratic', multiplier: '1000000' },
    bookFetchedAt: at,
    apiKeyId: uuid(),
    createdAt: at,
    finishedAt: at,
  });
  await db.orm
    .insert(tradingFills)
    .values({ orgId, orderId, n: 1, price, contracts, fee, balanceChange: postings.cash, filledAt: at });
  await db.orm.insert(ledgerEntries).values({
    orgId,
    id: uuid({ msecs: at.getTime() }),
    mode,
    kind: 'fill',
    at,
    ticker,
    orderId,
    fillN: 1,
    ...postings,
  });
  await db.orm
    .insert(tradingPositions)
    .values({
      orgId,
      mode,
      ticker,
      eventTicker,
      ...holding,
      realised: -postings.realised,
      fees: fee,
      openedAt: at,
      updatedAt: at,
    })
    .onConflictDoUpdate({
      target: [tradingPositions.orgId, tradingPositions.mode, tradingPositions.ticker],
      set: {
        ...holding,
        realised: sql`${tradingPositions.realised} - ${String(postings.realised)}::bigint`,
        fees: sql`${tradingPositions.fees} + ${String(fee)}::bigint`,
      },
    });
  await db.orm
    .update(tradingAccounts)
    .set({ cash: sql`${tradingAccounts.cash} + ${String(postings.cash)}::bigint` })
    .where(and(eq(tradingAccounts.orgId, orgId), eq(tradingAccounts.mode, mode)));
}

async function openLiveAccount({ orm }: Database, orgId: string, at: Date): Promise<void> {
  const cash = 1000n * DOLLAR;
  const opened = await orm
    .insert(tradingAccounts)
    .values({ orgId, mode: 'live', cash, openedAt: at })
    .onConflictDoNothing()
    .returning();
  if (opened.length === 0) return;
  const rest = { positions: 0n, fees: 0n, realised: 0n, capital: -cash };
  await orm
    .insert(ledgerEntries)
    .values({ orgId, id: uuid(), mode: 'live', kind: 'deposit', at, cash, ...rest });
}

export async function cashOf(db: Database, orgId: string, mode: TradeMode = 'paper'): Promise<Micros> {
  const [account] = await db.orm
    .select({ cash: tradingAccounts.cash })
    .from(tradingAccounts)
    .where(and(eq(tradingAccounts.orgId, orgId), eq(tradingAccounts.mode, mode)));
  return account!.cash;
}

export const positionsOf = (db: Database, orgId: string) =>
  db.orm.select().from(tradingPositions).where(eq(tradingPositions.orgId, orgId));

/** `[state, value, cashChange]` of all that was recorded about an Organization's markets. */
export async function wordsOf(db: Database, orgId: string) {
  const rows = await db.orm
    .select()
    .from(tradingSettlements)
    .where(eq(tradingSettlements.orgId, orgId))
    .orderBy(asc(tradingSettlements.mode), asc(tradingSettlements.ticker), asc(tradingSettlements.n));
  return rows.map(({ state, value, cashChange }) => [state, value, cashChange]);
}

/** `[kind, cash, realised]` of what the settlement has booked. */
export async function bookedOf(db: Database, orgId: string) {
  const rows = await db.orm
    .select()
    .from(ledgerEntries)
    .where(and(eq(ledgerEntries.orgId, orgId), sql`${ledgerEntries.settlementN} is not null`))
    .orderBy(asc(ledgerEntries.settlementN), asc(ledgerEntries.id));
  return rows.map(({ kind, cash, realised }) => [kind, cash, realised]);
}
