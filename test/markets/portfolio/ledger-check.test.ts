import { and, eq, sql, type SQL } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { checkLedger, ledgerJson, ledgerText } from '../../../src/markets/portfolio/ledger-check.js';
import { tradingPositions } from '../../../src/markets/ledger/portfolio-table.js';
import { settleAccount } from '../../../src/markets/settlement/settle.js';
import { createOrganization, type TestOrganization } from '../../support/fixtures.js';
import { buy, EVENT } from '../support/settlement.js';
import { useDatabase } from '../../support/use.js';

const TICKER = `${EVENT}-B84.5`;
const database = useDatabase();

/** An Organization whose books stay intact. */
let other: TestOrganization;
beforeAll(async () => {
  other = await trader();
});

const check = (orgId: string) => checkLedger(database.db.orm, { orgId }, 10);

/**
 * Creates an account with every kind of ledger entry: 10 YES, 4 of them closed by a purchase of 4 NO, a settlement and
 * a correction.
 */
async function trader() {
  const organization = await createOrganization(database.db);
  const { id: orgId } = organization;
  await buy(database.db, { orgId, contracts: 10, price: 42n * CENT, fee: 18n * CENT });
  await buy(database.db, { orgId, side: 'no', contracts: 4, price: 30n * CENT, fee: 6n * CENT });
  await buy(database.db, { orgId, ticker: `${EVENT}-T91`, side: 'no', contracts: 2, price: 90n * CENT });
  for (const value of [DOLLAR, 0n]) {
    const word = { state: 'finalized', value, temperature: null } as const;
    const account = { orgId, mode: 'paper' } as const;
    await settleAccount(
      database.db.orm,
      account,
      new Map([[TICKER, word]]),
      new Date('2026-07-05T14:00:00Z'),
    );
  }
  return organization;
}

it('an intact ledger passes every check', async () => {
  const { id } = await trader();
  expect(await check(id)).toEqual([]);
  expect(await checkLedger(database.db.orm, {}, 10)).toEqual([]);
  // Ten contracts were bought for 4.20; four were in effect sold at 70 cents, and the other six are worthless.
  expect(
    await database.db.orm
      .select()
      .from(tradingPositions)
      .where(and(eq(tradingPositions.orgId, id), eq(tradingPositions.ticker, TICKER))),
  ).toMatchObject([{ contracts: 0, cost: 0n, realised: -140n * CENT, fees: 24n * CENT }]);
  expect(ledgerText([])).toMatch(/^The ledger agrees/);
});

