import { v7 as uuid } from 'uuid';
import { afterEach, describe, expect, it } from 'vitest';
import { newFormId } from '../../src/core/ids.js';
import type { Database } from '../../src/core/db/client.js';
import { marketAccesses, type MarketAccess, type Role } from '../../src/accounts/organizations/table.js';
import { linksOf, textOf } from '../accounts/api-keys/html.js';
import { addMember, Browser, createUser } from '../support/accounts.js';
import { createTrader, postTrade, useTradingTest, TICKER } from '../markets/support/trade.js';
import { createKey } from '../support/fixtures.js';
import { operatorClient } from '../support/operator.js';

const { database, service } = useTradingTest(
  {
    app: { signInLimits: { perAddress: 10_000 } },
    env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' },
  },
  (db) => interrupted(db),
);
/** Runs once, before the next order's transaction begins. */
let meanwhile: (() => Promise<unknown>) | undefined;
afterEach(() => {
  meanwhile = undefined;
});

const interrupted = (db: Database): Database => ({
  ...db,
  async transaction(work) {
    const happens = meanwhile;
    meanwhile = undefined;
    await happens?.();
    return db.transaction(work);
  },
});

const operator = operatorClient(() => service);
const html = { accept: 'text/html' };

const allow = async (slug: string, marketAccess: MarketAccess) => {
  const { status, body } = await operator('PUT', `/organizations/${slug}`, { name: slug, marketAccess });
  expect([status, body.marketAccess]).toEqual([200, marketAccess]);
};

/** Creates an Organization that holds 5 YES contracts, and a browser in which a member is signed in. */
async function setUp(access: MarketAccess, role: Role = 'owner') {
  const trader = await createTrader(database.db);
  expect((await postTrade(service.url, trader.secret)).status).toBe(201);
  const user = await createUser(database.db);
  await addMember(database.db, trader.orgId, user.id, role);
  const browser = new Browser(service.url);
  await browser.signIn(user.email);
  await service.trading.refresher.refresh();
  await service.showBook(service.markets.books.get(TICKER)!);
  await allow(trader.slug, access);
  return { ...trader, browser };
}

const call = async (path: string, secret: string) => {
  const response = await fetch(service.url + path, { headers: { authorization: `Bearer ${secret}` } });
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check what the response contains
  return { status: response.status, body: (await response.json()) as any };
};

const pages = [
  '/dashboard/markets',
  '/dashboard/markets?station=KNYC',
  `/dashboard/markets/${TICKER}`,
  '/dashboard/scores',
  '/dashboard/portfolio',
  '/dashboard/portfolio/orders',
  '/dashboard/portfolio/settlements',
  '/dashboard/portfolio/trades.csv',
  '/dashboard/portfolio/risk',
];
const reads = ['/portfolio', '/trades'];
const isOffered = { none: [], read: ['trading:read'], trade: ['trading:read', 'trading:write'] };

