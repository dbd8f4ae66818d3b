import type { OrderInput } from '../ledger/order-input.js';
import type { Clock } from '../../core/time.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { newId } from '../../core/ids.js';
import type { CancelCause, PrintsSeen } from '../ledger/orders-table.js';
import { lockAccount, openPaperAccount } from '../ledger/queries.js';
import { bookFills } from '../ledger/positions.js';
import { emptyBook, isCrossed, matchOrder, quoteOrder, type OrderBook } from '../market/book.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import { labelOf } from '../market/market.js';
import type { Micros } from '../market/money.js';
import { readKnownFacts } from '../risk/gate.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';
import type { SnapshotReads } from '../snapshot/snapshot.js';
import { assertTerms, requireTradable, type TradableMarket } from './tradable.js';
import { assertAllowed, type ArrivedOrder } from './allowed.js';
import { clientOrderId, requestHash, reserveAfter, toTrade, type PlacedOrder, type Trade } from './order.js';
import { gateOf } from './cancel-causes.js';
import { addTaken, bookHash, withoutTaken } from './paper-book.js';
import {
  describeUnresolved,
  findTrade,
  listUnresolved,
  readQueueCorrection,
  readState,
  writeExecution,
  type AccountState,
  type OrderRow,
  type WrittenFill,
} from './queries.js';
import { findNearExtreme } from '../signals/near-extreme.js';
import { aheadInAll, aheadOf, bidOf } from './queue.js';
import { notifyFilled } from './trade.js';
import { confirmAuthority } from '../../accounts/audit/audit.js';

interface AcceptedOrder {
  input: OrderInput;
  view: TradableMarket;
  state: AccountState;
  at: Date;
  sent: ArrivedOrder | undefined;
}

/** Twice the maximum age of a tradable book, to allow for clock skew. */
const FORGET_AFTER_MS = 2 * MAX_TRADING_AGE_MS;

/**
 * @param book minus the liquidity taken by earlier paper orders
 * @param outlay the maximum amount that the whole order can take from the balance
 */
async function fillOnPaper(
  tx: Tx,
  accepted: AcceptedOrder,
  { book, outlay }: { book: OrderBook; outlay: Micros },
): Promise<Trade> {
  const { input, view, state, at } = accepted;
  const { side, action, rest } = input;
  // If the price reached the limit while the order was in flight, the venue would reject a post-only order.
  const mayStand = rest && !(rest.postOnly && withinLimit(view.book, input) > 0);
  const quote = quoteOrder(rest?.postOnly ? emptyBook : book, view.feeRule, input);
  const booked = bookFills(
    state.position,
    quote.fills.map(({ price, contracts, fee }) => ({ side, action, price, contracts, fee })),
  );
  const nearExtreme = findNearExtreme(view.snapshot, view.market, at.getTime()) !== undefined;
  const fills = quote.fills.map(({ price, contracts, fee }, i): WrittenFill => ({
    n: i + 1,
    price,
    contracts,
    fee,
    filledAt: at,
    venueFillId: null,
    nearExtreme,
    ledgerId: newId(at.getTime()),
    postings: booked.postings[i]!,
  }));
  const { filledContracts, fees } = quote;
  const sign = action === 'buy' ? -1n : 1n;
  const gross = quote.fills.reduce((sum, fill) => sum + sign * valueOf(fill.price, fill.contracts), 0n);
  const written = {
    ...newOrder(accepted),
    filledContracts,
    fees,
    exact: quote.exact,
    booked: gross - fees,
  };
  const order: OrderRow =
    mayStand && filledContracts < input.contracts
      ? {
          ...written,
          ...restOf(accepted, { ...written, filledContracts: 0, reserved: outlay }, filledContracts),
          queueAhead: await estimateQueue(tx, accepted),
        }
      : { ...written, ...outcomeOf(accepted, filledContracts, withinLimit(book, input)), finishedAt: at };
  await writeExecution(tx, {
    order,
    isNew: true,
    filled: { ...booked, fills },
    at,
    book: {
      hash: bookHash(view.book),
      taken: addTaken(state.taken, input, quote.fills),
      forgetBefore: new Date(at.getTime() - FORGET_AFTER_MS),
    },
  });
  await notifyFilled(tx, order, fills, at, state.listeners);
  return toTrade(
    order,
    fills.map((fill) => ({ ...fill, balanceChange: fill.postings.cash })),
  );
}

