import { v7 as uuid } from 'uuid';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Role } from '../../../src/accounts/organizations/table.js';
import { tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import {
  portfolioHistory,
  tradingAccounts,
  tradingPositions,
} from '../../../src/markets/ledger/portfolio-table.js';
import { CENT, DOLLAR, parseDollars } from '../../../src/markets/market/money.js';
import { everything, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { signedIn } from '../../support/accounts.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';

const PAGE = '/dashboard/portfolio/risk';
const SWITCH = `${PAGE}/switch`;
const html = { accept: 'text/html' };

const { database, service } = useService({
  trading: { selection: { ...everything, stations: leadingStations } },
});
beforeAll(async () => {
  // Every station has a day in progress at 15:00 UTC.
  service.clock.set('2026-11-21T15:00:00Z');
  await service.trading.refresher.refresh();
});

const operator = operatorClient(() => service);

async function enter(role: Role = 'owner') {
  const { organization, user, browser } = await signedIn(database.db, service.url, role);
  const see = async (path = PAGE) => {
    const { status, text } = await browser.get(path, html);
    const main = text.slice(text.indexOf('<main'), text.indexOf('</main>'));
    return { status, main, words: toWords(main) };
  };
  const set = (state: string, reason?: string) =>
    browser.send('POST', SWITCH, {
      form: { state, ...(reason === undefined ? {} : { reason }) },
      headers: html,
    });
  const path = `/organizations/${organization.slug}`;
  const audit = async () =>
    ((await operator('GET', `${path}/audit-log`)).body.auditLog as any[]).filter(
      ({ action }) => action === 'trading_switch.changed',
    );
  return { ...organization, user, browser, see, set, audit, path };
}

const toWords = (markup: string): string =>
  markup
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll(/\s+/g, ' ');

describe('the limits', () => {
  it('are marked as defaults before the first trade', async () => {
    const { see } = await enter('member');
    const { status, words } = await see();
    expect(status).toBe(200);
    for (const text of ['$200.00', '$500.00', '1,000 contracts', '$250.00', '20'])
      expect(words).toContain(` ${text} `);
    // Once for all, not in each row.
    expect(words.match(/default/gi)).toEqual(['Default']);
    expect(words).toContain('Nothing yet.');
    expect(words).toContain('Kill switch Trading');
    expect(words).not.toContain('Trading is halted');
  });

  it('show the operator’s limits and their use', async () => {
    const { id: orgId, path, see } = await enter();
    await operator('PUT', `${path}/trading/limits`, {
      maxPositionContracts: 400,
      maxEventLoss: '120',
      maxDailyLoss: '50',
    });
    const at = new Date(service.clock.now());
    const account = { orgId, mode: 'paper' as const };
    await database.db.orm
      .insert(tradingAccounts)
      .values({ ...account, cash: 910n * DOLLAR, openedAt: new Date('2026-11-19T00:00:00Z') });
    await database.db.orm.insert(portfolioHistory).values({
      ...account,
      at: new Date('2026-11-20T23:45:00Z'),
      cash: 920n * DOLLAR,
      liquidation: 0n,
      realised: 0n,
      unrealised: 0n,
      fees: 0n,
    });
    // A position in a market that is no longer listed: its value counts as zero, and its cost of 60 dollars is at risk.
    await database.db.orm.insert(tradingPositions).values({
      ...account,
      ticker: 'KXHIGHNY-26NOV10-B50.5',
      eventTicker: 'KXHIGHNY-26NOV10',
      side: 'yes',
      contracts: 100,
      cost: parseDollars('60'),
      realised: 0n,
      fees: 0n,
      openedAt: at,
      updatedAt: at,
    });
    const order = {
      ...account,
      requestHash: 'hash',
      ticker: 'KXHIGHNY-26NOV10-B50.5',
      eventTicker: 'KXHIGHNY-26NOV10',
      seriesTicker: 'KXHIGHNY',
      label: '60° to 61°',
      side: 'yes' as const,
      action: 'buy' as const,
      timeInForce: 'immediate_or_cancel' as const,
      feeRule: { type: 'quadratic', multiplier: '1000000' },
      bookFetchedAt: at,
      apiKeyId: uuid(),
      createdAt: at,
    };
    const values = (
      when: string,
      rest: { contracts: number; limitPrice: bigint; status: 'filled' | 'pending'; fees?: bigint },
    ) => ({
      ...order,
      id: uuid({ msecs: Date.parse(when) }),
      idempotencyKey: uuid(),
      clientOrderId: uuid(),
      ...rest,
    });
    await database.db.orm.insert(tradingOrders).values([
      values('2026-11-20T23:59:59.999Z', { contracts: 900, limitPrice: 90n * CENT, status: 'filled' }),
      values('2026-11-21T00:00:00Z', {
        contracts: 250,
        limitPrice: 20n * CENT,
        status: 'filled',
        fees: 280n * CENT,
      }),
      // This order may cost 40 more dollars in the same event.
      values('2026-11-21T14:00:00Z', { contracts: 50, limitPrice: 80n * CENT, status: 'pending' }),
    ]);
    const { words } = await see();
    for (const text of [
      // The account was worth 920 at midnight and is worth 910 now.
      /Daily loss .* Contracts without a bid count as \$0\. .* \$50\.00 \$10\.00 lost/,
      /Worst case per event .* \$120\.00 \$100\.00 Worst event: New York high, 10 Nov 2026\./,
      /400 contracts 100 Largest position: YES of New York high, 10 Nov 2026, 50° to 51°\./,
      /1,000 contracts default 250 Largest order today\./,
      /\$250\.00 default \$52\.80 Most expensive purchase today, including the fee/,
      /20 default 1 /,
    ])
      expect(words).toMatch(text);
    expect((await see(`${PAGE}?mode=live`)).words).toContain('Nothing yet.');
    expect((await see(`${PAGE}?mode=both`)).status).toBe(400);
  });
});

describe('the Organization’s own switch', () => {
  it('needs a confirmation and a reason, which everybody sees with author and time', async () => {
    const { see, set, audit, user, path } = await enter('admin');
    expect((await see()).main).toContain(`${SWITCH}?state=halt`);
    expect((await see(`${SWITCH}?state=halt`)).words).toContain(
      'Starting with the next order, every order is refused',
    );
    const answer = await set('halt', '  a look at the fills ');
    expect([answer.status, answer.headers.get('location')]).toEqual([303, `${PAGE}?done=halt`]);
    const { words, main } = await see(`${PAGE}?done=halt`);
    expect(words).toContain('Trading is halted. It takes effect on the next order.');
    expect(words).toMatch(/Trading is halted: every order is refused\. .*: no orders\. a look at the fills/);
    expect(words).toContain('Kill switch Halted');
    expect(words).toContain(`by ${user.name}`);
    expect(main).not.toContain(`${SWITCH}?state=halt`);
    expect((await operator('GET', `${path}/trading/switch`)).body).toMatchObject({
      state: 'halt',
      operator: { state: 'open' },
      own: { reason: 'a look at the fills', by: { id: user.id, name: user.name } },
    });

    // Submitting the form again changes nothing and adds no audit entry.
    expect((await set('halt', 'a look at the fills')).status).toBe(303);
    expect(await audit()).toMatchObject([
      { actor: user.id, target: 'own', details: { after: { state: 'halt', reason: 'a look at the fills' } } },
    ]);
    expect((await set('open')).headers.get('location')).toBe(`${PAGE}?done=open`);
    expect((await see()).words).not.toContain('Trading is halted');
    expect(await audit()).toHaveLength(2);
  });

  it('needs a reason to close, and keeps the typed values', async () => {
    const { set, audit } = await enter();
    for (const reason of [undefined, '', '   ']) {
      const { status, text } = await set('reduce_only', reason);
      expect([status, /Required[., ]/.test(toWords(text))]).toEqual([400, true]);
    }
    const long = await set('halt', `${'r'.repeat(300)}!`);
    expect([long.status, long.text.includes('rrr!')]).toEqual([400, true]);
    expect((await set('halt', 'nul\u0000')).status).toBe(400);
    expect((await set('closed', 'r')).status).toBe(400);
    expect((await set('', 'r')).status).toBe(400);
    expect(await audit()).toEqual([]);
  });

  it('has no confirmation page for an unknown state', async () => {
    const { see } = await enter();
    for (const query of ['', '?state=closed', '?state=halt&state=open', '?state=%00'])
      expect([query, (await see(SWITCH + query)).status]).toEqual([query, 400]);
  });

  it('is not offered to members and billing', async () => {
    for (const role of ['member', 'billing'] as const) {
      const { see } = await enter(role);
      expect((await see()).main).not.toContain(SWITCH);
    }
  });

  it('shows a hostile reason as text', async () => {
    const { see, set } = await enter();
    for (const reason of ['<script>alert(1)</script>', '"><img src=x>', 'שלום ‮evil']) {
      expect((await set('halt', reason)).status).toBe(303);
      const { main, status } = await see();
      expect(status).toBe(200);
      expect(main).not.toMatch(/<script|<img/);
    }
  });
});

describe('the switches of operator and service', () => {
  it('are shown with their reasons and stay closed, whatever the Organization sets', async () => {
    const { see, set, path } = await enter();
    await operator('PUT', `${path}/trading/switch`, { state: 'reduce_only', reason: 'prices look wrong' });
    expect((await see()).words).toMatch(
      /Only orders that reduce positions are accepted\. .*The operator, for your Organization, .*: only orders that reduce positions\. prices look wrong/,
    );
    expect((await see()).words).toContain('Kill switch Reduce only');
    await set('halt', 'ours');
    await set('open');
    expect((await operator('GET', `${path}/trading/switch`)).body.state).toBe('reduce_only');
    await operator('PUT', '/trading/switch', { state: 'halt', reason: 'maintenance' });
    const { words } = await see();
    expect(words).toMatch(
      /Trading is halted: every order is refused\. .*for the whole service, .*: no orders\. maintenance/,
    );
    await operator('PUT', '/trading/switch', { state: 'open' });
  });

  it('are not visible to other Organizations', async () => {
    const [one, other] = [await enter(), await enter()];
    await one.set('halt', 'only ours');
    expect((await other.see()).words).not.toContain('only ours');
    expect((await other.see()).words).not.toContain('halted');
  });
});
