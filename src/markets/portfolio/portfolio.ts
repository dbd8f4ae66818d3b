import type { WorkContext } from '../../core/http/context.js';
import { groupBy } from '../../core/collections.js';
import type { Orm } from '../../core/db/client.js';
import { inSnapshot } from '../../core/db/sql.js';
import { expectedPayout } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { TradeMode } from '../ledger/orders-table.js';
import type { Snapshot, SnapshotStore } from '../snapshot/snapshot.js';
import { findAccount, openPaperAccount } from '../ledger/queries.js';
import { MAX_OPEN_ORDERS } from './order-queries.js';
import { nameMarket } from '../market/market-name.js';
import {
  listLastSettlementEvents,
  listOpenPositions,
  listOpenOrders,
  sumPositions,
  sumReserved,
  sumTransfers,
  type LastSettlementEvent,
  type PositionRow,
} from './queries.js';
import { eventOutcomes, markPosition, sumKnown, type Quotes } from '../ledger/valuation.js';
import { perContract } from '../market/contracts.js';
import { feeRuleOf } from '../market/fees.js';

export interface PortfolioDeps extends Pick<WorkContext, 'db' | 'clock'> {
  snapshots: SnapshotStore;
  paperCash: Micros;
}

/** Several times the markets that a venue lists at one time. */
export const MAX_POSITIONS = 500;

export type ValuedPosition = ReturnType<typeof valuePosition>;

/** Amounts in millionths of a dollar; profits are positive. */
export type Portfolio = ReturnType<typeof valuePortfolio>;

/** The first read opens a paper account. Live accounts open with the venue's cash. */
export async function readPortfolio(
  { db, clock, snapshots, paperCash }: PortfolioDeps,
  orgId: string,
  mode: TradeMode,
): Promise<Portfolio> {
  let booked = await readBooked(db.orm, orgId, mode);
  if (!booked.account && mode === 'paper') {
    await openPaperAccount(db.orm, { orgId, cash: paperCash, at: new Date(clock.now()) });
    booked = await readBooked(db.orm, orgId, mode);
  }
  return valuePortfolio(mode, booked, snapshots.current);
}

export type AccountBook = Awaited<ReturnType<typeof readBooked>>;

/** One snapshot, so that cash spent by a fill never appears next to the position from before the fill. */
const readBooked = (orm: Orm, orgId: string, mode: TradeMode) =>
  inSnapshot(orm, async (tx) => {
    const account = await findAccount(tx, { orgId, mode });
    const sums = await sumPositions(tx, orgId, mode);
    const transfers = mode === 'live' ? await sumTransfers(tx, orgId, mode) : 0n;
    const positions = await listOpenPositions(tx, orgId, mode, MAX_POSITIONS + 1);
    const pending = await sumReserved(tx, orgId, mode);
    const openOrders = pending.count > 0 ? await listOpenOrders(tx, orgId, mode, MAX_OPEN_ORDERS) : [];
    const tickers = positions.map(({ ticker }) => ticker);
    const lastEvents = await listLastSettlementEvents(tx, orgId, mode, tickers);
    return { account, sums, transfers, positions, pending, openOrders, lastEvents };
  });

export function valuePortfolio(mode: TradeMode, booked: AccountBook, snapshot: Snapshot | undefined) {
  const { account, sums, transfers, pending, openOrders } = booked;
  const events = new Map(booked.lastEvents.map((event) => [event.ticker, event]));
  const positions = booked.positions
    .slice(0, MAX_POSITIONS)
    .map((row) => valuePosition(row, snapshot, events.get(row.ticker)))
    .sort(inLadderOrder(snapshot));
  const cash = account?.cash ?? 0n;
  const liquidation = sumKnown(positions.map(({ mark }) => mark.value));
  return {
    mode,
    /** Null for a live account that has never been used. */
    openedAt: account?.openedAt ?? null,
    cash,
    reserved: pending.reserved,
    /** Withdrawals are deducted. The ledger's five accounts sum to zero. */
    deposits: cash + sums.cost + sums.fees - sums.realised - transfers,
    /** From the venue's other exchange shards, where money cannot be spent here. */
    transfers,
    cost: sums.cost,
    /** Null if something is held and there is no market data. */
    liquidation,
    equity: liquidation === null ? null : cash + liquidation,
    realised: sums.realised,
    unrealised: liquidation === null ? null : liquidation - sums.cost,
    fees: sums.fees,
    markets: sums.markets,
    /** By event, from cold to warm. */
    positions,
    /** The value of omitted positions counts as zero. */
    isCut: booked.positions.length > MAX_POSITIONS,
    events: groupOutcomes(positions, snapshot),
    openOrders,
    openOrderCount: pending.count,
  };
}

function valuePosition(
  row: PositionRow,
  snapshot: Snapshot | undefined,
  event: LastSettlementEvent | undefined,
) {
  const market = snapshot?.markets.get(row.ticker);
  const quotes: Quotes | undefined = snapshot && {
    market,
    book: snapshot.data.books.get(row.ticker),
    feeRule: market && feeRuleOf(snapshot.data, market),
    knownValue: (market && expectedPayout(market)) ?? event?.value ?? null,
  };
  const mark = markPosition(row, quotes);
  const name = nameMarket(row.ticker, market, row.label);
  const settlement = settlementOf(market, event);
  return {
    ...row,
    ...name,
    eventTicker: row.eventTicker,
    /** Average, rounded down to a millionth of a dollar. */
    averagePrice: perContract(row.cost, row.contracts),
    mark,
    unrealised: mark.value === null ? null : mark.value - row.cost,
    settlement: settlement && { ...settlement, source: name.source },
  };
}

/** The snapshot is newer, but the recorded event outlasts the market's listing. */
function settlementOf(
  market: { status: string; settlementValue: Micros | null; settledTemperature: number | null } | undefined,
  event: LastSettlementEvent | undefined,
) {
  if (market && market.settlementValue !== null)
    return { state: market.status, value: market.settlementValue, temperature: market.settledTemperature };
  return event ? { state: event.state, value: event.value, temperature: event.temperature } : null;
}

/** Unlisted markets come last, by ticker. */
function inLadderOrder(snapshot: Snapshot | undefined) {
  const places = new Map([...(snapshot?.markets.keys() ?? [])].map((ticker, place) => [ticker, place]));
  const placeOf = ({ ticker }: PositionRow) => places.get(ticker) ?? places.size;
  return (a: PositionRow, b: PositionRow): number => placeOf(a) - placeOf(b);
}

function groupOutcomes(positions: readonly ValuedPosition[], snapshot: Snapshot | undefined) {
  const listed = new Map(snapshot?.events.map((event) => [event.eventTicker, event]));
  return [...groupBy(positions, ({ eventTicker }) => eventTicker)].map(([eventTicker, held]) =>
    eventOutcomes(eventTicker, held, listed.get(eventTicker)),
  );
}