it.each<[string, (orgId: string) => SQL, string[]]>([
  [
    'unexplained cash',
    (orgId) => sql`update trading_accounts set cash = cash + 1 where org_id = ${orgId}::uuid`,
    ['cash of an account is the sum of its postings'],
  ],
  [
    'a missing account',
    (orgId) => sql`delete from trading_accounts where org_id = ${orgId}::uuid`,
    ['cash of an account is the sum of its postings'],
  ],
  [
    'a wrong cost, profit and fee',
    (orgId) =>
      sql`update trading_positions set cost = cost + 1, realised = realised + 1, fees = fees + 1
      where org_id = ${orgId}::uuid and contracts > 0`,
    [
      'cost of a position is the sum of its postings',
      'realised of a position is the sum of its postings',
      'fees of a position is the sum of its postings',
    ],
  ],
  [
    'contracts without a purchase',
    (orgId) =>
      sql`update trading_positions set contracts = contracts + 1 where org_id = ${orgId}::uuid and contracts > 0`,
    ['contracts of a position equal its fills minus its settlements'],
  ],
  [
    'the wrong side',
    (orgId) => sql`update trading_positions set side = 'yes' where org_id = ${orgId}::uuid and contracts > 0`,
    ['contracts of a position equal its fills minus its settlements'],
  ],
  [
    'a missing position',
    (orgId) => sql`delete from trading_positions where org_id = ${orgId}::uuid and contracts > 0`,
    [
      'cost of a position is the sum of its postings',
      'realised of a position is the sum of its postings',
      'fees of a position is the sum of its postings',
      'contracts of a position equal its fills minus its settlements',
    ],
  ],
  [
    'an order with other sums than its fills',
    (orgId) =>
      sql`update trading_orders set filled_contracts = 1, fees = 1, booked = 1
      where org_id = ${orgId}::uuid and contracts = 10`,
    [
      'filled_contracts of an order is the sum of its fills',
      'fees of an order is the sum of its fills',
      'booked of an order is the sum of its fills',
    ],
  ],
  [
    'an unbooked fill',
    (orgId) =>
      sql`insert into trading_fills (org_id, order_id, n, price, contracts, fee, balance_change, filled_at)
      select org_id, id, 2, 420000, 1, 0, -420000, now() from trading_orders where org_id = ${orgId}::uuid and contracts = 10`,
    [
      'contracts of a position equal its fills minus its settlements',
      'filled_contracts of an order is the sum of its fills',
      'booked of an order is the sum of its fills',
      'a fill has one entry in the ledger, and the entry its amounts',
    ],
  ],
  [
    'a fill booked with another amount',
    (orgId) =>
      sql`update trading_fills set balance_change = balance_change - 10000
      where org_id = ${orgId}::uuid and contracts = 10`,
    ['a fill has one entry in the ledger, and the entry its amounts'],
  ],
  [
    'a settlement without a ledger entry',
    (orgId) =>
      sql`update ledger_entries set settlement_n = 7 where org_id = ${orgId}::uuid and kind = 'correction'`,
    ['every settlement is booked in the ledger', 'every settlement is booked in the ledger'],
  ],
  [
    'cash reserved for an ended order, and beyond the balance',
    (orgId) =>
      sql`update trading_orders set reserved = case when contracts = 10 then 2000000000 else 5 end,
        status = case when contracts = 10 then 'pending' else 'filled' end
      where org_id = ${orgId}::uuid and contracts >= 4`,
    Array(2).fill('only open orders reserve cash, and never more than their account has'),
  ],
])('the check reports %s', async (_what, spoil, rules) => {
  const { id } = await trader();
  await database.db.orm.execute(spoil(id));
  expect((await check(id)).map(({ rule }) => rule)).toEqual(rules);
  expect(await check(other.id)).toEqual([]);
});

it('the report shows amounts in dollars, counts as counts, and the total of violations', async () => {
  const { id, slug } = await trader();
  await database.db.orm.execute(
    sql`update trading_positions set cost = cost + 10000, contracts = contracts + 1
    where org_id = ${id}::uuid and contracts > 0`,
  );
  const problems = await check(id);
  expect(ledgerJson(problems)).toEqual([
    {
      rule: 'cost of a position is the sum of its postings',
      organization: slug,
      mode: 'paper',
      about: `${EVENT}-T91`,
      recorded: '1.8100',
      actual: '1.8000',
      count: 1,
    },
    expect.objectContaining({ recorded: '-3.00', actual: '-2.00' }),
  ]);
  const [title, head, row] = ledgerText(problems.map((problem) => ({ ...problem, count: 3 }))).split('\n');
  expect(title).toBe('Broken: cost of a position is the sum of its postings: 3');
  expect(head!.split(/ {2,}/)).toEqual(['organization', 'mode', 'about', 'recorded', 'ledger']);
  expect(row!.split(/ {2,}/)).toEqual([slug, 'paper', `${EVENT}-T91`, '1.8100', '1.8000']);
  expect(ledgerText(problems.map((problem) => ({ ...problem, count: 3 })))).toContain('… and 2 more');
});

it('the check reads one snapshot and changes nothing', async () => {
  const { id } = await trader();
  const statements: string[] = [];
  const { orm } = database.db;
  const spied = new Proxy(orm, {
    get: (target, name) =>
      name === 'transaction'
        ? (work: Parameters<typeof orm.transaction>[0], options: unknown) => {
            statements.push(JSON.stringify(options));
            return orm.transaction(work, options as never);
          }
        : Reflect.get(target, name),
  });
  await checkLedger(spied, { orgId: id }, 10);
  expect(statements).toEqual(['{"isolationLevel":"repeatable read","accessMode":"read only"}']);
});
