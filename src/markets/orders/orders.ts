import { setTimeout as sleep } from 'node:timers/promises';
import { eq } from 'drizzle-orm';
import type { OrderInput } from '../ledger/order-input.js';
import { sqlState, UNIQUE_VIOLATION, type Orm } from '../../core/db/client.js';
import { AppError, type ErrorCode } from '../../core/errors.js';
import { cutPage } from '../../core/http/page.js';
import type { WorkContext } from '../../core/http/context.js';
import { organizations } from '../../accounts/organizations/table.js';
import { feeRuleOf } from '../market/fees.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { assertTerms, requireTradable } from './tradable.js';
import { createOrderChanges } from './change-order.js';
import {
  toTrade,
  type LiveExecutor,
  type Orders,
  type PlacedOrder,
  type Trade,
  type VenueOutcome,
} from './order.js';
import { findTrade, listFills, listOrders, type ListFilter } from './queries.js';
import { previewOrder } from './preview.js';
import { recordOutcome } from './record-outcome.js';
import type { RestingOrders } from './resting.js';
import { checkAndSend, checkAndWrite, findRepeat } from './transaction.js';
import { createTurns } from './turns.js';

const MAX_WAITING = 5_000;
const MAX_WAIT_MS = 10_000;

/** These prove that the order is no repeat: its key is new, or the sender may no longer see the order. */
const refusalsOfNewOrders = new Set<ErrorCode>([
  'not_signed_in',
  'forbidden_role',
  'invalid_key',
  'key_revoked',
  'key_expired',
  'insufficient_scope',
  'idempotency_conflict',
  'insufficient_position',
  'price_moved',
  'entitlement_required',
  'entitlement_read_only',
  'risk_limit',
  'insufficient_funds',
]);

/**
 * True if the failed order may already exist and should be returned instead. Paper and live orders lock different rows
 * but share idempotency keys, so two orders with one key may collide on the unique index.
 */
const mayBeRepeat = (error: unknown): boolean =>
  error instanceof AppError ? !refusalsOfNewOrders.has(error.code) : sqlState(error) === UNIQUE_VIOLATION;

interface OrdersDeps {
  snapshots: SnapshotStore;
  live: LiveExecutor | undefined;
  resting: Pick<RestingOrders, 'advance'>;
  /** Simulates a paper order's latency; sleeps by default. */
  onTheWay?: ((ms: number) => Promise<void>) | undefined;
}

export function createOrders(
  context: WorkContext,
  { snapshots, live, resting, onTheWay = (ms) => sleep(ms) }: OrdersDeps,
): Orders {
  const { db, clock, config, log, metrics } = context;
  const turns = createTurns({
    clock,
    parallel: db.parallelTransactions,
    maxWaiting: MAX_WAITING,
    maxWaitMs: MAX_WAIT_MS,
  });
  const inTurn = <T>({ orgId, mode }: Pick<OrderInput, 'orgId' | 'mode'>, work: () => Promise<T>) =>
    turns.take(`${mode} ${orgId}`, work);
  const { paperCash, paperLatencyMs } = config.trading;
  const deps = { snapshots, clock, paperCash };
  const changes = createOrderChanges({ db, clock, log, live, resting, inTurn });

  async function place(input: OrderInput): Promise<PlacedOrder> {
    const placed = await checkAndPlace(input).catch(async (error: unknown) => {
      const repeat = mayBeRepeat(error) ? await findRepeat(db.orm, input) : undefined;
      if (repeat) return repeat;
      throw error;
    });
    const isSent = input.mode === 'paper' || placed.isRepeat;
    return isSent ? placed : { trade: await send(placed.trade), isRepeat: false };
  }

  async function placeAndCount(input: OrderInput): Promise<PlacedOrder> {
    const { mode } = input;
    try {
      const placed = await place(input);
      metrics.orders.inc({ mode, outcome: placed.isRepeat ? 'repeat' : placed.trade.status });
      return placed;
    } catch (error) {
      metrics.orders.inc({ mode, outcome: error instanceof AppError ? error.code : 'failed' });
      throw error;
    }
  }

  async function checkAndPlace(input: OrderInput): Promise<PlacedOrder> {
    if (input.mode === 'live') await assertLive(context, live, input.orgId);
    assertTerms(input, clock.now());
    // Checked before queueing, because an order in an untradable market needs no turn.
    requireTradable(snapshots, input, clock.now());
    await changes.makeRoom(input, deps);
    const decide = <T>(work: (tx: Orm) => Promise<T>) => inTurn(input, () => db.transaction(work));
    if (input.mode === 'live' || paperLatencyMs === 0) return decide((tx) => checkAndWrite(tx, input, deps));
    const sent = await decide((tx) => checkAndSend(tx, input, deps, paperLatencyMs));
    if ('isRepeat' in sent) return sent;
    await onTheWay(paperLatencyMs);
    return decide((tx) => checkAndWrite(tx, input, deps, sent));
  }

  async function send(trade: Trade): Promise<Trade> {
    let outcome: VenueOutcome;
    try {
      outcome = await live!.send({ ...trade, feeRule: feeRuleOf(snapshots.current!.data, trade)! });
    } catch (error) {
      log.error({ err: error, orderId: trade.id }, 'a live order was sent, but its outcome is unknown');
      outcome = {
        kind: 'unknown',
        reason: 'The outcome of the order is unknown. Gauge is looking it up at the venue.',
      };
    }
    return recordOutcome(db.orm, trade.orgId, trade.id, outcome, new Date(clock.now()));
  }

  return {
    place: placeAndCount,
    preview: (input, current) =>
      previewOrder(db.orm, input, { ...deps, snapshots: { current, sources: snapshots.sources } }),
    ...changes,
    list: (filter) => listTrades(db.orm, filter),
    async find(orgId, id) {
      const found = await findTrade(db.orm, orgId, { id });
      return found && toTrade(found.order, found.fills);
    },
  };
}

/** @throws AppError live_trading_disabled, unavailable */
async function assertLive({ db, config }: WorkContext, live: LiveExecutor | undefined, orgId: string) {
  const { liveOrg } = config.trading;
  if (!live || liveOrg === undefined)
    throw new AppError('live_trading_disabled', 'Live trading is off on this server.');
  const { id, slug } = organizations;
  const [organization] = await db.orm.select({ slug }).from(organizations).where(eq(id, orgId));
  if (organization?.slug !== liveOrg)
    throw new AppError('live_trading_disabled', 'This Organization cannot trade live on this server.');
  live.assertOpen();
}

async function listTrades(orm: Orm, { limit, ...filter }: ListFilter) {
  const found = await listOrders(orm, { ...filter, limit: limit + 1 });
  const { page, nextCursor = null } = cutPage(found, limit, ({ id }) => id);
  const ids = page.map(({ id }) => id);
  const fills = ids.length === 0 ? [] : await listFills(orm, filter.orgId, ids);
  const trades = page.map((order) =>
    toTrade(
      order,
      fills.filter(({ orderId }) => orderId === order.id),
    ),
  );
  return { trades, nextCursor };
}