function restOf(
  { at }: AcceptedOrder,
  order: Parameters<typeof reserveAfter>[0],
  filled: number,
): Pick<OrderRow, 'status' | 'reason' | 'reserved' | 'printsSeen'> {
  return {
    status: 'resting',
    reason: null,
    reserved: reserveAfter(order, filled),
    printsSeen: noPrints(at),
  };
}

/** Watermark of an order for which no print has counted yet; only prints after `at` can count. */
const noPrints = (at: Date): PrintsSeen => ({ at: new Date(at.getTime() + 1).toISOString(), counted: {} });

const aheadAtPrice = ({ input, view: { book, snapshot } }: AcceptedOrder): number | null =>
  aheadOf(book, snapshot.data.shallow?.has(input.ticker) ?? false, bidOf(input));

/** Estimates the queue ahead of a paper order, corrected by the Organization's experience with live orders. */
async function estimateQueue(tx: Tx, accepted: AcceptedOrder): Promise<number | null> {
  const atPrice = aheadAtPrice(accepted);
  if (!atPrice) return atPrice;
  const { factor } = await readQueueCorrection(tx, accepted.input.orgId, accepted.at);
  return Math.round(atPrice * factor * 100) / 100;
}

const withinLimit = (book: OrderBook, input: OrderInput): number =>
  matchOrder(book, { ...input, timeInForce: 'immediate_or_cancel' }).filledContracts;

function outcomeOf(
  { input: { contracts, timeInForce, rest }, sent }: AcceptedOrder,
  filled: number,
  within: number,
): Pick<OrderRow, 'status' | 'reason'> {
  if (filled === contracts) return { status: 'filled', reason: null };
  const gone = sent ? subtractCounts(sent.within, within) : 0;
  const missed =
    gone > 0
      ? `Of ${sent!.within} contracts that stood within the limit price when the order was sent, ${gone} were gone ${sent!.latencyMs} ms later, when it arrived. `
      : '';
  if (filled > 0)
    return {
      status: 'partially_filled',
      reason: `${missed}The book held ${filled} of ${contracts} contracts at the limit price or better; the rest was cancelled.`,
    };
  if (rest?.postOnly)
    return { status: 'cancelled', reason: 'The order is post-only and would have filled on arrival.' };
  const reason =
    timeInForce === 'fill_or_kill'
      ? `The book does not have all ${contracts} contracts at the limit price or better, and the order is fill or kill.`
      : 'Nothing was filled.';
  return { status: 'cancelled', reason: missed + reason };
}

/** Stores a live order before it is sent, so that a crash cannot lose an order that may have reached the venue. */
async function writePending(tx: Tx, accepted: AcceptedOrder, reserved: Micros): Promise<Trade> {
  const { input, view, at } = accepted;
  const order: OrderRow = {
    ...newOrder(accepted),
    status: 'pending',
    reason: 'Sent to the venue. Its response is not known yet.',
    reserved,
  };
  const { fills, filledContracts, fees } = quoteOrder(view.book, view.feeRule, input);
  const value = fills.reduce((sum, fill) => sum + valueOf(fill.price, fill.contracts), 0n);
  const atPrice = aheadAtPrice(accepted);
  const paperAhead = aheadInAll(view.book, bidOf(input), atPrice);
  await writeExecution(tx, {
    order,
    isNew: true,
    at,
    shadow: { contracts: filledContracts, value, fees },
    place: input.rest && { paperAhead, seen: { ...noPrints(at), atPrice } },
  });
  return toTrade(order, []);
}

const causesOf = ({ snapshot, market }: TradableMarket, rest: OrderInput['rest']): CancelCause[] =>
  (rest?.cancelOn ?? []).filter(
    (cause) => cause !== 'gate_closed' || gateOf(snapshot, market.ticker)?.isOpen,
  );

function newOrder({ input, view, at }: AcceptedOrder): Omit<OrderRow, 'status' | 'reason'> {
  const { orgId, mode, by, idempotencyKey, ticker, side, action, contracts, limitPrice, timeInForce, rest } =
    input;
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
    expiresAt: rest?.expiresAt ?? null,
    postOnly: rest?.postOnly ?? false,
    cancelOn: causesOf(view, rest),
    cancelRequestedAt: null,
    cancelReason: null,
    unknownSince: null,
    queueAhead: null,
    printsSeen: null,
    feeRule: { type: feeRule.type, multiplier: String(feeRule.multiplier) },
    bookFetchedAt: snapshot.data.fetchedAt,
    apiKeyId: 'keyId' in by ? by.keyId : null,
    userId: 'userId' in by ? by.userId : null,
    createdAt: at,
    sentAt: null,
    finishedAt: null,
  };
}

