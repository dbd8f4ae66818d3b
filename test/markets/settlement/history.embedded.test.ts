import { and, asc, eq, sql } from 'drizzle-orm';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { paperBooks } from '../../../src/markets/ledger/orders-table.js';
import { portfolioHistory } from '../../../src/markets/ledger/portfolio-table.js';
import { type TestDatabase } from '../../support/database.js';
import { createOrganization } from '../../support/fixtures.js';
import { type TestService } from '../../support/service.js';
import { startSettlement, type TestVenue, ends, makeMarket, buy, EVENT } from '../support/settlement.js';

const TICKER = `${EVENT}-B84.5`;

let database: TestDatabase;
let service: TestService;
let venue: TestVenue;
let stop: () => Promise<void>;
beforeAll(async () => {
  ({ database, service, venue, stop } = await startSettlement());
});
afterAll(() => stop());
beforeEach(() => {
  service.clock.set('2026-07-04T18:00:00Z');
  venue.listed = [makeMarket()];
  // The book has bids for ten at 50 cents.
  venue.book = { yes: [{ price: 50n * CENT, contracts: 10 }], no: [] };
});

async function holder(contracts: number) {
  const { id: orgId } = await createOrganization(database.db);
  await buy(database.db, { orgId, contracts, price: 40n * CENT, fee: 20n * CENT });
  return orgId;
}

async function record(at: string) {
  service.clock.set(at);
  await service.trading.refresher.refresh();
  await service.trading.settlement.recordHistory();
}

const pointsOf = (orgId: string) =>
  database.db.orm
    .select()
    .from(portfolioHistory)
    .where(and(eq(portfolioHistory.orgId, orgId), eq(portfolioHistory.mode, 'paper')))
    .orderBy(asc(portfolioHistory.at));

it('an account is worth its cash plus the sale value of its positions after fees', async () => {
  const orgId = await holder(15);
  const { id: empty } = await createOrganization(database.db);
  await record('2026-07-04T18:00:00Z');
  await record('2026-07-04T18:15:00Z');
  // Ten at 50 cents bring 5.00, less a fee of 0.07 × 10 × 0.5 × 0.5 = 17.5 cents: 4.825. The other five have no bid.
  const point = {
    cash: 1000n * DOLLAR - 620n * CENT,
    liquidation: 4_825_000n,
    realised: 0n,
    unrealised: 4_825_000n - 600n * CENT,
    fees: 20n * CENT,
  };
  expect(await pointsOf(orgId)).toMatchObject([point, point]);
  expect(await pointsOf(empty)).toEqual([]);
});

it('no point is recorded from old data, or while a closed market has no result', async () => {
  const orgId = await holder(10);
  await record('2026-07-04T20:00:00Z');
  service.clock.advance(61_000);
  await service.trading.settlement.recordHistory();
  venue.listed = [makeMarket(ends.closed)];
  await record('2026-07-05T07:00:00Z');
  expect(await pointsOf(orgId)).toHaveLength(1);
  venue.listed = [makeMarket(ends.determined(DOLLAR))];
  await record('2026-07-05T13:00:00Z');
  expect(await pointsOf(orgId)).toMatchObject([{ liquidation: 4_825_000n }, { liquidation: 10n * DOLLAR }]);
  // After a day without a result, the market counts at its sale value, which is zero here.
  venue.listed = [makeMarket(ends.closed)];
  await record('2026-07-06T06:00:00Z');
  expect((await pointsOf(orgId)).at(-1)).toMatchObject({ liquidation: 0n });
});

it('no point is recorded while a market is not listed, until its day is long over', async () => {
  const orgId = await holder(10);
  await record('2026-07-04T23:45:00Z');
  venue.listed = [];
  await record('2026-07-04T23:59:00Z');
  await record('2026-07-06T23:59:00Z');
  expect(await pointsOf(orgId)).toMatchObject([{ liquidation: 4_825_000n }]);
  await record('2026-07-07T00:00:00Z');
  expect((await pointsOf(orgId)).at(-1)).toMatchObject({ liquidation: 0n });
});

