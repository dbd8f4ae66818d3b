import { v7 as uuid } from 'uuid';
import type { Database } from '../../core/db/client.js';
import { compareWithVenue, type Comparison, type OurOrder } from './compare.js';
import {
  findCash,
  findLiveAccount,
  listOpenPositions,
  listOrdersNamed,
  listOrdersSince,
  listPendingOrders,
  listSettledSince,
  readFingerprint,
  type LiveOrderRow,
} from './queries.js';
import type { Venue } from './venue.js';
import type { Micros } from '../market/money.js';

/** Orders and fills are compared this far back. */
const LOOK_BACK_MS = 24 * 60 * 60 * 1000;
/** An order near the edge may be within our day and not within the venue's. */
const EDGE_MS = 5 * 60 * 1000;
/** How long after the end of a market the venue may still show it. */
const SETTLING_MS = 2 * 60 * 60 * 1000;
const MAX_ORDERS = 20_000;
const MAX_POSITIONS = 5_000;
export const MAX_PENDING = 200;

/** Both sides at one moment. */
export interface Look extends Comparison {
  fingerprint: string;
  /** How exactly the venue has told its cash. */
  cashStep: Micros;
}

interface LookDeps {
  db: Database;
  venue: Venue;
  now: () => number;
}

/**
 * Compares with the venue.
 * @returns undefined where an order was open or something was booked while the venue answered: nothing can be said then
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function lookAtBoth(
  { db: { orm }, venue, now }: LookDeps,
  orgId: string,
  signal: AbortSignal,
): Promise<Look | undefined> {
  const isQuiet = async () => (await listPendingOrders(orm, orgId, 1)).length === 0;
  const fingerprint = await readFingerprint(orm, orgId);
  if (!(await isQuiet())) return undefined;
  const since = now() - LOOK_BACK_MS;
  const sinceSeconds = Math.floor(since / 1000);
  const cash = await venue.readBalance(signal);
  const positions = await venue.listPositions(signal);
  const orders = await venue.listOrders({ sinceSeconds }, signal);
  const fills = await venue.listFills({ sinceSeconds }, signal);

  const account = await findLiveAccount(orm, orgId);
  const recent = await listOrdersSince(orm, orgId, lowestId(since + EDGE_MS), MAX_ORDERS);
  const named = await listOrdersNamed(
    orm,
    orgId,
    orders.map(({ client_order_id: name }) => name),
  );
  const held = await listOpenPositions(orm, orgId, MAX_POSITIONS);
  const shown = new Set(positions.map(({ ticker }) => ticker));
  const gone = held.filter(({ ticker }) => !shown.has(ticker));
  const settlements = [];
  for (const { ticker } of gone) settlements.push(...(await venue.listSettlements(ticker, signal)));
  const settled = await listSettledSince(orm, orgId, new Date(now() - SETTLING_MS), MAX_POSITIONS);
  const ours = {
    cash: (await findCash(orm, orgId)) ?? 0n,
    positions: held,
    orders: distinct([...named, ...recent]),
    expected: new Set(recent.map(({ clientOrderId }) => clientOrderId)),
    foreignPositions: account?.foreignPositions ?? {},
    accepted: account?.accepted ?? [],
    settled,
  };
  if ((await readFingerprint(orm, orgId)) !== fingerprint || !(await isQuiet())) return undefined;
  return {
    ...compareWithVenue(ours, { cash, positions, orders, fills, settlements }),
    fingerprint,
    cashStep: cash.step,
  };
}

const distinct = (orders: LiveOrderRow[]): OurOrder[] => [
  ...new Map(orders.map((order) => [order.id, order])).values(),
];

/** The lowest UUIDv7 of a time. */
const lowestId = (ms: number): string => uuid({ msecs: ms, random: new Uint8Array(16), seq: 0 });
