import { AppError } from '../../core/errors.js';
import { formatDecimal, formatExactMoney } from '../../core/pages/format.js';
import type { OrderInput } from '../ledger/order-input.js';
import { otherSide, quoteOrder, worstCost, type OrderBook } from '../market/book.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import type { FeeRule } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { RiskFacts } from '../risk/facts.js';
import { assertWithinRisk } from '../risk/gate.js';
import type { AccountState } from './queries.js';
import { assertReachable, type TradableMarket } from './tradable.js';

/** A paper order that passed every check and then spent `latencyMs` in flight. */
export interface ArrivedOrder {
  latencyMs: number;
  /** Book at the time of the check, minus the liquidity taken by the Organization's earlier paper orders. */
  book: OrderBook;
  /** Contracts available within the limit price at the time of the check. */
  within: number;
}

export interface Grounds {
  view: TradableMarket;
  state: AccountState;
  /** For a paper order, minus the liquidity taken by the Organization's earlier paper orders. */
  book: OrderBook;
  cash: Micros;
  /** Undefined if the facts could not be read. */
  facts: RiskFacts | undefined;
  at: Date;
  /** Set for an arrived paper order, whose price was checked before it was sent. */
  sent?: ArrivedOrder | undefined;
}

/**
 * Runs every check of an order in a tradable market. Pure, so that a preview and a placed order pass the same checks.
 * @returns the maximum amount that the order can take from the balance
 * @throws AppError insufficient_position, price_moved, entitlement_required, entitlement_read_only, risk_limit,
 * insufficient_funds
 */
export function assertAllowed(input: OrderInput, { view, state, book, cash, facts, at, sent }: Grounds) {
  assertHeld(input, state);
  if (!sent) assertReachable(view.book, book, input);
  const available = cash - state.reserved;
  const filledFrom = input.mode === 'paper' ? book : undefined;
  const cost = input.action === 'buy' ? maxCost(input, view.feeRule, filledFrom) : 0n;
  const { market, snapshot } = view;
  assertWithinRisk({ order: input, market, book: sent?.book ?? book, snapshot, worstCost: cost, at }, facts);
  const outlay = outlayOf(input, cost, state);
  assertFunds(outlay, available);
  return outlay;
}

const freeContracts = ({ position, committed }: AccountState, side: 'yes' | 'no'): number =>
  position?.side === side ? Math.max(0, subtractCounts(position.contracts, committed[side])) : 0;

function assertHeld({ action, side, ticker, contracts }: OrderInput, state: AccountState): void {
  if (action === 'buy') return;
  const free = freeContracts(state, side);
  if (contracts <= free) return;
  const claimed = Math.min(
    state.committed[side],
    state.position?.side === side ? state.position.contracts : 0,
  );
  const pending = claimed > 0 ? `, besides ${formatDecimal(claimed)} reserved for open orders` : '';
  throw new AppError(
    'insufficient_position',
    `The order sells ${formatDecimal(contracts)} ${side.toUpperCase()} of ${ticker}, but ${formatDecimal(free)} are held${pending}.`,
  );
}

/**
 * Maximum cost of a purchase. Each fill is rounded individually, so many small fills can cost more than one large fill
 * at the limit price. The fills of a paper order are known, so their cost is used if it is higher.
 */
function maxCost(input: OrderInput, feeRule: FeeRule, book: OrderBook | undefined): Micros {
  const worst = worstCost(feeRule, input);
  const filled = book ? -quoteOrder(book, feeRule, input).balanceChange : 0n;
  return filled > worst ? filled : worst;
}

/** The most that the order can take from the balance, less a dollar for each pair that it closes. */
function outlayOf(input: OrderInput, grossCost: Micros, state: AccountState): Micros {
  if (input.action === 'sell') return 0n;
  const pairs = Math.min(input.contracts, freeContracts(state, otherSide[input.side]));
  const outlay = grossCost - valueOf(DOLLAR, pairs);
  return outlay > 0n ? outlay : 0n;
}

function assertFunds(outlay: Micros, available: Micros): void {
  if (outlay === 0n || outlay <= available) return;
  throw new AppError(
    'insufficient_funds',
    `The order can cost ${formatExactMoney(outlay)} at its limit price, including the fee. ${formatExactMoney(available)} is available.`,
  );
}