it('no point is recorded while the fee of a sale is unknown', async () => {
  const orgId = await holder(10);
  venue.listed = [makeMarket({ seriesTicker: 'KXOTHER' })];
  await record('2026-07-04T22:30:00Z');
  expect(await pointsOf(orgId)).toEqual([]);
});

it('a settlement that moves money records a point', async () => {
  const orgId = await holder(10);
  venue.listed = [makeMarket(ends.finalized(DOLLAR))];
  service.clock.set('2026-07-05T14:00:07Z');
  await service.trading.refresher.refresh();
  await service.trading.settlement.settle();
  expect(await pointsOf(orgId)).toMatchObject([
    {
      at: new Date('2026-07-05T14:00:07Z'),
      cash: 1000n * DOLLAR - 420n * CENT + 10n * DOLLAR,
      liquidation: 0n,
    },
  ]);
});

it('points older than three months are thinned to the last of each day, and paper books are kept for a day', async () => {
  const { id: orgId } = await createOrganization(database.db);
  await buy(database.db, { orgId, contracts: 1, price: 40n * CENT });
  const value = { cash: 0n, liquidation: 0n, realised: 0n, unrealised: 0n, fees: 0n };
  // Every six hours from March 27 to April 10. The cutoff is April 5, 90 days before July 4.
  await database.db.orm.insert(portfolioHistory).values(
    Array.from({ length: 60 }, (_, i) => ({
      ...value,
      orgId,
      mode: 'paper' as const,
      at: new Date(Date.parse('2026-03-27T00:00:00Z') + i * 6 * 3_600_000),
    })),
  );
  const book = { orgId, bookHash: '', taken: [] };
  await database.db.orm.insert(paperBooks).values([
    { ...book, ticker: 'old', updatedAt: new Date('2026-07-03T17:00:00Z') },
    { ...book, ticker: 'new', updatedAt: new Date('2026-07-03T19:00:00Z') },
  ]);
  for (let i = 0; i < 2; i++) await service.trading.settlement.cleanUp();
  const kept = (await pointsOf(orgId)).map(({ at }) => at.toISOString().slice(0, 13));
  const days = (from: number, to: number, month: string) =>
    Array.from({ length: to - from + 1 }, (_, i) => `2026-${month}-${String(from + i).padStart(2, '0')}`);
  expect(kept).toEqual([
    ...[...days(27, 31, '03'), ...days(1, 4, '04')].map((day) => `${day}T18`),
    // The cutoff is 18:00 on April 5, so that day keeps only its last point.
    '2026-04-05T18',
    ...days(6, 10, '04').flatMap((day) => ['00', '06', '12', '18'].map((hour) => `${day}T${hour}`)),
  ]);
  const books = await database.db.orm.execute(
    sql`select ticker from paper_books where org_id = ${orgId}::uuid`,
  );
  expect((books as { rows: unknown[] }).rows).toEqual([{ ticker: 'new' }]);
});

it('the walk visits every account that holds something', async () => {
  await database.db.orm.execute(sql`
    with others as (
      insert into trading_accounts (org_id, mode, cash, opened_at)
      select md5('other ' || n)::uuid, 'paper', 1000000, now() from generate_series(1, 110) n returning org_id
    )
    insert into trading_positions
      (org_id, mode, ticker, event_ticker, side, contracts, cost, realised, fees, opened_at, updated_at)
    select org_id, 'paper', ${TICKER} || n, ${EVENT}, 'yes', 1, 420000, 0, 0, now(), now()
    from others, generate_series(1, 2) n`);
  await record('2026-07-07T21:00:00Z');
  const counted = await database.db.orm.execute(sql`
    select count(*)::int as n from portfolio_history
    where at = '2026-07-07T21:00:00Z' and org_id in (select md5('other ' || n)::uuid from generate_series(1, 110) n)`);
  expect((counted as { rows: unknown[] }).rows).toEqual([{ n: 110 }]);
});
