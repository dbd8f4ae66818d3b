import type { z } from 'zod';
import { CENT, DOLLAR, formatDollars, parseDollars, type Micros } from '../market/money.js';
import type { ShardTransfer, VenueFillAnswer, VenueOrder, VenuePosition, VenueSettlement } from './wire.js';
import {
  formatContracts,
  formatHundredths,
  parseCount,
  parseHundredths,
  toHundredths,
  valueOf,
} from '../market/contracts.js';
import type { LiveOrderRow } from './queries.js';
import type { VenueCash, ShardBalance } from './venue.js';
import type { differenceSchema } from './schema.js';

export interface AccountComparison extends ReturnType<typeof compareWithVenue> {
  fingerprint: string;
  /** Set if a row of the venue's lists cannot be read, or a list ended early. The differences are then not certain. */
  gap: Error | undefined;
  cashStep: Micros;
  otherShards: readonly ShardBalance[];
}

/** Values are strings: a count, an amount or a state. */
export type LiveDifference = z.infer<typeof differenceSchema>;

export type OurOrder = Pick<
  LiveOrderRow,
  'clientOrderId' | 'venueOrderId' | 'status' | 'contracts' | 'filledContracts' | 'reserved'
>;

export interface Ours {
  cash: Micros;
  positions: readonly { ticker: string; side: 'yes' | 'no'; contracts: number }[];
  /** Matched by client order id. Includes at least every order that the venue lists. */
  orders: readonly OurOrder[];
  /** Client order ids that the venue must list: placed well within the period that its list covers. */
  expected: ReadonlySet<string>;
  /** Hundredths; see `liveAccounts`. */
  foreignPositions: Readonly<Record<string, number>>;
  accepted: readonly string[];
  settled: readonly { ticker: string; side: 'yes' | 'no'; contracts: number; cashChange: Micros }[];
}

export interface Venues {
  cash: VenueCash;
  positions: readonly VenuePosition[];
  orders: readonly VenueOrder[];
  fills: readonly VenueFillAnswer[];
  /** Only markets that we hold and that the venue no longer shows. */
  settlements: readonly VenueSettlement[];
  transfers: readonly ShardTransfer[];
}

const SHOWN = 100;

export const keyOf = ({ subject, ours, venues }: LiveDifference): string => `${subject} ${ours} ${venues}`;

/** Pure; the caller ensures that nothing changed during the reads. */
export function compareWithVenue(ours: Ours, venues: Venues) {
  const orders = compareOrders(ours, venues);
  const positions = comparePositions(ours, venues);
  const transfers = sumTransfers(venues.transfers);
  const expectedCash = ours.cash + positions.expectedCash + transfers.complete;
  const cashDifference = differenceOf(venues.cash.amount - expectedCash, {
    least: transfers.leaving - orders.held,
    most: transfers.coming,
  });
  const isSame = cashDifference > -venues.cash.step && cashDifference < venues.cash.step;
  const cash: LiveDifference[] = isSame
    ? []
    : [
        {
          kind: 'cash',
          subject: 'cash',
          ours: formatDollars(venues.cash.amount - cashDifference),
          venues: formatDollars(venues.cash.amount),
        },
      ];
  const accepted = new Set(ours.accepted);
  return {
    differences: [
      ...orders.differences.filter((one) => !accepted.has(keyOf(one))),
      ...positions.differences,
      ...cash,
    ],
    settling: positions.settling,
    /** The part that pending settlements, resting orders and transfers do not explain. */
    cashDifference,
    transfers: venues.transfers.filter(({ isPending }) => !isPending),
    /** In hundredths, assuming that the venue is right. */
    foreignPositions: positions.foreignPositions,
    /** In a different state at the venue; looked up. */
    late: orders.late,
    /** Rest in our ledger and are unknown to the venue. */
    lost: orders.lost,
    foreign: { ...orders.foreign, positions: positions.foreign },
  };
}

/**
 * The venue deducts what resting orders may take, by its own calculation, and may already count a pending transfer: any
 * difference from `least` to `most` is acceptable.
 */
const differenceOf = (difference: Micros, { least, most }: { least: Micros; most: Micros }): Micros =>
  difference > most ? difference - most : difference < least ? difference - least : 0n;

function sumTransfers(transfers: readonly ShardTransfer[]) {
  const sum = (isWanted: (transfer: ShardTransfer) => boolean) =>
    transfers.filter(isWanted).reduce((total, { change }) => total + change, 0n);
  return {
    complete: sum(({ isPending }) => !isPending),
    leaving: sum(({ isPending, change }) => isPending && change < 0n),
    coming: sum(({ isPending, change }) => isPending && change > 0n),
  };
}

