import { sql, type SQL } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { listOrders } from '../../../src/markets/portfolio/order-queries.js';
import { createOrganization } from '../../support/fixtures.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let orgId: string;

/** Every hundredth order was cancelled, and every thousandth is for Chicago. */
beforeAll(async () => {
  const { orm } = database.db;
  orgId = (await createOrganization(database.db)).id;
  await orm.execute(sql`
    insert into trading_orders (org_id, id, mode, idempotency_key, request_hash, client_order_id, ticker, event_ticker, series_ticker,
      label, side, action, contracts, limit_price, time_in_force, status, fee_rule, book_fetched_at, user_id, created_at)
    select ${orgId}::uuid, md5(n::text)::uuid, 'paper', n::text, '', n::text, s || '-' || n, s, s,
      '', 'yes', 'buy', 1, 500000, 'immediate_or_cancel', case n % 100 when 1 then 'cancelled' else 'filled' end, '{}', now(), ${orgId}::uuid, now()
    from (select n, case n % 1000 when 2 then 'KXHIGHCHI' else 'KXHIGHNY' end as s from generate_series(1, 20000) n) each`);
  await orm.execute(sql`analyze trading_orders`);
});

const last = { id: '80000000-0000-7000-8000-000000000000', ticker: 'KXHIGHNY-2' };

it.each([
  ['newest', {}, 'trading_orders_'],
  ['oldest', {}, 'trading_orders_'],
  ['market', {}, 'trading_orders_ticker'],
  ['newest', { statuses: ['cancelled'] }, 'trading_orders_status'],
  ['newest', { statuses: ['pending', 'resting'] }, 'trading_orders_'],
  ['newest', { seriesTickers: ['KXHIGHCHI', 'KXLOWTCHI'] }, 'trading_orders_series'],
  ['oldest', { from: new Date('2026-11-01'), until: new Date('2026-11-02') }, 'trading_orders_'],
] as const)('%s orders with %j are read through %s', async (sort, filter, index) => {
  for (const after of [undefined, last]) {
    const page = { mode: 'paper', sort, after, limit: 26, ...filter } as const;
    const statement = listOrders(database.db.orm, orgId, page) as unknown as { getSQL: () => SQL };
    const plan = JSON.stringify(await selectRows(database.db.orm, sql`explain ${statement.getSQL()}`));
    expect(plan).toContain(index);
    expect(plan).not.toContain('Seq Scan on trading_orders');
  }
});
