import { expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { useService } from '../support/use.js';

const { database, service } = useService({ env: { OPERATOR_TOKEN: '' } });

it.each([
  ['DELETE', '/api/usage/events', 'POST'],
  ['POST', '/api/entitlements', 'GET, HEAD'],
  ['PUT', '/markets', 'GET, HEAD'],
  ['PATCH', '/trades/019b8d9a-6400-7000-8000-000000000041', 'DELETE, GET, HEAD'],
  ['GET', '/trade', 'POST'],
  ['POST', '/', 'GET, HEAD'],
  ['DELETE', '/login', 'GET, HEAD, POST'],
  ['POST', '/healthz?a=b', 'GET, HEAD'],
])('%s %s is refused with the allowed methods', async (method, path, allow) => {
  const response = await fetch(service.url + path, { method });
  expect(response.status).toBe(405);
  expect(response.headers.get('allow')).toBe(allow);
  expect(await response.json()).toMatchObject({ code: 'method_not_allowed' });
});

it('names no route to callers who may not know of it', async () => {
  const withoutSession = await fetch(`${service.url}/dashboard/api-keys`, { method: 'DELETE' });
  expect(withoutSession.status).toBe(401);
  const withoutToken = await fetch(`${service.url}/operator/products`, { method: 'DELETE' });
  expect([withoutToken.status, withoutToken.headers.get('allow')]).toEqual([404, null]);
});

it('says the same on pages', async () => {
  const { browser } = await signedIn(database.db, service.url);
  const answer = await browser.send('PUT', '/dashboard/members', { headers: { accept: 'text/html' } });
  expect(answer.status).toBe(405);
  expect(answer.text).toContain('PUT is not allowed here. Use GET or HEAD.');
});
