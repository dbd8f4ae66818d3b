import { describe, expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { addMember, createUser, PASSWORD, signedIn } from '../../support/accounts.js';
import { createOrganization } from '../../support/fixtures.js';
import { startTestService, type TestService } from '../../support/service.js';
import { useService } from '../../support/use.js';

const publicUrl = 'https://gauge.example.com';
const metricsToken = 'metrics-token-of-the-tests-0123456789';
const production = {
  NODE_ENV: 'production',
  TRUST_PROXY: '0',
  PUBLIC_URL: publicUrl,
  SESSION_KEYS: 'a-session-key-of-the-tests',
};
const { database, service } = useService({ env: production });

const signIn = async (headers: Record<string, string> = {}) => {
  const { email, id } = await createUser(database.db);
  await addMember(database.db, (await createOrganization(database.db)).id, id, 'owner');
  return fetch(`${service.url}/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams({ email, password: PASSWORD }),
  });
};

describe('production', () => {
  it('sets only Secure cookies, whatever protocol the last hop speaks', async () => {
    const answer = await signIn();
    expect(answer.status).toBe(303);
    const cookies = answer.headers.getSetCookie();
    expect(cookies.length).toBeGreaterThan(0);
    for (const cookie of cookies) {
      const [pair, ...attributes] = cookie.toLowerCase().split('; ');
      expect(pair).toMatch(/^__host-/);
      expect(attributes).toEqual(expect.arrayContaining(['secure', 'httponly', 'path=/', 'samesite=lax']));
    }
  });

  it('recognizes its own pages by PUBLIC_URL and not by the request', async () => {
    expect((await signIn({ origin: publicUrl })).status).toBe(303);
    for (const origin of [service.url, service.url.replace('http:', 'https:'), 'https://evil.example.com'])
      expect((await signIn({ origin })).status).toBe(403);
  });

  it('shows links that begin with PUBLIC_URL, whatever the Host', async () => {
    const form = await makeInvitation(database.db, service, { host: 'evil.example.com' });
    expect(form).toContain(`${publicUrl}/dashboard/join#`);
    expect(form).not.toContain('evil.example.com');
  });

  it('shows no metrics without a token in the configuration', async () => {
    expect((await fetch(`${service.url}/metrics`)).status).toBe(404);
  });
});

it('requires a configured token for metrics', async () => {
  const guarded = await startTestService(database.db, { env: { METRICS_TOKEN: metricsToken } });
  const get = (headers: Record<string, string> = {}) => fetch(`${guarded.url}/metrics`, { headers });
  try {
    expect((await get()).status).toBe(401);
    for (const wrong of ['', 'x', `${metricsToken}x`, metricsToken.toUpperCase()])
      expect((await get({ authorization: `Bearer ${wrong}` })).status).toBe(401);
    const answer = await get({ authorization: `Bearer ${metricsToken}` });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('gauge_http_request_duration_seconds');
  } finally {
    await guarded.stop();
  }
});

it('readiness asks the database once a second, however many callers ask for it', async () => {
  let asked = 0;
  const counting = new Proxy(database.db.orm, {
    get(orm, property) {
      if (property === 'execute') asked++;
      const value: unknown = Reflect.get(orm, property);
      return typeof value === 'function' ? (value as () => unknown).bind(orm) : value;
    },
  });
  const other = await startTestService({ ...database.db, orm: counting });
  try {
    const startedAt = performance.now();
    const answers = await Promise.all(Array.from({ length: 300 }, () => fetch(`${other.url}/readyz`)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    // Each database check runs three statements, at most once a second.
    expect(asked).toBeLessThanOrEqual(3 * Math.ceil((performance.now() - startedAt) / 1_000));
  } finally {
    await other.stop();
  }
});

async function makeInvitation(
  db: Database,
  { url }: TestService,
  headers: Record<string, string>,
): Promise<string> {
  const { browser } = await signedIn(db, url);
  const page = await browser.get('/dashboard/members/invite', { accept: 'text/html' });
  const id = /name="id" value="([^"]+)"/.exec(page.text)![1]!;
  const form = { id, email: 'guest@example.com', role: 'member', days: '7' };
  const made = await browser.send('POST', '/dashboard/members/invite', {
    form,
    headers: { accept: 'text/html', ...headers },
  });
  expect(made.status).toBe(201);
  return made.text;
}
