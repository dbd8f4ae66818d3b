import type { Request } from 'express';
import type { Context } from '../core/http/context.js';
import type { OwnValues } from '../core/reference/own-examples.js';
import { listActivePrefixes } from '../accounts/api-keys/queries.js';
import { listProductsInEffect } from '../metering/entitlements/queries.js';
import type { ReadSession } from '../accounts/identity/session/session.js';
import { CENT, formatDollars } from '../markets/market/money.js';
import { listOrders, findNewestResting } from '../markets/orders/queries.js';
import { listByOwner } from '../metering/reservations/reservations.js';
import type { SnapshotStore } from '../markets/snapshot/snapshot.js';

interface OwnValuesDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  readSession: ReadSession;
  snapshots: SnapshotStore | undefined;
}

const MAX_PRODUCTS = 20;
const HALF_A_DOLLAR = 500_000n;
/** Margin above the best offer, which may be too small. */
const ROOM = 10n * CENT;

/** Undefined for non-members, and if the values cannot be read: the pages must work without the database. */
export function createOwnValuesReader(deps: OwnValuesDeps): (req: Request) => Promise<OwnValues | undefined> {
  return async (req) => {
    try {
      const session = await deps.readSession(req);
      if (!session || session.orgId === null || session.isArchived || session.lacksSecondFactor)
        return undefined;
      return await readOwnValues(deps, session.orgId);
    } catch (error) {
      deps.log.warn({ err: error }, "the reader's own values could not be loaded for the documentation");
      return undefined;
    }
  };
}

async function readOwnValues({ db, clock, snapshots }: OwnValuesDeps, orgId: string): Promise<OwnValues> {
  const now = new Date(clock.now());
  const [products, prefixes, orders, resting, held] = await Promise.all([
    listProductsInEffect(db.orm, orgId, { now, limit: MAX_PRODUCTS }),
    listActivePrefixes(db.orm, orgId, now),
    listOrders(db.orm, { orgId, limit: 1 }),
    findNewestResting(db.orm, orgId),
    listByOwner(db, { orgId, livemode: true }, { limit: 1, status: 'held' }, clock.now()),
  ]);
  return {
    now,
    liveProducts: products.filter(({ kind }) => kind === 'live'),
    readOnlyProducts: products.filter(({ kind }) => kind === 'read_only'),
    prefixes: {
      live: prefixes.find(({ livemode }) => livemode)?.prefix,
      test: prefixes.find(({ livemode }) => !livemode)?.prefix,
    },
    market: snapshots && findMarket(snapshots, now),
    tradeId: orders[0]?.id,
    restingId: resting?.id,
    reservation: held[0],
  };
}

/** The market priced closest to half a dollar: an order for it fits into any account. */
function findMarket(snapshots: SnapshotStore, now: Date): OwnValues['market'] {
  let best: { ticker: string; ask: bigint; apart: bigint } | undefined;
  for (const { ticker, status, yesAsk, closeTime } of snapshots.current?.markets.values() ?? []) {
    if (status !== 'active' || yesAsk === null || closeTime <= now) continue;
    const apart = yesAsk > HALF_A_DOLLAR ? yesAsk - HALF_A_DOLLAR : HALF_A_DOLLAR - yesAsk;
    if (!best || apart < best.apart) best = { ticker, ask: yesAsk, apart };
  }
  return best && { ticker: best.ticker, ask: formatDollars(best.ask + ROOM) };
}
