import type { Context } from '../core/http/context.js';
import type { ReadOwnPart } from '../core/reference/own-examples.js';
import { CENT, formatDollars } from './market/money.js';
import { findNewestResting, listOrders } from './orders/queries.js';
import { exampleWorld } from './reference/example-world.js';
import type { SnapshotStore } from './snapshot/snapshot.js';

const HALF_A_DOLLAR = 500_000n;
/** The best offer alone may not have enough contracts. */
const ROOM = 10n * CENT;
const { markets, trade, resting } = exampleWorld;

/** Replace those in the examples. */
export const createOwnMarketsReader =
  ({ db, snapshots }: Pick<Context, 'db'> & { snapshots: SnapshotStore }): ReadOwnPart =>
  async (orgId, now) => {
    const [[newest], newestResting] = await Promise.all([
      listOrders(db.orm, { orgId, limit: 1 }),
      findNewestResting(db.orm, orgId),
    ]);
    const market = findMarket(snapshots, now);
    return {
      ids: {
        [markets.today.traded.ticker]: market?.ticker,
        [trade.id]: newest?.id,
        [resting.id]: newestResting?.id,
      },
      adapt: (request) => {
        const body = request.body as ExampleOrder | undefined;
        if (!market || typeof body?.limitPrice !== 'string') return request;
        // The fill-or-kill example asks for more contracts than the book has, the others for one.
        const size = body.timeInForce === 'fill_or_kill' ? {} : { contracts: 1 };
        return { ...request, body: { ...body, limitPrice: market.ask, ...size } };
      },
    };
  };

interface ExampleOrder {
  limitPrice?: unknown;
  timeInForce?: string;
}

/** Any account can afford an order near half a dollar. */
function findMarket(snapshots: SnapshotStore, now: Date): { ticker: string; ask: string } | undefined {
  let best: { ticker: string; ask: bigint; apart: bigint } | undefined;
  for (const { ticker, status, yesAsk, closeTime } of snapshots.current?.markets.values() ?? []) {
    if (status !== 'active' || yesAsk === null || closeTime <= now) continue;
    const apart = yesAsk > HALF_A_DOLLAR ? yesAsk - HALF_A_DOLLAR : HALF_A_DOLLAR - yesAsk;
    if (!best || apart < best.apart) best = { ticker, ask: yesAsk, apart };
  }
  return best && { ticker: best.ticker, ask: formatDollars(best.ask + ROOM) };
}
