import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { startTestService, type TestService } from '../../../support/service.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();
let proxied: TestService;
beforeAll(async () => {
  proxied = await startTestService(database.db, { env: { TRUST_PROXY: '1' } });
});
afterAll(async () => {
  await proxied.stop();
});

const change = (headers: Record<string, string>, url = service.url, path = '/logout', method = 'POST') =>
  new Browser(url).send(method, path, { headers });
const refused = { status: 403, body: { code: 'cross_site_request' } };

describe('a change', () => {
  it.each(['same-origin', 'none'])('is accepted if Sec-Fetch-Site is %s', async (site) => {
    expect((await change({ 'sec-fetch-site': site, origin: 'null' })).status).toBe(303);
  });

  it.each(['cross-site', 'same-site', 'same-origin, cross-site', 'SAME-ORIGIN', ''])(
    'is refused if Sec-Fetch-Site is %j, whatever Origin says',
    async (site) => {
      expect(await change({ 'sec-fetch-site': site, origin: service.url })).toMatchObject(refused);
    },
  );

  it('is accepted without Sec-Fetch-Site if Origin is this host', async () => {
    expect((await change({ origin: service.url })).status).toBe(303);
    expect((await change({ origin: service.url.toUpperCase() })).status).toBe(303);
  });

  it.each(['https://evil.example', 'null', '', 'http://127.0.0.1:1', 'http://127.0.0.1', 'file://', 'junk'])(
    'is refused without Sec-Fetch-Site if Origin is %j',
    async (origin) => {
      expect(await change({ origin })).toMatchObject(refused);
    },
  );

  it('is refused if Origin only begins with this host', async () => {
    expect(await change({ origin: `${service.url}.evil.example` })).toMatchObject(refused);
    expect(
      await change({ origin: service.url.replace('//', '//evil.example@').replace('127', '1.127') }),
    ).toMatchObject(refused);
  });

  it('is accepted with neither header, which no browser sends', async () => {
    expect((await change({})).status).toBe(303);
  });

  it('compares Origin with the host that a trusted proxy reports', async () => {
    const forwarded = { 'x-forwarded-host': 'gauge.example', 'x-forwarded-proto': 'https' };
    expect((await change({ origin: 'https://gauge.example', ...forwarded }, proxied.url)).status).toBe(303);
    expect(await change({ origin: proxied.url, ...forwarded }, proxied.url)).toMatchObject(refused);
    // Without a trusted proxy, any client could have sent these headers.
    expect(await change({ origin: 'https://gauge.example', ...forwarded })).toMatchObject(refused);
  });

  it.each([
    ['POST', '/login'],
    ['POST', '/logout'],
    ['POST', '/dashboard/organization'],
    ['POST', '/dashboard/api-keys'],
    ['POST', '/dashboard/api-keys/x/rotate'],
    ['DELETE', '/dashboard/api-keys/x'],
    ['PUT', '/dashboard/anything'],
    ['PATCH', '/dashboard/anything'],
  ])('from another site is refused: %s %s', async (method, path) => {
    expect(await change({ 'sec-fetch-site': 'cross-site' }, service.url, path, method)).toMatchObject(
      refused,
    );
  });

  it('from another site has no effect: the session survives and no sign-in happens', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const headers = { 'sec-fetch-site': 'cross-site' };
    expect((await browser.send('POST', '/logout', { headers })).status).toBe(403);
    expect((await browser.get('/dashboard/session')).status).toBe(200);
    const user = await createUser(database.db);
    const stranger = new Browser(service.url);
    const answer = await stranger.send('POST', '/login', {
      form: { email: user.email, password: PASSWORD },
      headers,
    });
    expect(answer.status).toBe(403);
    expect(stranger.cookies.size).toBe(0);
  });

  it('from another site gets an HTML error if it asked for HTML', async () => {
    const answer = await change({ 'sec-fetch-site': 'cross-site', accept: 'text/html' });
    expect(answer.status).toBe(403);
    expect(answer.text).toContain('This came from another site');
  });
});

it('following a link from another site is allowed', async () => {
  const { browser } = await signedIn(database.db, service.url);
  const answer = await browser.get('/dashboard/session', {
    'sec-fetch-site': 'cross-site',
    origin: 'https://evil.example',
  });
  expect(answer.status).toBe(200);
});
