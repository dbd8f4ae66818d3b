import { and, eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { createApp } from '../../src/app.js';
import { auditLog, operatorLog } from '../../src/accounts/audit/table.js';
import { operators } from '../../src/accounts/identity/table.js';
import { memberships } from '../../src/accounts/organizations/table.js';
import { deleteExpiredPortalSessions } from '../../src/accounts/portal/queries.js';
import { portalSessions } from '../../src/accounts/portal/table.js';
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.js';
import { listPageRoutes } from '../openapi/support/mounted-routes.js';
import { foreignNames, MARKER, ordinaryNames, populate, type Populated } from './populated.js';
import { Browser } from '../support/accounts.js';
import { countChanges } from '../support/counted-changes.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator } from '../support/operators.js';
import { useService, useServiceOn } from '../support/use.js';

const { database, service } = useService({ env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' } });
const ORIGIN = 'https://app.example.com';
const framed = useServiceOn(() => database.db, { env: { PORTAL_ORIGINS: `${ORIGIN},https://b.example` } });
const operate = operatorClient(() => service);
let own: Populated;
let foreign: Populated;
beforeAll(async () => {
  own = await populate(service, ordinaryNames);
  foreign = await populate(service, foreignNames);
});

const html = { accept: 'text/html,*/*;q=0.8' };
const READ_PAGES = ['usage', 'entitlements', 'credits', 'events'];
/** Events are part of the page of usage, at its address. */
const statusOf = (path: string, page: string) =>
  path !== 'events' && (path === page || (path === 'usage' && page === 'events')) ? 200 : 404;

async function serviceKey(scopes = ['portal:create', 'portal:keys', 'usage:write']) {
  const { body } = await operate('POST', '/service-keys', { name: 'website', livemode: true, scopes });
  return body as { secret: string; serviceKey: { id: string } };
}

async function post(secret: string, path: string, body?: object, method = 'POST', url = service.url) {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${secret}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Record<string, any> };
}

const sessionsOf = (of: Populated) => `/service/organizations/${of.slug}/portal-sessions`;
const pathOf = ({ url }: Record<string, any>) => (url as string).slice(service.url.length);

/** A browser with a session, and the key that made it. */
async function open(body: object = {}, of = own, key?: Awaited<ReturnType<typeof serviceKey>>) {
  const made = key ?? (await serviceKey());
  const answer = await post(made.secret, sessionsOf(of), body);
  expect([answer.status, answer.body]).toEqual([201, expect.anything()]);
  const browser = new Browser(service.url);
  const opened = await browser.get(pathOf(answer.body), html);
  expect([opened.status, opened.headers.get('location')]).toEqual([303, '/portal']);
  return { browser, key: made, path: pathOf(answer.body) };
}

const view = (browser: Browser, path: string) => browser.get(`/portal${path}`, html);

describe('a link to the portal', () => {
  it('opens once, and leads to the first page', async () => {
    const { browser, path } = await open();
    expect((await view(browser, '')).headers.get('location')).toBe('/portal/usage');
    const page = await view(browser, '/usage');
    expect(page.status).toBe(200);
    expect(page.text).toContain(own.name);
    const again = await new Browser(service.url).get(path, html);
    expect(again.status).toBe(404);
    expect(again.text).toContain('<h1>This link no longer works</h1>');
    expect(again.text).toContain('This link was used before, or is older than 10 minutes.');
    // The browser that opened it returns to its session; another session is no key to it.
    expect((await browser.get(path, html)).headers.get('location')).toBe('/portal');
    const { browser: other } = await open();
    expect((await other.get(path, html)).status).toBe(404);
    expect((await view(browser, '/usage')).status).toBe(200);
  });

  it('is not used up by a preview', async () => {
    const { secret } = await serviceKey();
    const { body } = await post(secret, sessionsOf(own));
    const browser = new Browser(service.url);
    expect((await browser.send('HEAD', pathOf(body), { headers: html })).status).toBe(200);
    expect((await browser.get(pathOf(body), html)).status).toBe(303);
  });

  it('works for 10 minutes, and its session until it expires', async () => {
    const { secret } = await serviceKey();
    const made = await post(secret, sessionsOf(own), { expiresInMinutes: 15 });
    expect(made.body.expiresAt).toBe(new Date(service.clock.now() + 15 * MINUTE_MS).toISOString());
    const late = await post(secret, sessionsOf(own), { expiresInMinutes: 15 });
    const browser = new Browser(service.url);
    service.clock.advance(10 * MINUTE_MS - 1);
    expect((await browser.get(pathOf(made.body), html)).status).toBe(303);
    service.clock.advance(1);
    expect((await new Browser(service.url).get(pathOf(late.body), html)).status).toBe(404);
    service.clock.advance(5 * MINUTE_MS - 1);
    expect((await view(browser, '/usage')).status).toBe(200);
    service.clock.advance(1);
    const ended = await view(browser, '/usage');
    expect([ended.status, ended.text]).toEqual([401, expect.stringContaining('This view has ended.')]);
    await deleteExpiredPortalSessions(database.db.orm, new Date(service.clock.now()));
    const now = service.clock.now();
    const left = await database.db.orm.select().from(portalSessions);
    expect(left.filter(({ expiresAt }) => expiresAt.getTime() <= now)).toEqual([]);
  });

  it('has a secret that is not stored, and a cookie for the portal alone', async () => {
    const { secret } = await serviceKey();
    const { body } = await post(secret, sessionsOf(own));
    const token = /token=([\w-]{43})$/.exec(body.url as string)![1]!;
    const rows = JSON.stringify(await database.db.orm.select().from(portalSessions));
    expect(rows).not.toContain(token);
    const { headers } = await new Browser(service.url).get(pathOf(body), html);
    const [cookie] = headers.getSetCookie();
    expect(cookie).toMatch(/^gauge_portal=[\w-]{43}; Path=\/portal; HttpOnly; SameSite=Lax$/);
    expect(rows).not.toContain(/=([\w-]{43});/.exec(cookie!)![1]);
  });

  it.each(['', '?token=x', `?token=${'a'.repeat(43)}`, `?token=a&token=b`])(
    'is not found: %s',
    async (query) => {
      const answer = await new Browser(service.url).get(`/portal/open${query}`, html);
      expect(answer.status).toBe(404);
      expect(answer.headers.getSetCookie()).toEqual([]);
    },
  );
});

describe('a session of the portal ends at the next request', () => {
  it.each<[string, (key: Awaited<ReturnType<typeof serviceKey>>, of: Populated) => Promise<unknown>]>([
    ['its service key is revoked', ({ serviceKey: { id } }) => operate('DELETE', `/service-keys/${id}`)],
    [
      'its Organization is archived',
      (_, { slug, name }) => operate('PUT', `/organizations/${slug}`, { name, archived: true }),
    ],
    [
      'a program ends them all',
      async (_, of) => post((await serviceKey()).secret, sessionsOf(of), undefined, 'DELETE'),
    ],
    [
      'an operator ends them all',
      (_, { slug }) => operate('DELETE', `/organizations/${slug}/portal-sessions`),
    ],
  ])('once %s', async (_what, end) => {
    const { browser, key } = await open();
    const waiting = await post(key.secret, sessionsOf(own));
    await end(key, own);
    expect((await view(browser, '/usage')).status).toBe(401);
    expect((await view(browser, '/credits/ledger.csv')).status).toBe(401);
    const late = new Browser(service.url);
    await late.get(pathOf(waiting.body), html);
    expect((await view(late, '/usage')).status).toBe(401);
    await operate('PUT', `/organizations/${own.slug}`, { name: own.name, archived: false });
  });

  it('but not those of another Organization', async () => {
    const there = await open({}, foreign);
    await operate('DELETE', `/organizations/${own.slug}/portal-sessions`);
    expect((await view(there.browser, '/usage')).status).toBe(200);
    const [row] = await database.db.orm
      .select()
      .from(auditLog)
      .where(and(eq(auditLog.orgId, foreign.id), eq(auditLog.action, 'portal_session.ended')));
    expect(row).toBeUndefined();
  });
});

const pages = () =>
  listPageRoutes(createApp(service.context, service.running)).filter(
    (address) => / \/portal/.test(address) && !address.endsWith('/portal/open'),
  );

describe('the pages of the portal', () => {
  it('need a session, each of them', async () => {
    expect(pages().length).toBeGreaterThan(15);
    for (const address of pages()) {
      const [method = '', path = ''] = address.split(' ');
      const browser = new Browser(service.url);
      // A member's session is of no use here.
      browser.cookies = new Map(own.people.owner.browser.cookies);
      const at = path.replace('{id}', own.keyIds[0]!);
      const answer = await browser.send(method.toUpperCase(), at, {
        headers: html,
        ...(method === 'post' && { form: {} }),
      });
      expect([address, answer.status]).toEqual([address, 401]);
    }
  });

  it('are only those of the session', async () => {
    for (const page of READ_PAGES) {
      const { browser } = await open({ pages: [page] });
      const answers = await Promise.all([...READ_PAGES, 'api-keys'].map((path) => view(browser, `/${path}`)));
      expect(answers.map(({ status }) => status)).toEqual(
        [...READ_PAGES, 'keys'].map((path) => statusOf(path, page)),
      );
      expect((await view(browser, '')).headers.get('location')).toBe(
        `/portal/${page === 'events' ? 'usage' : page}`,
      );
    }
  });

  it('show neither people nor keys nor the dashboard, and nothing of another Organization', async () => {
    const { browser } = await open();
    const product = own.productSlugs[0]!;
    for (const path of [
      `/usage?product=${product}`,
      `/usage?product=${product}&range=day`,
      `/usage?product=${product}&mode=test`,
      '/entitlements',
      '/credits',
      '/credits/ledger',
      `/usage?event=${own.eventKeys[0]}`,
    ]) {
      const { status, text } = await view(browser, path);
      expect([path, status]).toEqual([path, 200]);
      for (const name of [...ordinaryNames.people, MARKER]) expect(text).not.toContain(name);
      for (const { email } of Object.values(own.people)) expect(text).not.toContain(email);
      expect(text).not.toMatch(
        /org_(live|test)_|(href|action)="\/(dashboard|console|login|docs)(?!\/assets)/,
      );
    }
    const [theirs] = foreign.productSlugs;
    for (const [path, expected] of [
      ['/usage', 404],
      ['/credits/ledger', 200],
    ]) {
      const { status, text } = await view(browser, `${path}?product=${theirs}`);
      expect([path, status]).toEqual([path, expected]);
      expect(text).not.toContain(MARKER);
    }
  });

  it('refuse a form from another site', async () => {
    const { browser } = await open({ pages: ['keys'], member: own.people.owner.email });
    const headers = { ...html, 'sec-fetch-site': 'cross-site' };
    const answer = await browser.send('POST', '/portal/api-keys', { form: {}, headers });
    expect(answer.status).toBe(403);
  });

  it('take bad input as the dashboard does', async () => {
    const { browser } = await open();
    for (const path of [
      '/usage?range=x',
      '/usage?product=a&product=b',
      '/usage?range=day&hour=x',
      '/usage?cursor=x',
      `/usage?product=${own.productSlugs[0]}&by=key`,
      '/credits?mode=x',
      '/usage?mode=x',
    ])
      expect([path, (await view(browser, path)).status]).toEqual([path, 400]);
    for (const path of ['/nothing', '/usage/events', '/api-keys'])
      expect([path, (await view(browser, path)).status]).toEqual([path, 404]);
  });
});

describe('a session for part of the usage', () => {
  let slug: string;
  let secret: string;
  beforeAll(async () => {
    slug = 'seats';
    await operate('PUT', `/products/${slug}`, { name: 'Seats', usageMetric: 'seats', countsSubjects: true });
    const granted = await operate('PUT', `/organizations/${own.slug}/entitlements/${slug}`, {
      kind: 'live',
      unitCap: 777_777,
      limits: [{ quantity: 40, window: 'P7D', enforcement: 'block', per: 'subject' }],
    });
    expect([granted.status, granted.body.detail]).toEqual([201, undefined]);
    ({ secret } = await serviceKey());
    const event = (subject: string, quantity: number) => ({
      productSlug: slug,
      metric: 'seats',
      subject,
      quantity,
      idempotencyKey: `${subject}-${quantity}`,
    });
    const sent = await post(secret, `/service/organizations/${own.slug}/usage/events`, {
      events: [event('ann', 11), event('ann', 6), event('bob', 500)],
    });
    expect(sent.status).toBe(202);
  });

  it('shows the sums, events and limits of its subject alone', async () => {
    const { browser } = await open({ subject: 'ann' });
    const usage = await view(browser, `/usage?product=${slug}`);
    expect(usage.text).toMatch(/<dt>Used<\/dt>\s*<dd>\s*17\b/);
    expect(usage.text).toContain('ann-11');
    expect((await view(browser, '/usage?event=ann-11')).text).toContain('Recorded once');
    expect((await view(browser, '/usage?event=bob-500')).text).toContain('Not found');
    const entitlements = await view(browser, '/entitlements');
    expect(entitlements.text).toMatch(/<strong>17<\/strong> used\s+of 40/);
    for (const { text } of [usage, entitlements]) {
      expect(text).not.toContain('bob');
      expect(text).not.toMatch(/\b(517|500|777,777)\b/);
    }
    expect((await view(browser, '/credits')).status).toBe(404);
    expect((await view(browser, '/credits/ledger.csv')).status).toBe(404);
  });

  it('shows only its mode, whatever the address says', async () => {
    const { browser } = await open({ livemode: false });
    const { text } = await view(browser, `/usage?product=${slug}&mode=live`);
    expect(text).toContain('No test usage of');
    expect(text).not.toContain('aria-label="Mode"');
    const grants = await view(browser, '/entitlements');
    expect(grants.text).not.toMatch(/\b517\b|Test, counted separately/);
    const live = await open({ livemode: true });
    expect((await view(live.browser, `/usage?product=${slug}&mode=test`)).text).toContain('517');
  });
});

describe('an operator who views the pages as the customer', () => {
  const begin = async (slug = own.slug) => {
    const operator = await signedInOperator(service);
    const started = await operator.browser.send('POST', `/console/customers/${slug}/view`, {
      form: {},
      headers: html,
    });
    expect(started.status).toBe(303);
    const opened = await operator.browser.get(started.headers.get('location')!, html);
    expect(opened.headers.get('location')).toBe('/portal');
    return operator;
  };

  it('chooses who manages API keys among the owners and admins', async () => {
    const { browser } = await signedInOperator(service);
    const path = `/console/customers/${own.slug}/portal`;
    const { text } = await browser.get(path, html);
    const select = /<select\s+id="field-member"[^]*?<\/select>/.exec(text)![0];
    expect(select).toContain(`value="${own.people.admin.email}"`);
    expect(select).not.toContain(own.people.member.email);
    const create = (pages: string) =>
      browser.send('POST', path, {
        form: { pages, member: own.people.admin.email, expiresInMinutes: '60' },
        headers: html,
      });
    // A hidden choice does not matter.
    for (const pages of ['keys', 'usage']) expect((await create(pages)).text).toContain('Link to the portal');
  });

  it('sees the pages without people and keys, and both audit logs name the operator', async () => {
    const { browser, email } = await begin();
    const page = await view(browser, '/usage');
    expect([page.status, page.text.includes('Viewing as')]).toEqual([200, true]);
    expect(page.text).toContain('Read-only, without people, keys and settings.');
    expect((await view(browser, '/api-keys')).status).toBe(404);
    expect((await view(browser, `/usage?product=${foreign.productSlugs[0]}`)).status).toBe(404);
    const rows = [
      ...(await database.db.orm.select().from(auditLog).where(eq(auditLog.orgId, own.id))),
      ...(await database.db.orm.select().from(operatorLog)),
    ].filter(({ action, actor }) => action === 'customer.viewed' && actor === `operator:${email}`);
    expect(rows.map(({ target }) => target)).toEqual([own.slug, own.slug]);
  });

  it('changes nothing: every write is refused with the reason', async () => {
    const { browser } = await begin();
    const writes = pages().filter((address) => !address.startsWith('get '));
    expect(writes.length).toBeGreaterThan(3);
    for (const address of [...writes, 'post /portal/nothing']) {
      const [method, path] = address.replace('{id}', own.keyIds[0]!).split(' ') as [string, string];
      const { status, text } = await browser.send(method.toUpperCase(), path, { form: {}, headers: html });
      expect([address, status, text.includes('a view changes nothing')]).toEqual([address, 403, true]);
    }
  });

  it('ends it with the button, after 30 minutes, and with the right of an operator', async () => {
    const { browser } = await begin();
    const ended = await browser.send('POST', '/portal/end', { form: {}, headers: html });
    expect([ended.status, ended.headers.get('location')]).toEqual([303, `/console/customers/${own.slug}`]);
    expect((await view(browser, '/usage')).status).toBe(401);
    const late = await begin();
    service.clock.advance(30 * MINUTE_MS - 1);
    expect((await view(late.browser, '/usage')).status).toBe(200);
    service.clock.advance(1);
    expect((await view(late.browser, '/usage')).status).toBe(401);
    const former = await begin();
    await database.db.orm.delete(operators).where(eq(operators.userId, former.id));
    expect((await view(former.browser, '/usage')).status).toBe(401);
  });

  it.each(['owner', 'admin', 'member', 'billing'] as const)(
    'but a member with the role %s may not',
    async (role) => {
      const { browser } = own.people[role];
      const answer = await browser.send('POST', `/console/customers/${own.slug}/view`, {
        form: {},
        headers: html,
      });
      expect(answer.status).toBe(404);
      const nobody = await new Browser(service.url).send('POST', `/console/customers/${own.slug}/view`, {
        form: {},
        headers: html,
      });
      expect(nobody.status).toBe(401);
      const { browser: vendors } = await open();
      expect((await vendors.send('POST', '/portal/end', { form: {}, headers: html })).status).toBe(404);
    },
  );
});

describe('API keys in the portal', () => {
  const form = (name: string) => ({ name, livemode: 'true', scopes: 'usage:write' });
  const submit = async (browser: Browser, path: string, fields: Record<string, string>) =>
    browser.send('POST', `/portal${path}`, { form: fields, headers: html });

  async function openKeys(member = own.people.admin.email) {
    const opened = await open({ pages: ['keys'], member });
    const { text } = await view(opened.browser, '/api-keys/new');
    return { ...opened, formId: /name="id" value="([^"]+)"/.exec(text)![1]! };
  }

  it('are managed by the person the vendor vouches for, and audit rows name both', async () => {
    const { browser, key, formId } = await openKeys();
    const created = await submit(browser, '/api-keys', { ...form('made in the portal'), id: formId });
    expect(created.status).toBe(201);
    const secret = /org_live_[0-9A-Za-z]{32}/.exec(created.text)![0];
    expect((await post(secret, '/api/key', undefined, 'GET')).status).toBe(200);
    const rotated = await submit(browser, `/api-keys/${formId}/rotate`, { grace: '0', graceMinutes: '' });
    expect(rotated.status).toBe(201);
    const revoked = await submit(browser, `/api-keys/${formId}/revoke`, {});
    expect([revoked.status, revoked.headers.get('location')]).toEqual([
      303,
      expect.stringMatching(/^\/portal\/api-keys\//),
    ]);
    const rows = await database.db.orm
      .select()
      .from(auditLog)
      .where(eq(auditLog.orgId, own.id))
      .orderBy(auditLog.seq);
    const voucher = `service_key:${key.serviceKey.id}`;
    const named = rows.filter(({ details }) => (details as { voucher?: string }).voucher === voucher);
    expect(named.map(({ action, actor }) => [action, actor])).toEqual(
      ['api_key.created', 'api_key.rotated', 'api_key.revoked'].map((action) => [
        action,
        own.people.admin.id,
      ]),
    );
    expect(
      rows.find(({ action, actor }) => action === 'portal_session.created' && actor === voucher),
    ).toMatchObject({
      target: own.people.admin.email,
    });
  });

  it('are not reachable in another Organization', async () => {
    const { browser } = await openKeys();
    for (const path of ['', '/rotate', '/revoke', '/rename', '/cut-over'])
      expect((await view(browser, `/api-keys/${foreign.keyIds[0]}${path}`)).status).toBe(404);
    const changes = await countChanges(database.db);
    const before = await changes();
    for (const path of ['/rotate', '/revoke', '/rename'])
      expect(
        (await submit(browser, `/api-keys/${foreign.keyIds[0]}${path}`, { name: 'x', grace: '0' })).status,
      ).toBe(404);
    expect(await changes()).toBe(before);
  });

  it('are closed to a person who is no owner or admin any more', async () => {
    const { browser, formId } = await openKeys();
    const { id } = own.people.admin;
    const set = (role: 'admin' | 'member') =>
      database.db.orm
        .update(memberships)
        .set({ role })
        .where(and(eq(memberships.orgId, own.id), eq(memberships.userId, id)));
    await set('member');
    const answer = await submit(browser, '/api-keys', { ...form('too late'), id: formId });
    const page = await view(browser, '/api-keys');
    await set('admin');
    expect([answer.status, page.status]).toEqual([403, 403]);
  });

  it('are closed once the Organization requires more than a vendor can vouch for', async () => {
    const { browser, key } = await openKeys();
    const put = (requireSecondFactor: boolean) =>
      operate('PUT', `/organizations/${own.slug}`, { name: own.name, requireSecondFactor });
    await put(true);
    const refused = await post(key.secret, sessionsOf(own), {
      pages: ['keys'],
      member: own.people.admin.email,
    });
    const page = await view(browser, '/api-keys');
    await put(false);
    expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(refused.body.detail).toContain('requires a second factor');
    expect(page.status).toBe(403);
  });

  it('need the scope portal:keys and an owner or admin', async () => {
    const { secret } = await serviceKey(['portal:create']);
    const ask = { pages: ['keys'], member: own.people.owner.email };
    expect(await post(secret, sessionsOf(own), ask)).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
    const whole = await serviceKey();
    for (const member of [own.people.member.email, foreign.people.owner.email, 'nobody@example.com'])
      expect(await post(whole.secret, sessionsOf(own), { ...ask, member })).toMatchObject({
        status: 400,
        body: { errors: [{ pointer: '/member' }] },
      });
    expect(
      await post(whole.secret, sessionsOf(own), {
        ...ask,
        member: ` ${own.people.owner.email.toUpperCase()}`,
      }),
    ).toMatchObject({ status: 201 });
  });
});

describe('a portal in a frame', () => {
  it('opens on the origins of PORTAL_ORIGINS, with a cookie for that frame', async () => {
    const { secret } = await serviceKey();
    const { body } = await post(secret, sessionsOf(own), {}, 'POST', framed.url);
    const path = (body.url as string).slice(framed.url.length);
    const inFrame = { ...html, 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'cross-site' };
    const elsewhere = await fetch(framed.url + path, {
      headers: { ...inFrame, referer: 'https://evil.example/' },
      redirect: 'manual',
    });
    expect(elsewhere.status).toBe(403);
    expect(await elsewhere.text()).toContain('https://evil.example is not one of them');
    const opened = await fetch(framed.url + path, {
      headers: { ...inFrame, referer: `${ORIGIN}/` },
      redirect: 'manual',
    });
    expect(opened.status).toBe(303);
    expect(opened.headers.getSetCookie()).toEqual([
      expect.stringMatching(
        /^__Secure-gauge_portal=[\w-]{43}; Path=\/portal; HttpOnly; Secure; Partitioned; SameSite=None$/,
      ),
    ]);
    const cookie = opened.headers.getSetCookie()[0]!.split(';')[0]!;
    const page = await fetch(`${framed.url}/portal/usage`, { headers: { ...inFrame, cookie } });
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain(
      `frame-ancestors ${ORIGIN} https://b.example;`,
    );
    expect(page.headers.get('x-frame-options')).toBeNull();
  });

  it('does not open without PORTAL_ORIGINS, and the link stays good', async () => {
    const { secret } = await serviceKey();
    const { body } = await post(secret, sessionsOf(own));
    const browser = new Browser(service.url);
    expect((await browser.get(pathOf(body), { ...html, 'sec-fetch-dest': 'iframe' })).status).toBe(403);
    const opened = await browser.get(pathOf(body), html);
    expect(opened.status).toBe(303);
    const { headers } = await view(browser, '/usage');
    expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    expect(headers.get('x-frame-options')).toBe('SAMEORIGIN');
  });
});

describe('creating a session', () => {
  it.each<[object, string]>([
    [{ accent: '#ffcc00' }, '/accent'],
    [{ accent: 'red' }, '/accent'],
    [{ accent: '#fff;}body{display:none' }, '/accent'],
    [{ returnUrl: 'javascript:alert(1)' }, '/returnUrl'],
    [{ expiresInMinutes: 4 }, '/expiresInMinutes'],
    [{ expiresInMinutes: 1_441 }, '/expiresInMinutes'],
    [{ pages: [] }, '/pages'],
    [{ pages: ['usage', 'usage'] }, '/pages'],
    [{ pages: ['keys'] }, '/member'],
    [{ member: 'a@example.com' }, '/member'],
    [{ pages: ['credits'], subject: 'ann' }, '/subject'],
    [{ subject: '' }, '/subject'],
    [{ other: 1 }, ''],
  ])('refuses %j and stores nothing', async (body, pointer) => {
    const { secret } = await serviceKey();
    const count = () => database.db.orm.$count(portalSessions);
    const before = await count();
    const answer = await post(secret, sessionsOf(own), body);
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect((answer.body.errors as { pointer: string }[])[0]!.pointer).toBe(
      pointer === '' ? '/other' : pointer,
    );
    expect(await count()).toBe(before);
  });

  it('needs the scope, a key of the service and an Organization', async () => {
    const narrow = await serviceKey(['usage:write']);
    expect(await post(narrow.secret, sessionsOf(own))).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
    const { secret } = await own.newKey();
    expect(await post(secret, sessionsOf(own))).toMatchObject({ status: 401, body: { code: 'invalid_key' } });
    const whole = await serviceKey();
    expect(await post(whole.secret, '/service/organizations/nobody/portal-sessions')).toMatchObject({
      status: 404,
    });
    expect((await fetch(service.url + sessionsOf(own), { method: 'POST' })).status).toBe(401);
  });

  it('gives links and buttons the colour in both schemes, readable in each', async () => {
    const { browser } = await open({ accent: '#0a6b4f', returnUrl: 'https://app.example.com/billing?a="b"' });
    const { text } = await view(browser, '/usage');
    expect(text).toMatch(/--accent: light-dark\(#0A6B4F, #[0-9A-F]{6}\)/);
    expect(text).toContain('href="https://app.example.com/billing?a=&#34;b&#34;"');
  });
});

it('keeps a session for as long as was asked', async () => {
  const { browser } = await open({ expiresInMinutes: 1_440 });
  service.clock.advance(24 * HOUR_MS - 1);
  expect((await view(browser, '/usage')).status).toBe(200);
});
