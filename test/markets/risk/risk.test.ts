import { sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { describe, expect, it } from 'vitest';
import type { Orm } from '../../../src/core/db/client.js';
import { AppError } from '../../../src/core/errors.js';
import { tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import {
  ledgerEntries,
  portfolioHistory,
  tradingAccounts,
  tradingPositions,
} from '../../../src/markets/ledger/portfolio-table.js';
import { CENT, DOLLAR, parseDollars } from '../../../src/markets/market/money.js';
import { assertWithinRisk, readKnownFacts } from '../../../src/markets/risk/gate.js';
import { defaultLimits } from '../../../src/markets/risk/limits.js';
import { readRiskFacts } from '../../../src/markets/risk/facts.js';
import { itOnPostgres } from '../../support/database.js';
import { createOrganization } from '../../support/fixtures.js';
import { type Ask, inputOf, at, EVENT } from '../support/risk.js';
import { operatorClient } from '../../support/operator.js';
import { useService, useServiceOn } from '../../support/use.js';

const { database, service } = useService();
const services = [service, useServiceOn(() => database.db)] as const;
const call = operatorClient(() => services[1]);

const orm = () => database.db.orm;
const yesterday = new Date('2026-11-20T10:00:00Z');
const today = new Date('2026-11-21T09:00:00Z');

interface Setting {
  cash?: string;
  openedAt?: Date;
  withoutAccount?: true;
}

async function setUp({ cash = '1000', openedAt = yesterday, withoutAccount }: Setting = {}) {
  const { id: orgId, slug } = await createOrganization(database.db);
  if (!withoutAccount) {
    await orm()
      .insert(tradingAccounts)
      .values([
        { orgId, mode: 'paper', cash: parseDollars(cash), openedAt },
        // The other mode's account must have no effect.
        { orgId, mode: 'live', cash: 0n, openedAt },
      ]);
  }
  const post = (
    values: Partial<Record<'cash' | 'positions' | 'fees' | 'realised' | 'capital', string>>,
    when: Date,
    kind: 'deposit' | 'fill' = 'fill',
  ) => {
    const amount = (name: keyof typeof values) => parseDollars(values[name] ?? '0');
    return orm()
      .insert(ledgerEntries)
      .values({
        orgId,
        id: uuid(),
        mode: 'paper',
        kind,
        at: when,
        cash: amount('cash'),
        positions: amount('positions'),
        fees: amount('fees'),
        realised: amount('realised'),
        capital: amount('capital'),
      });
  };
  const hold = (ticker: string, side: 'yes' | 'no', contracts: number, cost: string) =>
    orm()
      .insert(tradingPositions)
      .values({
        orgId,
        mode: 'paper',
        ticker,
        eventTicker: EVENT,
        side,
        contracts,
        cost: parseDollars(cost),
        realised: 0n,
        fees: 0n,
        openedAt: today,
        updatedAt: today,
      });
  const order = (values: Partial<typeof tradingOrders.$inferInsert>) =>
    orm()
      .insert(tradingOrders)
      .values({
        orgId,
        id: uuid(),
        mode: 'paper',
        idempotencyKey: uuid(),
        requestHash: 'hash',
        clientOrderId: uuid(),
        ticker: 'MILD',
        eventTicker: EVENT,
        seriesTicker: 'KXHIGHNY',
        label: '60° to 61°',
        side: 'yes',
        action: 'buy',
        contracts: 20,
        limitPrice: 40n * CENT,
        timeInForce: 'immediate_or_cancel',
        status: 'pending',
        feeRule: { type: 'quadratic', multiplier: '1000000' },
        bookFetchedAt: today,
        apiKeyId: uuid(),
        createdAt: today,
        ...values,
      });
  /** Judges an order in a transaction that first locks the account's row, as the order's own transaction does. */
  const judge = async (ask: Ask = {}, tx: Orm = orm()) => {
    const input = inputOf(ask);
    try {
      await tx.transaction(async (inner) => {
        await inner.execute(sql`select from trading_accounts where org_id = ${orgId} for update`);
        assertWithinRisk(
          { ...input, order: { ...input.order, orgId } },
          await readKnownFacts(inner, { orgId, mode: 'paper', at: input.at }),
        );
      });
      return 'passed';
    } catch (error) {
      if (error instanceof AppError && error.code === 'risk_limit') return error.message;
      throw error;
    }
  };
  const facts = () => readRiskFacts(orm(), { orgId, mode: 'paper', at });
  return { orgId, slug, judge, post, hold, order, facts };
}

describe('the facts that an order is judged on', () => {
  it('cover its own account and mode only', async () => {
    const mine = await setUp();
    const other = await setUp();
    await other.hold('MILD', 'yes', 500, '200');
    await other.order({});
    await call('PUT', `/organizations/${other.slug}/trading/limits`, { maxOrderContracts: 1 });
    await call('PUT', `/organizations/${other.slug}/trading/switch`, { state: 'halt', reason: 'r' });
    await mine.hold('COLD', 'no', 7, '3.5');
    await mine.order({ action: 'sell', contracts: 20, filledContracts: 5 });
    await mine.order({ status: 'filled', contracts: 9, filledContracts: 9 });
    await mine.order({ mode: 'live' });
    await call('PUT', `/organizations/${other.slug}`, { name: 'Other', marketAccess: 'none' });
    expect(await mine.facts()).toEqual({
      access: 'trade',
      switches: {
        service: { state: 'open', reason: null },
        operator: { state: 'open', reason: null },
        own: { state: 'open', reason: null },
      },
      limits: defaultLimits,
      cash: 1000n * DOLLAR,
      positions: [{ ticker: 'COLD', eventTicker: EVENT, side: 'no', contracts: 7, cost: 3_500_000n }],
      pending: [
        {
          ticker: 'MILD',
          eventTicker: EVENT,
          side: 'yes',
          action: 'sell',
          contracts: 15,
          limitPrice: 400_000n,
        },
      ],
      dayStart: { kind: 'cost', spent: 0n },
    });
  });

  it('refuse everything without an account', async () => {
    const { judge } = await setUp({ withoutAccount: true });
    expect(await judge()).toMatch(/^unknown_state: the account does not exist/);
  });

  it('keep amounts beyond the precision of a float', async () => {
    const { hold, facts } = await setUp({ cash: '9007199254.740993' });
    await hold('MILD', 'yes', 1, '9007199254.740993');
    expect(await facts()).toMatchObject({
      cash: 9_007_199_254_740_993n,
      positions: [{ cost: 9_007_199_254_740_993n }],
    });
  });
});

describe('the daily loss starts from', () => {
  const value = (orgId: string, when: string, cash: string, liquidation: string) =>
    orm()
      .insert(portfolioHistory)
      .values({
        orgId,
        mode: 'paper',
        at: new Date(when),
        cash: parseDollars(cash),
        liquidation: parseDollars(liquidation),
        realised: 0n,
        unrealised: 0n,
        fees: 0n,
      });

  it('the last valuation before midnight, and later deposits are no profit', async () => {
    const { orgId, judge, post, facts } = await setUp({ cash: '900' });
    await value(orgId, '2026-11-19T23:45:00Z', '2000', '0');
    await value(orgId, '2026-11-20T23:45:00Z', '500', '250.50');
    await value(orgId, '2026-11-21T00:00:00Z', '1', '0');
    await post({ cash: '1000', capital: '-1000' }, new Date('2026-11-20T10:00:00Z'), 'deposit');
    await post({ cash: '300', capital: '-300' }, today, 'deposit');
    await post({ cash: '-400', positions: '300', fees: '100' }, today);
    expect((await facts())?.dayStart).toEqual({
      kind: 'equity',
      equity: parseDollars('750.50'),
      deposits: 300n * DOLLAR,
    });
    // The day began at 750.50, 300 has been deposited since, and 900 is left, so 150.50 of the allowed 200 is lost.
    expect(await judge()).toBe('passed');
    await orm()
      .update(tradingAccounts)
      .set({ cash: parseDollars('850.50') })
      .where(sql`org_id = ${orgId}`);
    expect(await judge()).toMatch(/^max_daily_loss: \$200\.00 were lost/);
  });

  it('zero for an account opened after midnight', async () => {
    const { judge, post, facts } = await setUp({ cash: '790', openedAt: today });
    await post({ cash: '1000', capital: '-1000' }, today, 'deposit');
    await post({ cash: '-210', realised: '150', fees: '60' }, today);
    expect((await facts())?.dayStart).toEqual({ kind: 'equity', equity: 0n, deposits: 1000n * DOLLAR });
    expect(await judge()).toMatch(/^max_daily_loss: \$210\.00 were lost/);
  });

  it('the cost of positions without a valuation before midnight', async () => {
    const { judge, post, facts } = await setUp({ cash: '790' });
    await post({ cash: '1000', capital: '-1000' }, yesterday, 'deposit');
    await post({ cash: '-150', realised: '150' }, new Date('2026-11-20T23:59:59.999Z'));
    await post({ cash: '-60', realised: '50', fees: '10' }, new Date('2026-11-21T00:00:00Z'));
    expect((await facts())?.dayStart).toEqual({ kind: 'cost', spent: 60n * DOLLAR });
    expect(await judge()).toBe('passed');
    await post({ cash: '-140', realised: '140' }, today);
    expect(await judge()).toMatch(/^max_daily_loss: \$200\.00/);
  });
});

describe('a switch or a limit takes effect on the next order', () => {
  it('on whichever instance it was set', async () => {
    const { slug, judge, hold } = await setUp();
    const own = `/organizations/${slug}/trading/switch`;
    await hold('MILD', 'yes', 10, '4');
    const sale = { action: 'sell', limitPrice: 40n * CENT } as const;
    const both = async () => [await judge(), await judge(sale)];
    // The switch is set through the second service; the order is judged in the first service's database.
    expect(await both()).toEqual(['passed', 'passed']);
    await call('PUT', own, { state: 'reduce_only', reason: 'careful' });
    expect(await both()).toEqual([expect.stringMatching(/^reduce_only: .*careful/), 'passed']);
    await call('PUT', own, { state: 'halt', reason: 'stop' });
    expect(await both()).toEqual([expect.stringMatching(/^halt: /), expect.stringMatching(/^halt: /)]);
    await call('PUT', own, { state: 'open' });
    await call('PUT', '/trading/switch', { state: 'halt', reason: 'everywhere' });
    expect(await judge()).toMatch(/^halt: the service's switch is at halt \(everywhere\)/);
    await call('PUT', '/trading/switch', { state: 'open' });
    await call('PUT', `/organizations/${slug}/trading/limits`, { maxOrderContracts: 9 });
    expect(await both()).toEqual([
      expect.stringMatching(/^max_order_contracts: .* the limit is 9\./),
      expect.stringMatching(/^max_order_contracts: /),
    ]);
    await call('DELETE', `/organizations/${slug}/trading/limits`);
    expect(await both()).toEqual(['passed', 'passed']);
  });

  // The embedded database runs only one transaction at a time.
  itOnPostgres('even within a transaction that began before', async () => {
    const { orgId, slug } = await setUp();
    const input = inputOf();
    const detail = orm()
      .transaction(async (tx) => {
        await tx.execute(sql`select from trading_accounts where org_id = ${orgId} for update`);
        await call('PUT', `/organizations/${slug}/trading/switch`, { state: 'halt', reason: 'now' });
        assertWithinRisk(
          { ...input, order: { ...input.order, orgId } },
          await readKnownFacts(tx, { orgId, mode: 'paper', at: input.at }),
        );
      })
      .then(
        () => 'passed',
        (error: Error) => error.message,
      );
    expect(await detail).toMatch(/^halt: .*now/);
  });
});
