import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { MINUTE_MS } from '../../../src/core/time.js';
import {
  createPriceRecorder,
  PRICE_STEP_MS,
  readPriceHistory,
} from '../../../src/markets/snapshot/price-history.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import { useDatabase } from '../../support/use.js';

const NOON = Date.parse('2026-07-15T12:00:00Z');

const database = useDatabase();

const market = (
  [eventTicker, ticker]: [string, string],
  status: string,
  yesBid: bigint | null,
  yesAsk: bigint | null,
) => ({
  eventTicker,
  ticker,
  station: eventTicker === 'RAIN' ? null : { id: 'KNYC' },
  status,
  yesBid,
  yesAsk,
});

/** A recorder whose snapshot has the given age, an open event, a finished one, and one that Gauge cannot forecast. */
function scene(marketSource: string, ageMs = 0) {
  const clock = { ms: NOON, now: () => clock.ms };
  const store = {
    get current() {
      return {
        marketSource,
        asOf: new Date(clock.ms - ageMs),
        forecasts: new Map(),
        data: {
          markets: [
            market(['OPEN', 'A'], 'active', 410_000n, 425_000n),
            market(['OPEN', 'B'], 'active', null, null),
            market(['OVER', 'C'], 'finalized', null, null),
            market(['RAIN', 'D'], 'active', 200_000n, null),
          ],
        },
      } as unknown as Snapshot;
    },
  };
  const deps = { db: database.db, store, clock } as unknown as Parameters<typeof createPriceRecorder>[0];
  const read = (eventTicker = 'OPEN') => readPriceHistory(database.db.orm, { marketSource, eventTicker });
  return { clock, read, create: () => createPriceRecorder(deps) };
}

it('best prices of open events are recorded once in five minutes, whichever instance records them', async () => {
  const { clock, read, create } = scene('once');
  const [first, second] = [create(), create()];
  for (const minutes of [0, 1, 4, 5, 9]) {
    clock.ms = NOON + minutes * MINUTE_MS;
    await first.record();
    await second.record();
  }
  const { points, stepMs } = await read();
  expect(stepMs).toBe(PRICE_STEP_MS);
  expect(points.map(({ at }) => at.toISOString())).toEqual([
    '2026-07-15T12:00:00.000Z',
    '2026-07-15T12:05:00.000Z',
  ]);
  expect(points[0]!.prices).toEqual({ A: [410_000, 425_000, null], B: [null, null, null] });
  expect((await read('OVER')).points).toEqual([]);
  expect((await read('RAIN')).points[0]!.prices).toEqual({ D: [200_000, null, null] });
});

it('stale prices are not recorded', async () => {
  const { read, create } = scene('stale', MINUTE_MS);
  await create().record();
  expect((await read()).points).toEqual([]);
});

it('entries older than three days are deleted, and a long history is thinned evenly', async () => {
  const { clock, read, create } = scene('long');
  const recorder = create();
  await database.db.orm.execute(sql`
    insert into price_history
    select 'long', 'OPEN', ${new Date(NOON).toISOString()}::timestamptz - make_interval(mins => 5 * n), '{"A": [1, 2]}'
    from generate_series(1, 1000) n`);
  clock.ms = NOON;
  await recorder.cleanUp();
  const [kept] = await selectRows<{ count: number }>(
    database.db.orm,
    sql`select count(*)::int as count from price_history where market_source = 'long'`,
  );
  expect(kept!.count).toBe((3 * 24 * 60) / 5);
  const { points, stepMs } = await read();
  expect(points.length).toBeLessThanOrEqual(48);
  expect(points.at(-1)!.at).toEqual(new Date(NOON - PRICE_STEP_MS));
  const apart = points.slice(1).map(({ at }, i) => at.getTime() - points[i]!.at.getTime());
  expect(new Set(apart)).toEqual(new Set([stepMs]));
});
