import { eq } from 'drizzle-orm';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ledgerEntries } from '../../../src/markets/ledger/portfolio-table.js';
import { isEmbedded } from '../../support/database.js';
import { Browser, addMember, createUser, signedIn } from '../../support/accounts.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { startTestService, type TestService } from '../../support/service.js';
import {
  type LiveAccount,
  TICKER,
  liveSettings,
  removeKeys,
  openLiveAccount,
} from '../support/live-account.js';
import { signedInOperator } from '../../support/operators.js';
import { operatorClient } from '../../support/operator.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
afterAll(async () => {
  removeKeys();
});
afterEach(() => account.stop());

const call = operatorClient(() => account.service);
const path = () => `/organizations/${account.organization.slug}/trading/reconciliation`;
const read = async () => (await call('GET', path())).body;
const accept = () => call('PUT', path(), { accept: true });
const entries = () =>
  database.db.orm.select().from(ledgerEntries).where(eq(ledgerEntries.orgId, account.organization.id));
/** Cost of 6 contracts at 0.45 and 4 at 0.46, plus fees of 0.10395 and 0.069552. */
const COST = 4_713_600n;

describe('a live account', () => {
  it("is opened with the venue's cash, and leaves foreign positions alone", async () => {
    account = await openLiveAccount(database.db, { isClosed: true });
    account.venue.exchange.balanceCents = 123_456;
    account.venue.exchange.positions.set('KXOTHER-1', -25).set(TICKER, 3);
    await expect(account.place()).rejects.toMatchObject({ code: 'unavailable' });
    await account.live.reconcile();
    expect(await read()).toMatchObject({
      state: 'open',
      reason: null,
      differences: [],
      foreign: {
        positions: [
          { ticker: TICKER, contracts: '3.00' },
          { ticker: 'KXOTHER-1', contracts: '-25.00' },
        ],
      },
    });
    expect(await entries()).toMatchObject([
      { kind: 'deposit', cash: 1_234_560_000n, capital: -1_234_560_000n },
    ]);
    // These contracts are added to the foreign position; both sides still agree.
    await account.place();
    await account.live.reconcile();
    expect(await read()).toMatchObject({ state: 'open', foreign: { positions: [{}, {}] } });
    expect((await account.books()).cash).toBe(1_234_560_000n - COST);
    // The foreign position is sold or settled, which does not affect Gauge.
    account.venue.exchange.positions.delete('KXOTHER-1');
    await account.live.reconcile();
    expect(await read()).toMatchObject({ state: 'open' });
  });

  it('is opened once by two instances that start together', async () => {
    account = await openLiveAccount(database.db, { isClosed: true });
    const next = await account.start();
    await Promise.all([account.live.reconcile(), next.trading.live!.reconcile()]);
    await Promise.all([account.live.reconcile(), next.trading.live!.reconcile()]);
    expect(await entries()).toHaveLength(1);
    expect([account.live.report.state, next.trading.live!.report.state]).toEqual(['open', 'open']);
  });

  it('is closed until the venue can be read, and closes again after minutes without it', async () => {
    account = await openLiveAccount(database.db, { isClosed: true });
    account.venue.fault = (_req, res) => {
      res.writeHead(503).end();
      return true;
    };
    await account.live.reconcile();
    expect(() => account.live.assertOpen()).toThrow(/the venue's account cannot be read/);
    account.venue.fault = undefined;
    await account.live.reconcile();
    account.live.assertOpen();
    account.venue.fault = (req) => Boolean(req.socket.destroy());
    account.service.clock.advance(60_000);
    await account.live.reconcile();
    account.live.assertOpen();
    account.service.clock.advance(180_000);
    await account.live.reconcile();
    expect(() => account.live.assertOpen()).toThrow(/the venue's account cannot be read/);
  });

  it('is closed at once by an unexpected answer', async () => {
    account = await openLiveAccount(database.db);
    account.venue.fault = (_req, res, at) => {
      if (at !== '/portfolio/balance') return false;
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"available":1}');
      return true;
    };
    await account.live.reconcile();
    expect(await read()).toMatchObject({ state: 'closed', reason: expect.stringMatching(/balance/) });
  });
});

describe.runIf(isEmbedded)('forecasts that are free only for non-commercial use', () => {
  const RISK = '/dashboard/portfolio/risk';
  const html = { accept: 'text/html' };
  const enter = async (service: TestService, orgId: string) => {
    const { id, email } = await createUser(database.db);
    await addMember(database.db, orgId, id, 'member');
    const browser = new Browser(service.url);
    await browser.signIn(email);
    return (await browser.get(RISK, html)).text;
  };

  it('are listed on the live Organization’s risk page and on the console until a subscription is configured', async () => {
    account = await openLiveAccount(database.db);
    const { service, organization, venue } = account;
    const warning = /free service of Open-Meteo, which is for non-commercial/;
    expect(await enter(service, organization.id)).toMatch(warning);
    expect(await enter(service, (await createOrganization(database.db)).id)).not.toMatch(warning);
    const operator = await signedInOperator(service);
    expect((await operator.browser.get('/console/trading', html)).text).toMatch(
      /free service of Open-Meteo.*OPEN_METEO_API_KEY/,
    );
    const { env, trading } = liveSettings(venue, organization.slug);
    const subscribed = await startTestService(database.db, {
      env: { ...env, OPEN_METEO_API_KEY: 'abcDEF123456' },
      trading,
    });
    try {
      const page = await enter(subscribed, organization.id);
      expect(page).toContain('Kill switch');
      expect(page).not.toMatch(warning);
    } finally {
      await subscribed.stop();
    }
  });
});

describe.runIf(isEmbedded)('a request with an invalid signature', () => {
  it('is refused by the venue, and live trading stays closed', async () => {
    account = await openLiveAccount(database.db);
    const wrong = await account.start({ keyFile: 'other' });
    await wrong.trading.live!.reconcile();
    expect(() => wrong.trading.live!.assertOpen()).toThrow(/401/);
    const trade = await account.persist();
    const outcome = await wrong.trading.live!.send({
      ...trade,
      feeRule: { type: 'quadratic', multiplier: 1n },
    });
    expect(outcome).toMatchObject({
      kind: 'rejected',
      reason: expect.stringMatching(/authentication_error/),
    });
    expect(account.arrived()).toEqual([]);
  });

  it('is refused if its time is off', async () => {
    account = await openLiveAccount(database.db);
    account.venue.exchange.now = () => account.service.clock.now() + 60_000;
    await account.live.reconcile();
    expect(() => account.live.assertOpen()).toThrow(/401/);
  });
});

describe('a difference', () => {
  beforeEach(async () => {
    account = await openLiveAccount(database.db);
    await account.place();
    await account.live.reconcile();
  });

  it('closes trading, is named, and reopens trading once it is gone', async () => {
    account.venue.exchange.balanceCents += 5_000;
    await account.live.reconcile();
    await expect(account.place()).rejects.toMatchObject({
      code: 'unavailable',
      message: 'Live trading is closed: cash: 995.2864 here, 1045.2864 at the venue.',
    });
    expect(await read()).toMatchObject({
      state: 'closed',
      differences: [{ kind: 'cash', subject: 'cash', ours: '995.2864', venues: '1045.2864' }],
    });
    account.venue.exchange.balanceCents -= 5_000;
    await account.live.reconcile();
    expect((await account.place()).status).toBe('filled');
  });

  it("can be accepted by the operator: the ledger adopts the venue's value, with an audit row", async () => {
    account.venue.exchange.balanceCents -= 5_000;
    account.venue.exchange.positions.set(TICKER, 7);
    await account.live.reconcile();
    expect((await read()).differences).toHaveLength(2);
    const answer = await accept();
    expect(answer).toMatchObject({
      status: 200,
      body: {
        accepted: [
          { kind: 'position', subject: TICKER, ours: '10.00', venues: '7.00' },
          { kind: 'cash', subject: 'cash', ours: '995.2864', venues: '945.2864' },
        ],
        reconciliation: {
          state: 'open',
          differences: [],
          foreign: { positions: [{ ticker: TICKER, contracts: '-3.00' }] },
        },
      },
    });
    const adjustment = (await entries()).filter(({ kind }) => kind === 'adjustment');
    expect(adjustment).toMatchObject([
      { cash: -50_000_000n, capital: 50_000_000n, memo: expect.any(String) },
    ]);
    const { cash, sums } = await account.books();
    expect([cash, sums.cash]).toEqual([945_286_400n, 945_286_400n]);
    const log = (await call('GET', `/organizations/${account.organization.slug}/audit-log`)).body.auditLog;
    expect(log[0]).toMatchObject({
      action: 'live_account.accepted',
      actor: 'operator',
      target: account.organization.slug,
      details: { accepted: [{ kind: 'position' }, { kind: 'cash' }] },
    });
    // Repeating the request changes nothing.
    expect((await accept()).body).toMatchObject({ accepted: [], reconciliation: { state: 'open' } });
    expect((await entries()).filter(({ kind }) => kind === 'adjustment')).toHaveLength(1);
  });

  it('is shown on the console, where a person can accept it', async () => {
    account.venue.exchange.balanceCents -= 1_000;
    await account.live.reconcile();
    const { browser, email } = await signedInOperator(account.service);
    const headers = { accept: 'text/html' };
    for (const address of ['/console/trading', '/console/trading/reconciliation']) {
      const { status, text } = await browser.get(address, headers);
      expect([address, status, text.includes('<code>cash</code>')]).toEqual([address, 200, true]);
    }
    const send = (form: Record<string, string>) =>
      browser.send('POST', '/console/trading/reconciliation', { form, headers });
    expect((await send({})).status).toBe(400);
    expect((await send({ accept: 'yes' })).headers.get('location')).toBe('/console/trading?done=accepted');
    expect(await read()).toMatchObject({ state: 'open', differences: [] });
    const log = (await call('GET', `/organizations/${account.organization.slug}/audit-log`)).body.auditLog;
    expect(log[0]).toMatchObject({ action: 'live_account.accepted', actor: `operator:${email}` });
    expect((await browser.get('/console/trading', headers)).text).toContain('No differences.');
  });

  it('of up to $0.0001 per fill is rounding by the venue and booked as a fee', async () => {
    account.venue.exchange.balanceCents -= 0.02;
    await account.live.reconcile();
    expect(await read()).toMatchObject({ state: 'open', differences: [] });
    const rounding = (await entries()).filter(({ kind }) => kind === 'adjustment');
    expect(rounding).toMatchObject([{ cash: -200n, fees: 200n, capital: 0n }]);
    // The rounding allowed for the fills so far is used up, so any further difference counts.
    account.venue.exchange.balanceCents -= 0.01;
    await account.live.reconcile();
    expect((await read()).state).toBe('closed');
  });

  it('in one of our orders is not reported again once accepted', async () => {
    account.venue.exchange.orders.pop();
    await account.live.reconcile();
    expect((await read()).differences).toMatchObject([{ kind: 'order', venues: 'not listed' }]);
    await accept();
    expect(await read()).toMatchObject({ state: 'open', differences: [] });
  });

  it('caused by others is shown and never adopted', async () => {
    const created_time = new Date(account.service.clock.now()).toISOString();
    const mine = account.venue.exchange.orders[0]!;
    account.venue.exchange.orders.push({
      ...mine,
      order_id: 'by-hand',
      client_order_id: '',
      filled: 0,
      status: 'resting',
      created_time,
    });
    await account.live.reconcile();
    expect(await read()).toMatchObject({
      state: 'open',
      foreign: { orders: [{ venueOrderId: 'by-hand', status: 'resting', filled: '0.00' }] },
    });
    expect(
      (await account.service.trading.orders.list({ orgId: account.organization.id, limit: 10 })).trades,
    ).toHaveLength(1);
    // Only the live Organization sees the reconciliation report in its portfolio.
    const portfolioOf = async (orgId: string) => {
      const { secret } = await createKey(database.db, orgId, { scopes: ['trading:read'] });
      const headers = { authorization: `Bearer ${secret}` };
      return (await fetch(`${account.service.url}/portfolio?mode=live`, { headers })).json() as Promise<any>;
    };
    expect((await portfolioOf(account.organization.id)).venue).toEqual(await read());
    const user = await createUser(database.db);
    await addMember(database.db, account.organization.id, user.id, 'member');
    const browser = new Browser(account.service.url);
    await browser.signIn(user.email);
    const page = await browser.get('/dashboard/portfolio?mode=live', { accept: 'text/html' });
    expect(page.text).toContain('Live trading is open');
    expect(page.text).toContain('never counted as yours');
    const other = await signedIn(database.db, account.service.url);
    expect((await portfolioOf(other.organization.id)).venue).toBeNull();
    const theirs = await other.browser.get('/dashboard/portfolio?mode=live', { accept: 'text/html' });
    expect(theirs.text).toContain('does not trade live on this server');
    expect(theirs.text).not.toContain('by-hand');
    // Other parties' orders are not cancelled.
    expect(account.venue.exchange.orders.at(-1)!.status).toBe('resting');
  });

  it('is not reported while only the venue has settled a market', async () => {
    account.venue.exchange.positions.delete(TICKER);
    account.venue.exchange.balanceCents += 1_000;
    account.venue.exchange.settlements.push({
      ticker: TICKER,
      event_ticker: 'KXHIGHNY-26JUL04',
      market_result: 'yes',
      yes_count_fp: '10.00',
      yes_total_cost_dollars: '4.5400',
      no_count_fp: '0.00',
      no_total_cost_dollars: '0.0000',
      revenue: 1000,
      settled_time: '2026-07-05T12:00:00Z',
      fee_cost: '0.0000',
    });
    await account.live.reconcile();
    expect(await read()).toMatchObject({ state: 'open', differences: [], settling: [TICKER] });
  });

  it('cannot be accepted while an order’s outcome is unknown', async () => {
    await account.persist();
    expect(await accept()).toMatchObject({ status: 503, body: { code: 'unavailable' } });
  });
});

describe('/operator/organizations/:slug/trading/reconciliation', () => {
  it('accepts only the Organization that trades live, and an explicit confirmation', async () => {
    account = await openLiveAccount(database.db);
    const other = await createOrganization(database.db);
    const otherPath = `/organizations/${other.slug}/trading/reconciliation`;
    expect((await call('GET', otherPath)).body).toMatchObject({ state: 'off', organization: other.slug });
    expect(await call('PUT', otherPath, { accept: true })).toMatchObject({
      status: 403,
      body: { code: 'live_trading_disabled' },
    });
    for (const body of [
      {},
      { accept: false },
      { accept: 'true' },
      { accept: true, more: 1 },
      [],
      '{',
      '"\u0000"',
    ])
      expect((await call('PUT', path(), body)).status, JSON.stringify(body)).toBe(400);
  });
});

describe.runIf(isEmbedded)('live trading stays off if any one switch is missing:', () => {
  const order = {
    ticker: TICKER,
    side: 'yes',
    action: 'buy',
    contracts: 1,
    limitPrice: '0.4700',
    mode: 'live',
  };
  let n = 0;
  const post = async (url: string, secret: string) => {
    const response = await fetch(`${url}/trade`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${secret}`,
        'content-type': 'application/json',
        'idempotency-key': `switch-${++n}`,
      },
      body: JSON.stringify(order),
    });
    const body = (await response.json()) as { code?: string; trade?: { status: string } };
    return [response.status, body.code ?? body.trade?.status];
  };
  const scopes = ['trading:read', 'trading:write'];
  const disabled = [403, 'live_trading_disabled'];

  it('the key, the server, the Organization', async () => {
    account = await openLiveAccount(database.db);
    expect(await post(account.service.url, account.apiKey.secret)).toEqual([201, 'filled']);
    const test = await createKey(database.db, account.organization.id, { scopes, livemode: false });
    expect(await post(account.service.url, test.secret)).toEqual(disabled);
    await expectPaperOnly(account.service.url, test.secret, account.apiKey.secret);
    const other = await createOrganization(database.db);
    const foreign = await createKey(database.db, other.id, { scopes });
    expect(await post(account.service.url, foreign.secret)).toEqual(disabled);
    const off = await startTestService(database.db, {
      env: { MARKET_SOURCE: 'kalshi', KALSHI_BASE_URL: account.venue.url, KALSHI_SERIES: 'KXHIGHNY' },
    });
    expect(await post(off.url, account.apiKey.secret)).toEqual(disabled);
    await off.stop();
    expect(account.arrived()).toHaveLength(1);
  });
});

/** Asserts that a test key cannot see the live order. */
async function expectPaperOnly(url: string, testSecret: string, liveSecret: string): Promise<void> {
  const read = async (path: string, secret: string) => {
    const response = await fetch(url + path, { headers: { authorization: `Bearer ${secret}` } });
    const body = (await response.json()) as { code?: string; trades?: { id: string }[] };
    return { status: response.status, ...body };
  };
  const [trade] = (await read('/trades?mode=live', liveSecret)).trades!;
  expect((await read('/trades', liveSecret)).trades).toHaveLength(1);
  expect((await read('/trades', testSecret)).trades).toEqual([]);
  const one = `/trades/${trade!.id}`;
  expect((await read(one, liveSecret)).status).toBe(200);
  expect(await read(one, testSecret)).toMatchObject({ status: 404, code: 'not_found' });
  for (const path of ['/portfolio?mode=live', '/trades?mode=live']) {
    expect((await read(path, liveSecret)).status).toBe(200);
    expect(await read(path, testSecret)).toMatchObject({ status: 403, code: 'live_trading_disabled' });
  }
  expect((await read('/portfolio', testSecret)).status).toBe(200);
}
