import type { OrderBook } from '../../src/trading/market/book.js';
import type { Market } from '../../src/trading/market/market.js';
import { CENT, DOLLAR, parseDollars } from '../../src/trading/market/money.js';
import type { HeldPosition, PendingOrder, RiskFacts } from '../../src/trading/risk/facts.js';
import type { RiskInput } from '../../src/trading/risk/gate.js';
import { defaultLimits } from '../../src/trading/risk/limits.js';
import { worstCost } from '../../src/trading/market/quote.js';
import type { Bracket } from '../../src/trading/market/brackets.js';
import { stations } from '../../src/trading/market/stations.js';
import type { FeeRule } from '../../src/trading/market/fees.js';
import { noGates } from '../../src/trading/signals/gate.js';
import type { Snapshot } from '../../src/trading/snapshot/snapshot.js';

/** One event of three brackets: COLD is below 50°, MILD is 50° to 51°, WARM is 52° and above. */
export const EVENT = 'KXHIGHNY-26NOV21';
export const at = new Date('2026-11-21T15:00:00Z');
export const feeRule: FeeRule = { type: 'quadratic', multiplier: DOLLAR };

const level = (price: number, contracts: number) => ({ price: BigInt(price) * CENT, contracts });
/** YES 42 / 45. */
export const book: OrderBook = {
  yes: [level(42, 100), level(41, 100)],
  no: [level(55, 50), level(54, 400)],
};

export const market = (ticker: string, bracket: Bracket, values: Partial<Market> = {}): Market => ({
  ticker,
  eventTicker: EVENT,
  seriesTicker: 'KXHIGHNY',
  kind: 'daily_maximum',
  station: stations[0]!,
  date: '2026-11-21',
  bracket,
  status: 'active',
  yesBid: null,
  yesAsk: null,
  noBid: null,
  noAsk: null,
  lastPrice: null,
  volume: 0,
  volume24h: 0,
  openInterest: 0,
  openTime: new Date('2026-11-20T15:00:00Z'),
  closeTime: new Date('2026-11-22T05:00:00Z'),
  priceRanges: [{ start: CENT, end: 99n * CENT, step: CENT }],
  settlement: { source: 'The Weather Company', rulesText: '' },
  settlementValue: null,
  settledTemperature: null,
  ...values,
});

export const markets = [
  market('COLD', { kind: 'less', floor: null, cap: 50 }),
  market('MILD', { kind: 'between', floor: 50, cap: 51 }),
  market('WARM', { kind: 'greater', floor: 51, cap: null }),
];

export function snapshotOf(ladder: Market[] = markets, values: Partial<Snapshot> = {}): Snapshot {
  return {
    sequence: 1,
    asOf: at,
    marketSource: 'scene',
    data: {
      fetchedAt: at,
      isTrading: true,
      markets: ladder,
      books: new Map(ladder.map(({ ticker }) => [ticker, book])),
      feeRules: new Map([['KXHIGHNY', feeRule]]),
    },
    markets: new Map(ladder.map((one) => [one.ticker, one])),
    events: [
      {
        eventTicker: EVENT,
        kind: 'daily_maximum',
        station: stations[0]!,
        date: '2026-11-21',
        markets: ladder,
      },
    ],
    forecasts: new Map(),
    gates: noGates,
    signals: { signals: [] } as unknown as Snapshot['signals'],
    sources: [
      {
        part: 'markets',
        name: 'scene',
        state: 'ok',
        fetchedAt: at,
        failingSince: null,
        problem: null,
        notes: [],
      },
    ],
    ...values,
  };
}

export type Ask = Partial<
  Pick<RiskInput['order'], 'ticker' | 'side' | 'action' | 'contracts' | 'limitPrice'>
>;

/** An order for ten YES contracts of MILD at 50 cents, unless said otherwise. */
export function inputOf(ask: Ask = {}, values: Partial<RiskInput> = {}): RiskInput {
  const order: RiskInput['order'] = {
    orgId: '019b8d9a-6400-7000-8000-000000000001',
    mode: 'paper',
    by: {
      kind: 'key',
      orgId: '019b8d9a-6400-7000-8000-000000000001',
      keyId: '019b8d9a-6400-7000-8000-000000000031',
      scope: 'trading:write',
    },
    idempotencyKey: 'one',
    ticker: 'MILD',
    side: 'yes',
    action: 'buy',
    contracts: 10,
    limitPrice: 50n * CENT,
    timeInForce: 'immediate_or_cancel',
    ...ask,
  };
  const snapshot = values.snapshot ?? snapshotOf();
  return {
    order,
    market: snapshot.markets?.get(order.ticker) ?? markets[1]!,
    book,
    snapshot,
    worstCost: order.action === 'buy' ? worstCost(feeRule, order) : 0n,
    available: 1000n * DOLLAR,
    at,
    ...values,
  };
}

const open = { state: 'open', reason: null } as const;

/** An account of $1,000 that was valued at midnight, and holds nothing. */
export const factsOf = (values: Partial<RiskFacts> = {}): RiskFacts => ({
  switches: { service: open, operator: open, own: open },
  limits: defaultLimits,
  cash: 1000n * DOLLAR,
  positions: [],
  pending: [],
  dayStart: { kind: 'equity', equity: 1000n * DOLLAR, deposits: 0n },
  ...values,
});

export const held = (
  ticker: string,
  side: 'yes' | 'no',
  contracts: number,
  cost: string,
  eventTicker = EVENT,
): HeldPosition => ({ ticker, eventTicker, side, contracts, cost: parseDollars(cost) });

export const pending = (
  action: 'buy' | 'sell',
  ticker: string,
  side: 'yes' | 'no',
  contracts: number,
  price: number,
): PendingOrder => ({
  ticker,
  eventTicker: EVENT,
  side,
  action,
  contracts,
  limitPrice: BigInt(price) * CENT,
});