describe.each(marketAccesses)('an Organization with the access %s', (access) => {
  it('sees both the market pages and the links to them, or neither', async () => {
    const { browser } = await setUp(access);
    const { text } = await browser.get('/dashboard', html);
    for (const section of ['markets', 'scores', 'portfolio'])
      expect([section, text.includes(`href="/dashboard/${section}"`)]).toEqual([section, access !== 'none']);
    for (const page of pages) {
      const { status, text } = await browser.get(page, html);
      expect([page, status]).toEqual([page, access === 'none' ? 403 : 200]);
      if (status === 403)
        expect(text).toContain('has no access to markets. Ask the operator of this service');
    }
  });

  it('answers keys with the codes of the contract', async () => {
    const { secret } = await setUp(access);
    for (const path of reads) {
      const { status, body } = await call(path, secret);
      expect([path, status, body.code]).toEqual(
        access === 'none' ? [path, 403, 'entitlement_required'] : [path, 200, undefined],
      );
    }
    const bought = await postTrade(service.url, secret, { contracts: 1, limitPrice: '0.46' });
    expect([bought.status, bought.code]).toEqual(
      { none: [403, 'entitlement_required'], read: [403, 'entitlement_read_only'], trade: [201, undefined] }[
        access
      ],
    );
    const sold = await postTrade(service.url, secret, { action: 'sell', contracts: 2, limitPrice: '0.42' });
    expect([sold.status, sold.code]).toEqual(
      access === 'none' ? [403, 'entitlement_required'] : [201, undefined],
    );
    const closed = await postTrade(service.url, secret, { side: 'no', contracts: 2, limitPrice: '0.58' });
    expect(closed.status).toBe(access === 'none' ? 403 : 201);
    expect((await fetch(`${service.url}/markets`)).status).toBe(200);
  });

  it('offers and creates keys with the corresponding scopes', async () => {
    const { browser } = await setUp(access);
    const { text } = await browser.get('/dashboard/api-keys/new', html);
    const shown = [...text.matchAll(/value="(trading:\w+)"/g)].map((match) => match[1]);
    expect(shown).toEqual(isOffered[access]);
    for (const scope of isOffered.trade) {
      const key = { name: 'Key', livemode: false, scopes: ['usage:write', scope] };
      const { status, body } = await browser.send('POST', '/dashboard/api-keys', { json: key });
      if (shown.includes(scope)) expect([scope, status]).toEqual([scope, 201]);
      else
        expect([scope, status, body]).toMatchObject([
          scope,
          400,
          { code: 'invalid_request', errors: [{ pointer: '/scopes/1', code: 'invalid_request' }] },
        ]);
      const form = { id: newFormId(service.clock.now()), name: 'Key', livemode: 'false', scopes: scope };
      const sent = await browser.send('POST', '/dashboard/api-keys', { form, headers: html });
      expect([scope, sent.status]).toEqual([scope, shown.includes(scope) ? 201 : 400]);
    }
  });
});

it('a key that has the scopes keeps them, through rotation and for the day when access returns', async () => {
  const { browser, slug, orgId } = await setUp('none');
  const { id, secret } = await createKey(database.db, orgId, { scopes: ['usage:write', 'trading:read'] });
  expect((await call('/portfolio', secret)).body.code).toBe('entitlement_required');
  expect((await call('/api/key', secret)).status).toBe(200);
  const rotated = await browser.send('POST', `/dashboard/api-keys/${id}/rotate`, { json: {} });
  expect([rotated.status, rotated.body.apiKey.scopes]).toEqual([201, ['usage:write', 'trading:read']]);
  await allow(slug, 'read');
  expect((await call('/portfolio', rotated.body.secret)).status).toBe(200);
});

describe('an order in flight while the access changes', () => {
  it.each([
    ['none', 'entitlement_required'],
    ['read', 'entitlement_read_only'],
  ] as const)('is refused if it changes to %s', async (access, code) => {
    const { slug, secret } = await setUp('trade');
    const before = (await call('/trades', secret)).body.trades.length;
    meanwhile = () => allow(slug, access);
    const refused = await postTrade(service.url, secret, { contracts: 1, limitPrice: '0.46' });
    expect([refused.status, refused.code]).toEqual([403, code]);
    await allow(slug, 'trade');
    expect((await call('/trades', secret)).body.trades).toHaveLength(before);
  });

  it('is repeated unchanged if it had been placed', async () => {
    const { slug, secret } = await setUp('trade');
    const once = { 'idempotency-key': uuid() };
    const order = { contracts: 1, limitPrice: '0.46' };
    const placed = await postTrade(service.url, secret, order, once);
    await allow(slug, 'read');
    const repeated = await postTrade(service.url, secret, order, once);
    expect([placed.status, repeated.status, repeated.trade]).toEqual([201, 200, placed.trade]);
  });

  it('from the page shows why it was refused, and a sale is placed', async () => {
    const { slug, browser } = await setUp('trade');
    const ticket = (fields: object) => ({
      form: {
        id: newFormId(service.clock.now()),
        side: 'yes',
        timeInForce: 'immediate_or_cancel',
        contracts: '1',
        ...fields,
      },
      headers: html,
    });
    const path = `/dashboard/markets/${TICKER}`;
    meanwhile = () => allow(slug, 'read');
    const refused = await browser.send('POST', path, ticket({ action: 'buy', limitPrice: '46' }));
    expect([refused.status, textOf(refused)]).toEqual([
      403,
      expect.stringContaining('Your Organization may not open positions.'),
    ]);
    const sold = await browser.send('POST', path, ticket({ action: 'sell', limitPrice: '42' }));
    expect([sold.status, sold.headers.get('location')]).toEqual([303, expect.stringMatching(/done=placed/)]);
  });
});

