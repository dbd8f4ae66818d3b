import type { Tx } from '../../core/db/client.js';
import { newId } from '../market/ids.js';
import type { Micros } from '../market/money.js';
import { bookFills } from '../ledger/ledger.js';
import { MAX_TRADING_AGE_MS } from '../snapshot/snapshot.js';
import { clientOrderId, requestHash } from './identity.js';
import type { MarketView } from './judge.js';
import type { OrderInput, Trade } from './order.js';
import { addTaken, bookHash } from './paper-book.js';
import { labelOf } from '../market/market.js';
import { writeExecution, type AccountState, type OrderRow, type WrittenFill } from './queries.js';
import { quoteOrder } from '../market/quote.js';
import { toTrade } from './trade.js';
import { valueOf } from '../market/contracts.js';

/** An order that passed every check, with what was read for them under the account's lock. */
export interface AcceptedOrder {
  input: OrderInput;
  /** As the snapshot has it. */
  view: MarketView;
  state: AccountState;
  at: Date;
}

/** Twice as long as anybody may trade on a book, for clocks that differ. */
const FORGET_AFTER_MS = 2 * MAX_TRADING_AGE_MS;

/**
 * Fills a paper order from the book and books it.
 * @param book without what was taken from it
 */
export async function fillOnPaper(tx: Tx, accepted: AcceptedOrder, book: MarketView['book']): Promise<Trade> {
  const { input, view, state, at } = accepted;
  const quote = quoteOrder(book, view.feeRule, input);
  const { side, action } = input;
  const booked = bookFills(
    state.position,
    quote.fills.map(({ price, contracts, fee }) => ({ side, action, price, contracts, fee })),
  );
  const fills = quote.fills.map(({ price, contracts, fee }, i): WrittenFill => ({
    n: i + 1,
    price,
    contracts,
    fee,
    filledAt: at,
    venueFillId: null,
    ledgerId: newId(at.getTime()),
    postings: booked.postings[i]!,
  }));
  const { filledContracts, fees } = quote;
  const sign = action === 'buy' ? -1n : 1n;
  const gross = quote.fills.reduce((sum, fill) => sum + sign * valueOf(fill.price, fill.contracts), 0n);
  const order: OrderRow = {
    ...newOrder(accepted),
    ...outcomeOf(input, filledContracts),
    filledContracts,
    fees,
    exact: quote.exact,
    booked: gross - fees,
    finishedAt: at,
  };
  await writeExecution(tx, {
    order,
    isNew: true,
    fills,
    position: booked.position,
    cashChange: booked.cashChange,
    at,
    book: {
      hash: bookHash(view.book),
      taken: addTaken(state.taken, input, quote.fills),
      forgetBefore: new Date(at.getTime() - FORGET_AFTER_MS),
    },
  });
  return toTrade(
    order,
    fills.map((fill) => ({ ...fill, balanceChange: fill.postings.cash })),
  );
}

function outcomeOf(
  { contracts, timeInForce }: OrderInput,
  filled: number,
): Pick<OrderRow, 'status' | 'reason'> {
  if (filled === contracts) return { status: 'filled', reason: null };
  if (filled > 0)
    return {
      status: 'partially_filled',
      reason: `The book held ${filled} of ${contracts} contracts at the limit price or better; the rest was cancelled.`,
    };
  const reason =
    timeInForce === 'fill_or_kill'
      ? `The book does not hold all ${contracts} contracts at the limit price or better, and the order was to be filled whole or not at all.`
      : 'Nothing was filled.';
  return { status: 'cancelled', reason };
}

/** Persists a live order before it is sent: whatever happens from here on, it is known that it may be at the venue. */
export async function writePending(tx: Tx, accepted: AcceptedOrder, reserved: Micros): Promise<Trade> {
  const { at } = accepted;
  const order: OrderRow = {
    ...newOrder(accepted),
    status: 'pending',
    reason: 'Sent to the venue; its answer is not known yet.',
    reserved,
    sentAt: at,
  };
  await writeExecution(tx, {
    order,
    isNew: true,
    fills: [],
    position: undefined,
    cashChange: 0n,
    at,
  });
  return toTrade(order, []);
}

function newOrder({ input, view, at }: AcceptedOrder): Omit<OrderRow, 'status' | 'reason'> {
  const { orgId, mode, by, idempotencyKey, ticker, side, action, contracts, limitPrice, timeInForce } = input;
  const { market, feeRule, snapshot } = view;
  return {
    orgId,
    id: newId(at.getTime()),
    mode,
    idempotencyKey,
    requestHash: requestHash(input),
    clientOrderId: clientOrderId(input),
    venueOrderId: null,
    ticker,
    eventTicker: market.eventTicker,
    label: labelOf(market),
    seriesTicker: market.seriesTicker,
    side,
    action,
    contracts,
    limitPrice,
    timeInForce,
    filledContracts: 0,
    exact: 0n,
    booked: 0n,
    fees: 0n,
    reserved: 0n,
    feeRule: { type: feeRule.type, multiplier: String(feeRule.multiplier) },
    bookFetchedAt: snapshot.data.fetchedAt,
    apiKeyId: 'keyId' in by ? by.keyId : null,
    userId: 'userId' in by ? by.userId : null,
    createdAt: at,
    sentAt: null,
    finishedAt: null,
  };
}