function compareOrders({ orders, expected }: Ours, venues: Venues) {
  const byName = new Map(orders.map((order) => [order.clientOrderId, order]));
  const differences: LiveDifference[] = [];
  const late: string[] = [];
  const lost: string[] = [];
  const filledByOrder = new Map<string, number>();
  for (const { order_id: id, count_fp: count } of venues.fills)
    filledByOrder.set(id, (filledByOrder.get(id) ?? 0) + parseHundredths(count));
  const seen = new Set<string>();
  const ourVenueIds = new Set<string>();
  let held = 0n;
  for (const wire of venues.orders) {
    const order = byName.get(wire.client_order_id);
    if (wire.status === 'resting') held += order?.reserved ?? maxHoldOf(wire);
    if (!order) continue;
    seen.add(order.clientOrderId);
    ourVenueIds.add(wire.order_id);
    const filled = toHundredths(order.filledContracts);
    const theirs = Math.max(parseHundredths(wire.fill_count_fp), filledByOrder.get(wire.order_id) ?? 0);
    const rests = wire.status === 'resting';
    const left = rests ? parseHundredths(wire.remaining_count_fp) : 0;
    const ourLeft = order.status === 'resting' ? toHundredths(order.contracts) - filled : 0;
    if (rests === (order.status === 'resting') && theirs === filled && left === ourLeft) continue;
    if (theirs > filled || rests || order.status === 'resting') late.push(order.clientOrderId);
    differences.push({
      kind: rests || order.status === 'resting' ? 'order' : 'fill',
      subject: wire.order_id,
      ours: describe(order.status, filled, ourLeft),
      venues: describe(wire.status, theirs, left),
    });
  }
  for (const order of orders) {
    if (order.venueOrderId) ourVenueIds.add(order.venueOrderId);
    const mustBeListed = order.status === 'resting' || expected.has(order.clientOrderId);
    if (!mustBeListed || seen.has(order.clientOrderId) || !order.venueOrderId) continue;
    if (order.status === 'resting') lost.push(order.clientOrderId);
    differences.push({
      kind: 'order',
      subject: order.venueOrderId,
      ours: `${order.status}, ${formatContracts(order.filledContracts)} filled`,
      venues: 'not listed',
    });
  }
  return {
    differences,
    late: [...late, ...lost],
    lost,
    held,
    foreign: listForeign(venues, byName, ourVenueIds),
  };
}

const describe = (status: string, filled: number, left: number): string =>
  `${status}, ${formatHundredths(filled)} filled${left > 0 ? `, ${formatHundredths(left)} left` : ''}`;

/** We know neither the order's side nor what it closes. */
const maxHoldOf = ({ remaining_count_fp: count }: VenueOrder): Micros => valueOf(DOLLAR, parseCount(count));

function listForeign(venues: Venues, byName: Map<string, OurOrder>, ourVenueIds: Set<string>) {
  const newestFirst = <T extends { created_time?: string | null | undefined }>(rows: T[]) =>
    rows.sort((a, b) => ((a.created_time ?? '') < (b.created_time ?? '') ? 1 : -1)).slice(0, SHOWN);
  const dateOf = (time: string | null | undefined) => (time ? new Date(time) : null);
  return {
    orders: newestFirst(venues.orders.filter((wire) => !byName.has(wire.client_order_id))).map((wire) => ({
      venueOrderId: wire.order_id,
      clientOrderId: wire.client_order_id,
      ticker: wire.ticker,
      status: wire.status,
      filled: wire.fill_count_fp,
      initial: wire.initial_count_fp,
      createdAt: dateOf(wire.created_time),
    })),
    fills: newestFirst(venues.fills.filter(({ order_id: id }) => !ourVenueIds.has(id))).map((wire) => ({
      venueFillId: wire.fill_id,
      venueOrderId: wire.order_id,
      ticker: wire.ticker,
      contracts: wire.count_fp,
      yesPrice: parseDollars(wire.yes_price_dollars),
      filledAt: dateOf(wire.created_time),
    })),
  };
}

const signed = ({ side, contracts }: { side: 'yes' | 'no'; contracts: number }): number =>
  toHundredths(side === 'yes' ? contracts : -contracts);

/** The sides drop a settled market at different times, which is no difference; the expected cash covers its payout. */
function comparePositions(ours: Ours, venues: Venues) {
  const held = new Map(ours.positions.map((position) => [position.ticker, signed(position)]));
  const shown = new Map(venues.positions.map((one) => [one.ticker, parseHundredths(one.position_fp)]));
  const settledHere = new Map(ours.settled.map((one) => [one.ticker, one]));
  const settledThere = new Map(venues.settlements.map((one) => [one.ticker, one]));
  const differences: LiveDifference[] = [];
  const settling: string[] = [];
  /** Positive for YES, negative for NO. */
  const foreign: { ticker: string; contracts: string }[] = [];
  const foreignPositions: Record<string, number> = {};
  let expectedCash = 0n;
  const tickers = new Set([...held.keys(), ...shown.keys(), ...Object.keys(ours.foreignPositions)]);
  for (const ticker of [...tickers].sort()) {
    const [mine, theirs] = [held.get(ticker) ?? 0, shown.get(ticker) ?? 0];
    const others = ours.foreignPositions[ticker] ?? 0;
    if (theirs - mine !== 0) foreignPositions[ticker] = theirs - mine;
    if (others !== 0) foreign.push({ ticker, contracts: formatHundredths(others) });
    // Others have closed theirs in a market where we hold nothing: only the cash can differ.
    if (mine + others === theirs || (mine === 0 && theirs === 0)) continue;
    const paidThere = settledThere.get(ticker);
    if (mine !== 0 && theirs === 0 && paidThere) {
      settling.push(ticker);
      // Fractional contracts have fractional cents.
      expectedCash += BigInt(Math.round(paidThere.revenue * Number(CENT)));
      delete foreignPositions[ticker];
      continue;
    }
    const paidHere = settledHere.get(ticker);
    if (paidHere && mine === 0 && others + signed(paidHere) === theirs) {
      settling.push(ticker);
      expectedCash -= paidHere.cashChange;
      delete foreignPositions[ticker];
      continue;
    }
    differences.push({
      kind: 'position',
      subject: ticker,
      ours: formatHundredths(mine + others),
      venues: formatHundredths(theirs),
    });
  }
  return { differences, settling, expectedCash, foreign: foreign.slice(0, SHOWN), foreignPositions };
}
