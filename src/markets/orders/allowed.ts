import { AppError } from '../../core/errors.js';
import type { OrderInput } from '../ledger/order-input.js';
import { otherSide, quoteOrder, worstCost, type OrderBook } from '../market/book.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import type { FeeRule } from '../market/fees.js';
import { DOLLAR, formatDollars, type Micros } from '../market/money.js';
import type { RiskFacts } from '../risk/facts.js';
import { assertWithinRisk } from '../risk/gate.js';
import type { AccountState } from './queries.js';
import { assertReachable, type TradableMarket } from './tradable.js';

/** A paper order that passed every check and has been on its way since. */
export interface ArrivedOrder {
  latencyMs: number;
  /** What it was checked on, without what was taken from it. */
  book: OrderBook;
  /** What stood there for it. */
  within: number;
}

/** All that an order is checked on beside its own numbers. */
export interface Grounds {
  view: TradableMarket;
  state: AccountState;
  /** For a paper order without what was taken from it. */
  book: OrderBook;
  cash: Micros;
  /** Undefined where they cannot be read. */
  facts: RiskFacts | undefined;
  at: Date;
  /** Of one that has arrived: its price was checked when it was sent. */
  sent?: ArrivedOrder | undefined;
}

/**
 * Every check of an order in a market that can be traded. Reads and writes nothing, so an order that is only looked at is
 * checked as one that is placed.
 * @returns what the order takes from the balance at the most
 * @throws AppError insufficient_position, price_moved, entitlement_required, entitlement_read_only, risk_limit, insufficient_funds
 */
export function assertAllowed(
  input: OrderInput,
  { view, state, book, cash, facts, at, sent }: Grounds,
): Micros {
  assertHeld(input, state);
  if (!sent) assertReachable(view.book, book, input);
  const available = cash - state.reserved;
  const filledFrom = input.mode === 'paper' ? book : undefined;
  const cost = input.action === 'buy' ? costAtMost(input, view.feeRule, filledFrom) : 0n;
  const { market, snapshot } = view;
  const priced = sent?.book ?? book;
  assertWithinRisk({ order: input, market, book: priced, snapshot, worstCost: cost, available, at }, facts);
  const outlay = outlayOf(input, cost, state);
  assertFunds(outlay, available);
  return outlay;
}

/** What of a side is held and not claimed by an order that is still out. */
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
  const pending = claimed > 0 ? `, beside ${claimed} that an open order may take` : '';
  throw new AppError(
    'insufficient_position',
    `${contracts} ${side.toUpperCase()} of ${ticker} are to be sold and ${free} are held${pending}.`,
  );
}

/**
 * What a purchase costs at the most. Many small fills cost more than one: where a price has parts of a hundredth of a cent each is rounded by
 * itself, so a paper order, whose fills are known, counts as what they cost.
 */
function costAtMost(input: OrderInput, feeRule: FeeRule, book: OrderBook | undefined): Micros {
  const worst = worstCost(feeRule, input);
  const filled = book ? -quoteOrder(book, feeRule, input).balanceChange : 0n;
  return filled > worst ? filled : worst;
}

/** What the order takes from the balance at the most. Closed pairs pay a dollar each at once. */
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
    `The order may cost $${formatDollars(outlay)} at its limit price, fee included; $${formatDollars(available)} can be spent.`,
  );
}