it('a member with read access is offered only sales of positions, and learns why', async () => {
  const { browser } = await setUp('read');
  const overview = await browser.get('/dashboard/markets', html);
  expect(textOf(overview)).toContain('may view markets and sell what it holds, but not open positions');
  const ticket = await browser.get(`/dashboard/markets/${TICKER}`, html);
  expect(textOf(ticket)).toContain('Sell YES');
  expect(textOf(ticket)).toContain('Sell on paper');
  for (const page of [overview, ticket])
    expect(linksOf(page).filter((link) => link.includes('action=buy'))).toEqual([]);
  const asked = await browser.get(`/dashboard/markets/${TICKER}?action=buy&side=yes&contracts=1`, html);
  expect(textOf(asked)).toContain('Your Organization may not open positions.');
  expect(textOf(asked)).not.toContain('Place paper order');
  const other = await browser.get('/dashboard/markets/KXHIGHNY-26NOV21-B42.5', html);
  expect(textOf(other)).toContain('it holds nothing here to sell');
  expect(textOf(other)).not.toContain('Place paper order');
});

it('no role can do more than its Organization, and no Organization loses what another one lost', async () => {
  for (const role of ['admin', 'member', 'billing'] as const) {
    const { browser } = await setUp('none', role);
    expect([role, (await browser.get('/dashboard/portfolio', html)).status]).toEqual([role, 403]);
    const sent = { form: { state: 'halt', reason: 'x' }, headers: html };
    expect((await browser.send('POST', '/dashboard/portfolio/risk/switch', sent)).status).toBe(403);
  }
  const { browser, secret } = await setUp('trade');
  expect((await browser.get('/dashboard/portfolio', html)).status).toBe(200);
  expect((await call('/portfolio', secret)).status).toBe(200);
});

describe('the operator API', () => {
  it('defaults to `trade` for a new Organization, and keeps an existing access that is omitted', async () => {
    const slug = `org-${uuid()}`;
    const put = (body: object) => operator('PUT', `/organizations/${slug}`, { name: 'Initech', ...body });
    expect(await put({})).toMatchObject({ status: 201, body: { marketAccess: 'trade' } });
    expect(await put({ marketAccess: 'read' })).toMatchObject({
      status: 200,
      body: { marketAccess: 'read' },
    });
    expect(await put({ name: 'Other' })).toMatchObject({ body: { name: 'Other', marketAccess: 'read' } });
    expect(await operator('GET', `/organizations/${slug}`)).toMatchObject({ body: { marketAccess: 'read' } });
    const { body } = await operator('GET', `/organizations/${slug}/audit-log`);
    expect(body.auditLog[1].details).toEqual({
      before: { marketAccess: 'trade' },
      after: { marketAccess: 'read' },
    });
    const entries = body.auditLog.length;
    await put({ name: 'Other', marketAccess: 'read' });
    expect((await operator('GET', `/organizations/${slug}/audit-log`)).body.auditLog).toHaveLength(entries);
  });

  it.each(['', 'TRADE', 'write', 'none\u0000', null, 1, true, [], {}, "'; drop table organizations; --"])(
    'refuses %j and names the field',
    async (marketAccess) => {
      const slug = `org-${uuid()}`;
      const answer = await operator('PUT', `/organizations/${slug}`, { name: 'Initech', marketAccess });
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'invalid_request', errors: [{ pointer: '/marketAccess' }] },
      });
      expect((await operator('GET', `/organizations/${slug}`)).status).toBe(404);
    },
  );
});
