import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { checkLedger } from '../../../src/markets/portfolio/ledger-check.js';
import { createSettling } from '../../../src/markets/settlement/settle.js';
import { createOrganization } from '../../support/fixtures.js';
import { type TestService } from '../../support/service.js';
import {
  bookedOf,
  AFTER_CLOSE,
  makeVenue,
  type TestVenue,
  cashOf,
  ends,
  makeMarket,
  buy,
  clockOf,
} from '../support/settlement.js';
import { useOtherConnections, useService, useServiceOn } from '../../support/use.js';

const venues: TestVenue[] = [0, 1].map((i) => makeVenue(clockOf(() => services[i]!)));
const { database, service: first } = useService({ trading: { markets: venues[0]! } });
const otherConnections = useOtherConnections(database);

const second = useServiceOn(() => otherConnections, { trading: { markets: venues[1]! } });
const services: TestService[] = [first, second];
beforeAll(() => {
  for (const { clock } of services) clock.set(AFTER_CLOSE);
});

async function holders(count: number): Promise<string[]> {
  const orgIds: string[] = [];
  for (let i = 0; i < count; i++) {
    const { id: orgId } = await createOrganization(database.db);
    await buy(database.db, { orgId, contracts: 10, price: 42n * CENT });
    orgIds.push(orgId);
  }
  return orgIds;
}

async function sayToBoth(change: Parameters<typeof makeMarket>[0]) {
  for (const [i, service] of services.entries()) {
    venues[i]!.listed = [makeMarket(change)];
    service.clock.advance(6 * 60_000);
    await service.trading.refresher.refresh();
  }
}

const BOUGHT = 1000n * DOLLAR - 420n * CENT;

it('two instances that both believe they hold the lease book each event once', async () => {
  const orgIds = await holders(30);
  const settlings = services.map(({ context, trading }) =>
    createSettling({
      orm: context.db.orm,
      markets: trading.markets,
      clock: context.clock,
      log: context.log,
      onMoved: async () => undefined,
    }),
  );
  let [events, failed] = [0, 0];
  for (const change of [ends.determined(DOLLAR), ends.finalized(DOLLAR), ends.finalized(0n), ends.void]) {
    await sayToBoth(change);
    const reports = await Promise.all(
      settlings.map((settling, i) =>
        settling.pass(
          services[i]!.trading.snapshots.current!,
          new AbortController().signal,
          async () => true,
        ),
      ),
    );
    events += reports.reduce((sum, report) => sum + report.events, 0);
    failed += reports.reduce((sum, report) => sum + report.failed, 0);
  }
  expect({ events, failed }).toEqual({ events: 4 * 30, failed: 0 });
  for (const orgId of orgIds) {
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 420n * CENT);
    expect((await bookedOf(database.db, orgId)).map(([kind]) => kind)).toEqual([
      'settlement',
      'correction',
      'correction',
    ]);
  }
  expect(await checkLedger(database.db.orm, {}, 10)).toEqual([]);
});

it('a sale booked during the settlement of its market counts once, and the ledger agrees', async () => {
  const [orgId] = await holders(1);
  await sayToBoth(ends.finalized(DOLLAR));
  // Simulates an order's transaction that holds the account's lock and is about to write.
  let settled: Promise<unknown> | undefined;
  await otherConnections.orm.transaction(async (tx) => {
    await tx.execute(sql`select from trading_accounts where org_id = ${orgId!}::uuid for update`);
    settled = services[0]!.trading.settlement.settle();
    // The settlement is now waiting for the lock.
    await expect
      .poll(async () => {
        const waiting = await database.db.orm.execute(
          sql`select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        );
        return (waiting as { rows: { n: number }[] }).rows[0]!.n;
      })
      .toBe(1);
    // Sells 4 of the 10 at 50 cents.
    await tx.execute(sql`
      update trading_positions set contracts = 6, cost = 2520000, realised = realised + 320000 where org_id = ${orgId!}::uuid`);
    await tx.execute(sql`update trading_accounts set cash = cash + 2000000 where org_id = ${orgId!}::uuid`);
    await tx.execute(sql`
      insert into ledger_entries (org_id, id, mode, kind, at, ticker, cash, positions, fees, realised, capital)
      select org_id, gen_random_uuid(), mode, 'adjustment', now(), ticker, 2000000, -1680000, 0, -320000, 0
      from trading_positions where org_id = ${orgId!}::uuid`);
  });
  expect(await settled).toMatchObject({ failed: 0 });
  expect(await cashOf(database.db, orgId!)).toBe(BOUGHT + 2n * DOLLAR + 6n * DOLLAR);
  const rules = (await checkLedger(database.db.orm, { orgId: orgId! }, 10)).map(({ rule }) => rule);
  // Only the contracts differ, because this sale has no order.
  expect(rules).toEqual(['contracts of a position equal its fills minus its settlements']);
});