export interface TransactionDeps {
  snapshots: SnapshotReads;
  clock: Clock;
  paperCash: Micros;
}

/**
 * Checks and writes an order in the transaction `orm`, and fills it if it is a paper order. Every decision uses data
 * read under the account's row lock, so the next order sees the result on any instance.
 * @param sent set for a paper order that has arrived: contracts that have left the book since count as a miss, not a
 * refusal
 * @throws AppError see `Orders.place`
 */
export async function checkAndWrite(orm: Orm, input: OrderInput, deps: TransactionDeps, sent?: ArrivedOrder) {
  const checked = await check(orm, input, deps, sent);
  if ('isRepeat' in checked) return checked;
  const { tx, accepted, book, outlay } = checked;
  const trade =
    input.mode === 'paper'
      ? await fillOnPaper(tx, accepted, { book, outlay })
      : await writePending(tx, accepted, outlay);
  return { trade, isRepeat: false };
}

export async function checkAndSend(orm: Orm, input: OrderInput, deps: TransactionDeps, latencyMs: number) {
  const checked = await check(orm, input, deps, undefined);
  if ('isRepeat' in checked) return checked;
  const { book } = checked;
  return { latencyMs, book, within: withinLimit(book, input) };
}

/** `book` is, for a paper order, minus the liquidity taken by earlier paper orders. */
async function check(orm: Orm, input: OrderInput, deps: TransactionDeps, sent: ArrivedOrder | undefined) {
  const { snapshots, clock } = deps;
  const cash = await lockOrOpen(orm, input, deps);
  // Read again, because time has passed and books have changed while the order waited.
  const at = new Date(clock.now());
  // Confirmed after taking the account's lock, so that waiting orders do not block the revocation of their key.
  const tx = await confirmAuthority(orm, input.by, at);
  const view = requireTradable(snapshots, input, at.getTime());
  const state = await readState(tx, input, bookHash(view.book));
  if (state.existing) return (await findRepeat(tx, input))!;
  assertTerms(input, at.getTime());

  const book = input.mode === 'paper' ? withoutTaken(view.book, state.taken) : view.book;
  const facts = await readKnownFacts(tx, { orgId: input.orgId, mode: input.mode, at });
  const outlay = assertAllowed(input, { view, state, book, cash, facts, at, sent });
  if (input.mode === 'live') await assertResolved(tx, input, at);
  // A crossed book is not a reliable view of the contracts available.
  const matched = sent && isCrossed(view.book) ? emptyBook : book;
  return { tx, accepted: { input, view, state, at, sent }, book: matched, outlay };
}

/**
 * Refuses an order in a market where the outcome of an earlier order has been lost. If the response to an earlier order
 * is merely awaited, the new order is delayed when it is sent.
 * @throws AppError unavailable
 */
async function assertResolved(tx: Tx, { orgId, ticker }: OrderInput, at: Date): Promise<void> {
  const [first] = await listUnresolved(tx, orgId, { ticker, at, limit: 1 });
  if (!first?.isLost) return;
  const detail = `No order is sent now: ${describeUnresolved(first)}.`;
  throw new AppError('unavailable', detail, { retryAfterSeconds: 5 });
}

async function lockOrOpen(
  tx: Orm,
  { orgId, mode }: OrderInput,
  { clock, paperCash }: Pick<TransactionDeps, 'clock' | 'paperCash'>,
): Promise<Micros> {
  const cash = await lockAccount(tx, { orgId, mode });
  if (cash !== undefined) return cash;
  if (mode === 'live')
    throw new AppError('unavailable', 'The live account has not been compared with the venue yet.', {
      retryAfterSeconds: 5,
    });
  await openPaperAccount(tx, { orgId, cash: paperCash, at: new Date(clock.now()) });
  return (await lockAccount(tx, { orgId, mode }))!;
}

export async function findRepeat(orm: Orm, input: OrderInput): Promise<PlacedOrder | undefined> {
  const { orgId, idempotencyKey } = input;
  const found = await findTrade(orm, orgId, { idempotencyKey });
  if (!found) return undefined;
  if (found.order.requestHash !== requestHash(input))
    throw new AppError(
      'idempotency_conflict',
      'This idempotency key was used for another order. Use a new key for each order.',
    );
  return { trade: toTrade(found.order, found.fills), isRepeat: true };
}
