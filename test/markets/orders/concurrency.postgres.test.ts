import { sql } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { databaseError } from '../../support/faulty-database.js';
import { startTradingTest, createTrader, postTrade } from '../support/trade.js';
import { makeBook } from '../support/events.js';
import { useDatabase } from '../../support/use.js';

const ORDERS = 1_000;

const database = useDatabase();
let db: Database;
beforeAll(async () => {
  ({ db } = database);
});

const readBooks = async (orgId: string) =>
  (
    await selectRows<Record<string, string>>(
      db.orm,
      sql`select (select cash::text from trading_accounts where org_id = ${orgId}) as cash,
        (select count(*)::text from trading_accounts where org_id = ${orgId}) as accounts,
        (select contracts::text from trading_positions where org_id = ${orgId}) as held,
        (select count(*)::text from trading_orders where org_id = ${orgId}) as orders,
        (select count(*)::text from trading_fills where org_id = ${orgId}) as fills,
        (select sum(cash)::text from ledger_entries where org_id = ${orgId}) as "sumOfCash",
        (select sum(cash + positions + fees + realised + capital)::text from ledger_entries where org_id = ${orgId}) as "sumOfAll"`,
    )
  )[0]!;

describe(`${ORDERS} concurrent orders on one small account`, () => {
  it('fill exactly what its cash allows, across two instances', async () => {
    // A contract costs $0.50 plus a fee of $0.0175, so $25.88 buys fifty.
    const env = { PAPER_CASH: '25.88' };
    const services = await Promise.all([startTradingTest(db, { env }), startTradingTest(db, { env })]);
    const deep = makeBook([[40, 100_000]], [[50, 100_000]]);
    for (const service of services) await service.showBook(deep);
    const { secret, orgId } = await createTrader(db);
    const answers = await Promise.all(
      Array.from({ length: ORDERS }, (_, i) =>
        postTrade(services[i % 2]!.url, secret, { contracts: 1, limitPrice: '0.50' }),
      ),
    );
    const filled = answers.filter(({ status }) => status === 201);
    expect(filled).toHaveLength(50);
    for (const { trade } of filled) expect([trade!.filledContracts, trade!.total]).toEqual([1, '-0.5175']);
    const refused = answers.filter(({ status }) => status !== 201);
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['insufficient_funds']));
    expect(await readBooks(orgId)).toEqual({
      cash: '5000',
      accounts: '1',
      held: '50.00',
      orders: '50',
      fills: '50',
      sumOfCash: '5000',
      sumOfAll: '0',
    });
    for (const service of services) await service.stop();
  });

  it('never take the same contract of a book twice', async () => {
    const services = await Promise.all([startTradingTest(db), startTradingTest(db)]);
    for (const service of services) await service.showBook(makeBook([], [[50, 25]]));
    const { secret, orgId } = await createTrader(db);
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        postTrade(services[i % 2]!.url, secret, { contracts: 1, limitPrice: '0.50' }),
      ),
    );
    const codes = answers.filter(({ status }) => status !== 201).map(({ code }) => code);
    expect(codes).toEqual(Array(15).fill('price_moved'));
    expect(await readBooks(orgId)).toMatchObject({ held: '25.00', orders: '25' });
    for (const service of services) await service.stop();
  });
});

describe('a database connection lost', () => {
  const lost = () => databaseError('08006', 'the connection was lost');
  const headers = { 'idempotency-key': 'once' };

  it('before the commit leaves nothing half-written, and the order can be retried', async () => {
    let isAway = true;
    const faulty: Database = {
      ...db,
      transaction: (work) =>
        db.transaction(async (tx) => {
          const done = await work(tx);
          if (isAway) throw lost();
          return done;
        }),
    };
    const service = await startTradingTest(db, { context: { db: faulty } });
    const { secret, orgId } = await createTrader(db);
    const answer = await postTrade(service.url, secret, {}, headers);
    expect([answer.status, answer.code, answer.headers.get('retry-after')]).toEqual([
      503,
      'unavailable',
      '1',
    ]);
    expect(await readBooks(orgId)).toMatchObject({ accounts: '0', orders: '0', fills: '0', sumOfCash: null });
    isAway = false;
    expect((await postTrade(service.url, secret, {}, headers)).status).toBe(201);
    await service.stop();
  });

  it('after the commit makes the retry an ordinary repeat', async () => {
    let isAway = true;
    const faulty: Database = {
      ...db,
      async transaction(work) {
        const done = await db.transaction(work);
        if (isAway) throw lost();
        return done;
      },
    };
    const service = await startTradingTest(db, { context: { db: faulty } });
    const { secret, orgId } = await createTrader(db);
    expect((await postTrade(service.url, secret, {}, headers)).status).toBe(503);
    isAway = false;
    const again = await postTrade(service.url, secret, {}, headers);
    expect([again.status, again.trade!.filledContracts]).toEqual([200, 5]);
    expect(await readBooks(orgId)).toMatchObject({ orders: '1', fills: '1', cash: '997663300' });
    await service.stop();
  });
});
