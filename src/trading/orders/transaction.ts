import { confirmAuthority } from '../../audit/change.js';
import type { Clock } from '../../core/clock.js';
import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { DOLLAR, formatDollars, type Micros } from '../market/money.js';
import { lockAccount, openPaperAccount } from '../ledger/accounts.js';
import { assertWithinRisk } from '../risk/gate.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { fillOnPaper, writePending } from './execute.js';
import { requestHash } from './identity.js';
import { assertReachable, viewMarket } from './judge.js';
import type { OrderInput, PlacedOrder } from './order.js';
import { bookHash, withoutTaken } from './paper-book.js';
import { findTrade, readState, type AccountState } from './queries.js';
import { quoteOrder, worstCost } from '../market/quote.js';
import { toTrade } from './trade.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import type { OrderBook } from '../market/book.js';
import type { FeeRule } from '../market/fees.js';

interface TransactionDeps {
  snapshots: SnapshotStore;
  clock: Clock;
  paperCash: Micros;
}

/**
 * Judges an order and writes it, and for a paper order all that follows from it, in the transaction that `orm` is.
 * Everything is decided on what is read under the lock of the account's row; whoever comes meanwhile, on whatever
 * instance, sees what this one has written.
 * @throws AppError see `Orders.place`
 */
export async function judgeAndWrite(
  orm: Orm,
  input: OrderInput,
  { snapshots, clock, paperCash }: TransactionDeps,
): Promise<PlacedOrder> {
  const cash = await lockOrOpen(orm, input, { clock, paperCash });
  // Anew: while the order waited for its turn, time passed and the books have changed.
  const at = new Date(clock.now());
  // After the account's lock: orders that wait for it keep nobody from revoking their key.
  const tx = await confirmAuthority(orm, input.by, at);
  const view = viewMarket(snapshots, input, at.getTime());
  const state = await readState(tx, input, bookHash(view.book));
  if (state.existing) return (await findRepeat(tx, input))!;

  const isPaper = input.mode === 'paper';
  const book = isPaper ? withoutTaken(view.book, state.taken) : view.book;
  assertHeld(input, state);
  assertReachable(view.book, book, input);
  const available = cash - state.reserved;
  const cost = input.action === 'buy' ? costAtMost(input, view.feeRule, isPaper ? book : undefined) : 0n;
  const { market, snapshot } = view;
  await assertWithinRisk(tx, { order: input, market, book, snapshot, worstCost: cost, available, at });
  const outlay = outlayOf(input, cost, state);
  assertFunds(outlay, available);

  const accepted = { input, view, state, at };
  const trade = isPaper ? await fillOnPaper(tx, accepted, book) : await writePending(tx, accepted, outlay);
  return { trade, isRepeat: false };
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

/**
 * The trade that the key stands for, if there is one.
 * @throws AppError idempotency_conflict
 */
export async function findRepeat(orm: Orm, input: OrderInput): Promise<PlacedOrder | undefined> {
  const { orgId, idempotencyKey } = input;
  const found = await findTrade(orm, orgId, { idempotencyKey });
  if (!found) return undefined;
  if (found.order.requestHash !== requestHash(input))
    throw new AppError(
      'idempotency_conflict',
      'This idempotency key was used for another order. Send each order with a key of its own.',
    );
  return { trade: toTrade(found.order, found.fills), isRepeat: true };
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
  const pending = claimed > 0 ? `, beside ${claimed} that a pending order may take` : '';
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

/** What the order takes from the balance at the most. Whoever closes pairs is paid a dollar for each at once. */
function outlayOf(input: OrderInput, grossCost: Micros, state: AccountState): Micros {
  if (input.action === 'sell') return 0n;
  const pairs = Math.min(input.contracts, freeContracts(state, input.side === 'yes' ? 'no' : 'yes'));
  const outlay = grossCost - valueOf(DOLLAR, pairs);
  return outlay > 0n ? outlay : 0n;
}

function assertFunds(outlay: Micros, available: Micros): void {
  if (outlay === 0n || outlay <= available) return;
  throw new AppError(
    'insufficient_funds',
    `The order may take $${formatDollars(outlay)} at its limit price, fee included; $${formatDollars(available)} can be spent.`,
  );
}
