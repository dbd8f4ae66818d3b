import { serviceScopes } from '../../src/accounts/api-keys/scopes.js';
import type { Pools } from './values.js';

export interface Actor {
  name: string;
  kind: 'nobody' | 'apiKey' | 'serviceKey' | 'session' | 'operator' | 'leaver';
  headers: Record<string, string>;
}

export interface World {
  actors: Actor[];
  pools: Pools;
}

export const OPERATOR_TOKEN = 'operator-token-of-the-fuzzer-0123456789';
const PASSWORD = 'a long enough password of the fuzzer';
const ALL_SCOPES = ['usage:write', 'usage:read', 'entitlements:read', 'trading:read', 'trading:write'];
const roles = ['owner', 'admin', 'member', 'billing'] as const;
const operator = { authorization: `Bearer ${OPERATOR_TOKEN}` };

/** Creates Organizations, people of every role, products, entitlements and keys, through the API itself. */
export async function makeWorld(url: string): Promise<World> {
  async function call(
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = operator,
  ) {
    const response = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === '' ? {} : JSON.parse(text)) as Record<string, any>;
  }

  async function signIn(email: string): Promise<Record<string, string>> {
    const body = new URLSearchParams({ email, password: PASSWORD });
    const response = await fetch(`${url}/login`, { method: 'POST', body, redirect: 'manual' });
    if (response.status !== 303) throw new Error(`signing in as ${email}: ${response.status}`);
    const cookies = response.headers.getSetCookie().map((cookie) => cookie.split(';', 1)[0]);
    return { cookie: cookies.join('; ') };
  }

  const actors: Actor[] = [
    { name: 'nobody', kind: 'nobody', headers: {} },
    { name: 'operator', kind: 'operator', headers: operator },
    { name: 'wrong operator', kind: 'nobody', headers: { authorization: `Bearer ${'x'.repeat(40)}` } },
    { name: 'unknown key', kind: 'nobody', headers: { authorization: `Bearer org_live_${'x'.repeat(32)}` } },
  ];
  const ids: string[] = [];
  const products = ['fuzz-calls', 'fuzz-bytes', 'fuzz-archive'];
  for (const [i, slug] of products.entries())
    await call('PUT', `/operator/products/${slug}`, {
      name: slug,
      usageMetric: 'calls',
      unitCap: i === 0 ? 100 : null,
    });
  for (const slug of ['fuzz-one', 'fuzz-two']) {
    await call('PUT', `/operator/organizations/${slug}`, { name: slug });
    for (const [i, product] of products.entries())
      await call('PUT', `/operator/organizations/${slug}/entitlements/${product}`, {
        kind: i === 2 ? 'read_only' : 'live',
      });
    for (const role of slug === 'fuzz-one' ? roles : (['owner'] as const)) {
      const email = `${role}@${slug}.example`;
      await call('PUT', `/operator/users/${email}`, { name: role, password: PASSWORD });
      await call('PUT', `/operator/organizations/${slug}/members/${email}`, { role });
      actors.push({ name: `${role} of ${slug}`, kind: 'session', headers: await signIn(email) });
    }
    const owner = actors.at(slug === 'fuzz-one' ? -roles.length : -1)!.headers;
    for (const [name, livemode, scopes] of [
      ['live', true, ALL_SCOPES],
      ['test', false, ALL_SCOPES],
      ['narrow', true, ['usage:write']],
    ] as const) {
      const { secret } = await call('POST', '/dashboard/api-keys', { name, livemode, scopes }, owner);
      actors.push({
        name: `${name} key of ${slug}`,
        kind: 'apiKey',
        headers: { authorization: `Bearer ${secret as string}` },
      });
    }
    const { apiKey } = await call('POST', '/dashboard/api-keys', { name: 'spare', livemode: true }, owner);
    ids.push(apiKey.id as string);
  }
  for (const [name, scopes] of [
    ['service key', serviceScopes],
    ['narrow service key', ['usage:write']],
  ] as const) {
    const { secret } = await call('POST', '/operator/service-keys', { name, livemode: true, scopes });
    actors.push({ name, kind: 'serviceKey', headers: { authorization: `Bearer ${secret as string}` } });
  }
  // Spare Organizations and people for the fuzzer to change, so that the actors keep working.
  await call('PUT', '/operator/organizations/fuzz-spare', { name: 'Spare' });
  const emails = ['spare-1@fuzz.example', 'spare-2@fuzz.example'];
  for (const email of emails)
    await call('PUT', `/operator/users/${email}`, { name: 'Spare', password: PASSWORD });
  // The leaver signs out, so it has a session that no other actor uses.
  actors.push({ name: 'leaver', kind: 'leaver', headers: await signIn('owner@fuzz-one.example') });
  const markets = (await call('GET', '/markets')).markets as { ticker: string }[];
  const slugs = ['fuzz-one', 'fuzz-two', 'fuzz-spare'];
  return {
    actors,
    pools: {
      productSlug: products,
      metric: ['calls'],
      ticker: markets.slice(0, 20).map(({ ticker }) => ticker),
      station: ['KNYC', 'KMIA', 'kmdw'],
      email: emails,
      id: ids,
      organization: slugs,
      slug: [...slugs, ...products],
      password: [PASSWORD],
      bankroll: ['100', '2500.50'],
    },
  };
}
