import { inCents } from '../../src/markets/pages/addresses.js';
import { v7 as uuid } from 'uuid';
import type { Role } from '../../src/accounts/organizations/table.js';
import { CENT, formatDollars } from '../../src/markets/market/money.js';
import { hostileTexts } from '../support/hostile-texts.js';
import { operatorClient } from '../support/operator.js';
import { Browser, createUser, sessionIdOf } from '../support/accounts.js';
import { eq } from 'drizzle-orm';
import { usageAlerts } from '../../src/metering/notices/table.js';
import type { TestService } from '../support/service.js';
import { sendUsage } from '../metering/support/usage.js';
import { createDispatcher } from '../../src/accounts/webhooks/dispatcher.js';
import { memberAuthority } from '../../src/accounts/identity/session/authority.js';
import { chat } from '../support/webhooks.js';

/** Names of people and products, which also determine how many there are. There must be at least four people. */
export interface Names {
  organization: string;
  people: string[];
  products: string[];
  metric: string;
  keys: string[];
  events: string[];
}

export const ordinaryNames: Names = {
  organization: 'Northwind Labs',
  people: ['Ada Lindqvist', 'Ben Okafor', 'Chloé Martin', 'Dev Raman'],
  products: ['Forecast API', 'Map tiles', 'Climate archive'],
  metric: 'requests',
  keys: ['production runtime', 'staging runtime', 'nightly import', 'old importer', 'billing export'],
  events: ['order-1', 'order-2', 'order-3'],
};

/** Contained in every text that belongs to the other Organization. */
export const MARKER = 'Foreign-Fjord';
export const foreignNames: Names = {
  organization: `${MARKER} organization`,
  people: [1, 2, 3, 4].map((n) => `${MARKER} person ${n}`),
  products: [1, 2, 3].map((n) => `${MARKER} product ${n}`),
  metric: `${MARKER} metric`,
  keys: [1, 2, 3, 4, 5].map((n) => `${MARKER} key ${n}`),
  events: [1, 2, 3].map((n) => `${MARKER} event ${n}`),
};

export const hostileNames: Names = {
  organization: `${'x'.repeat(150)}<script>alert(3)</script>${'y'.repeat(25)}`,
  people: hostileTexts,
  products: [...hostileTexts, 'P'.repeat(200)],
  metric: '<i>calls</i>'.repeat(20),
  keys: hostileTexts,
  events: [...hostileTexts, 'e'.repeat(255)],
};

export interface Populated {
  id: string;
  slug: string;
  name: string;
  people: Record<Role, { id: string; email: string; browser: Browser }>;
  /** Oldest first, without the rotated and the revoked key. */
  keyIds: string[];
  rotated: { oldKeyId: string; newKeyId: string };
  revokedKeyId: string;
  /** A failing endpoint, and a delivery to it that is waiting to be retried after its first attempt. */
  webhook: { id: string; messageId: string };
  productSlugs: string[];
  eventKeys: string[];
  /**
   * A position in a market that only this Organization holds, the price at which it can be sold, and the order that
   * bought it.
   */
  position: { ticker: string; bid: string; orderId: string };
  /** A market where YES can be bought, and its price in dollars. The same for every Organization. */
  /** The limit is in cents. */
  market: { ticker: string; limit: string };
  /** The time of the service, which stands still. */
  now: () => number;
  newKey(): Promise<{ id: string; secret: string }>;
  newWebhook(): Promise<string>;
  newAlert(): Promise<string>;
  newMember(): Promise<{ id: string; email: string }>;
  newInvitation(): Promise<{ id: string; token: string }>;
  /** Returns a resting paper order far from the market price; the same order each time, until it has been used. */
  newRestingOrder(): Promise<string>;
}

const roles = ['owner', 'admin', 'member', 'billing'] as const;
const DAY_MS = 86_400_000;
/** One limit is exceeded, one is exhausted by held quantities, and one leaves a remainder with many digits. */
const limits = [
  { quantity: 2, window: 'P7D', enforcement: 'warn' },
  { quantity: 3.75, window: 'PT5M', enforcement: 'block' },
  { quantity: 123456789012.123, window: 'calendar_month', enforcement: 'block' },
];

async function hold(service: TestService, secret: string, reservation: object): Promise<void> {
  const response = await fetch(`${service.url}/api/usage/reservations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify(reservation),
  });
  if (response.status !== 201) throw new Error(`a reservation was refused: ${await response.text()}`);
}

/**
 * Creates an established Organization as its people would: signed-in members of every role; products below, near and
 * above their caps, one of them read-only; live and test usage from the last few days; keys in every state.
 */
export async function populate(service: TestService, names: Names): Promise<Populated> {
  const operator = operatorClient(() => service);
  const slug = `org-${uuid()}`;
  await put(operator, `/organizations/${slug}`, { name: names.organization, mayCorrect: true });

  const people = {} as Populated['people'];
  for (const [index, name] of names.people.entries()) {
    const role = roles[index];
    const person = await hire(name, role ?? 'member');
    if (!role) continue;
    const browser = new Browser(service.url);
    const { status } = await browser.signIn(person.email);
    if (status !== 303) throw new Error(`sign-in failed: ${status}`);
    people[role] = { ...person, browser };
  }

  const productSlugs: string[] = [];
  const caps = [null, 1_000_000.5, 100, 10];
  for (const [index, name] of names.products.entries()) {
    const productSlug = `product-${uuid()}`;
    const credits = {
      price: 0.5,
      by: { dimension: 'model', prices: { [names.keys[0]!.slice(0, 64)]: 0.000000000001 } },
      enforcement: 'warn',
    };
    const product = {
      name,
      usageMetric: names.metric,
      unitCap: caps[index % caps.length],
      ...(index === 0 ? { dimensions: ['model'], countsSubjects: true, credits } : {}),
    };
    await put(operator, `/products/${productSlug}`, product);
    const terms = { kind: 'live', ...(index === 0 ? { limits } : {}) };
    await put(operator, `/organizations/${slug}/entitlements/${productSlug}`, terms);
    productSlugs.push(productSlug);
  }

  // The grants are smaller than the cost of the usage below, so that there is an overdraft.
  for (const [index, reason] of names.keys.entries()) {
    const path = `/organizations/${slug}/credits/grants/${encodeURIComponent(names.keys[index]!.slice(0, 128))}`;
    await put(operator, path, {
      amount: index + 0.25,
      expiresAt: new Date(service.clock.now() + (index + 1) * DAY_MS).toISOString(),
      productSlugs: index % 2 === 0 ? null : [productSlugs[0]],
      rollover: { percent: 50, for: 'P30D' },
      reason: reason.slice(0, 200),
    });
  }

  const owner = people.owner.browser;
  const keys: { id: string; secret: string }[] = [];
  for (const [index, name] of names.keys.entries()) {
    const expiresAt = index % 3 === 1 ? new Date(service.clock.now() + 5 * DAY_MS).toISOString() : null;
    const scopes = index % 2 === 0 ? ['usage:write'] : ['usage:write', 'entitlements:read'];
    keys.push(await createKey(owner, { name, livemode: index % 2 === 0, scopes, expiresAt }));
  }

  // Creates the holds first, because the events sent later use up the headroom.
  await hold(service, keys[0]!.secret, {
    productSlug: productSlugs[0],
    metric: names.metric,
    quantity: 2.5,
    idempotencyKey: `hold ${names.events[0]}`,
    ttlSeconds: 86_400,
  });

  const eventKeys: string[] = [];
  for (const [day, name] of names.events.entries()) {
    const occurredAt = new Date(service.clock.now() - (day % 7) * DAY_MS * 0.9).toISOString();
    for (const { secret } of keys.slice(0, 2)) {
      const events = productSlugs.map((productSlug, index) => {
        const idempotencyKey = `${name}${index}${keys.findIndex((key) => key.secret === secret)}`.slice(-255);
        eventKeys.push(idempotencyKey);
        const split =
          index === 0
            ? { subject: name.slice(0, 128), dimensions: { model: names.keys[0]!.slice(0, 64) } }
            : {};
        const quantity = 4 * day + 1.25;
        return {
          productSlug,
          metric: names.metric,
          quantity,
          occurredAt,
          idempotencyKey,
          ...(day % 2 === 0 ? split : {}),
        };
      });
      const { status, body } = await sendUsage(service.url, secret, events);
      if (status !== 202) throw new Error(`usage was refused: ${JSON.stringify(body)}`);
    }
  }
  // The product was used before and is now read-only.
  await put(operator, `/organizations/${slug}/entitlements/${productSlugs.at(-1)!}`, { kind: 'read_only' });

  const [, , third, fourth] = keys;
  const rotation = await owner.send('POST', `/dashboard/api-keys/${third!.id}/rotate`, { json: {} });
  await owner.send('DELETE', `/dashboard/api-keys/${fourth!.id}`);
  await service.services.keyUse.flush();
  return {
    id: (await owner.get('/dashboard/session')).body.organization.id,
    slug,
    name: names.organization,
    people,
    keyIds: keys.filter((key) => key !== third && key !== fourth).map(({ id }) => id),
    rotated: { oldKeyId: third!.id, newKeyId: rotation.body.apiKey.id },
    revokedKeyId: fourth!.id,
    webhook: await createFailing(service, owner),
    productSlugs,
    eventKeys,
    position: await buy(service, people.owner),
    market: await findMarket(service),
    now: () => service.clock.now(),
    newKey: () => createKey(owner, { name: names.keys[0], livemode: true }),
    newWebhook: () => createWebhook(owner, 'https://hooks.example.com/another'),
    newAlert: () => createAlert(service, owner),
    newMember: () => hire(names.people[0]!, 'member'),
    newInvitation: () => createInvitation(owner),
    newRestingOrder: createRestingOrders(service, people.owner),
  };

  async function hire(name: string, role: Role): Promise<{ id: string; email: string }> {
    const { id, email } = await createUser(service.context.db, { name });
    await put(operator, `/organizations/${slug}/members/${email}`, { role });
    return { id, email };
  }
}

function createRestingOrders(
  { trading, clock }: TestService,
  { id: userId, browser }: { id: string; browser: Browser },
): () => Promise<string> {
  let last: string | undefined;
  return async () => {
    const orgId: string = (await browser.get('/dashboard/session')).body.organization.id;
    const found = last === undefined ? undefined : await trading.orders.find(orgId, last);
    if (found?.status === 'resting' && found.contracts === 8) return found.id;
    await trading.refresher.refresh();
    const { ticker, priceRanges } = [...trading.snapshots.current!.markets.values()].find(
      ({ status, yesAsk, yesBid }) =>
        status === 'active' && yesAsk !== null && yesAsk > 5n * CENT && yesBid !== null,
    )!;
    const { trade } = await trading.orders.place({
      orgId,
      mode: 'paper',
      by: memberAuthority({ orgId, userId, sessionId: sessionIdOf(browser), roles: ['owner'] }),
      idempotencyKey: uuid({ msecs: clock.now() }),
      ticker,
      side: 'yes',
      action: 'buy',
      contracts: 8,
      limitPrice: priceRanges[0]!.start + priceRanges[0]!.step,
      timeInForce: 'good_till_cancelled',
      rest: { expiresAt: null, postOnly: true, cancelOn: [] },
    });
    last = trade.id;
    return last;
  };
}

let boughtMarkets = 0;

async function buy(
  { trading, clock }: TestService,
  { id: userId, browser }: { id: string; browser: Browser },
): Promise<Populated['position']> {
  await trading.refresher.refresh();
  const markets = [...trading.snapshots.current!.markets.values()].filter(
    ({ status, yesAsk, yesBid }) => status === 'active' && yesAsk !== null && yesBid !== null,
  );
  const { ticker, yesAsk, yesBid } = markets[boughtMarkets++ % markets.length]!;
  const orgId: string = (await browser.get('/dashboard/session')).body.organization.id;
  const { trade } = await trading.orders.place({
    orgId,
    mode: 'paper',
    by: memberAuthority({ orgId, userId, sessionId: sessionIdOf(browser), roles: ['owner'] }),
    idempotencyKey: uuid({ msecs: clock.now() }),
    ticker,
    side: 'yes',
    action: 'buy',
    contracts: 8,
    limitPrice: yesAsk!,
    timeInForce: 'immediate_or_cancel',
  });
  return { ticker, bid: formatDollars(yesBid!).replace(/0{1,2}$/, ''), orderId: trade.id };
}

/** Finds a market in the middle of the price range, with a limit price that still buys if the market moves. */
async function findMarket({ trading }: TestService): Promise<Populated['market']> {
  if (!trading.snapshots.current) await trading.refresher.refresh();
  const askOf = (ticker: string) => trading.snapshots.current!.markets.get(ticker)!.yesAsk!;
  const { ticker } = [...trading.snapshots.current!.markets.values()].find(
    ({ status, yesAsk }) =>
      status === 'active' && yesAsk !== null && yesAsk > 20n * CENT && yesAsk < 80n * CENT,
  )!;
  return {
    ticker,
    get limit() {
      return inCents(askOf(ticker) + 5n * CENT);
    },
  };
}

async function createKey(owner: Browser, json: object): Promise<{ id: string; secret: string }> {
  const { status, body, text } = await owner.send('POST', '/dashboard/api-keys', { json });
  if (status !== 201) throw new Error(`no key was created: ${text}`);
  return { id: body.apiKey.id, secret: body.secret };
}

async function createWebhook(owner: Browser, url: string): Promise<string> {
  const json = { url, types: ['api_key.created'], livemode: true };
  const { status, body, text } = await owner.send('POST', '/dashboard/webhooks', { json });
  if (status !== 201) throw new Error(`no endpoint was created: ${text}`);
  return body.webhook.id;
}

let alertLevel = 1_000_000;

async function createAlert({ context }: TestService, owner: Browser): Promise<string> {
  const level = ++alertLevel;
  const form = { cap: '', level: String(level) };
  const path = '/dashboard/usage/alerts';
  const { status, text } = await owner.send('POST', path, { form, headers: { accept: 'text/html' } });
  if (status !== 303) throw new Error(`an alert was refused: ${text}`);
  const [alert] = await context.db.orm.select().from(usageAlerts).where(eq(usageAlerts.level, level));
  return alert!.id;
}

async function createFailing(service: TestService, owner: Browser): Promise<Populated['webhook']> {
  const id = await createWebhook(owner, 'http://127.0.0.1:9/a-receiver-that-is-down?with=a-long-address');
  const { body } = await owner.send('POST', `/dashboard/webhooks/${id}/test`);
  const dispatcher = createDispatcher(service.context, chat);
  await dispatcher.sweep();
  await dispatcher.stop();
  return { id, messageId: body.messageId };
}

async function createInvitation(owner: Browser): Promise<{ id: string; token: string }> {
  const id = uuid();
  const form = { id, email: `guest-${id}@example.com`, role: 'member', days: '7' };
  const headers = { accept: 'text/html' };
  const { text } = await owner.send('POST', '/dashboard/members/invite', { form, headers });
  const token = /join#([\w-]+)/.exec(text)?.[1];
  if (token === undefined) throw new Error(`no invitation was made: ${text}`);
  return { id, token };
}

async function put(
  operator: ReturnType<typeof operatorClient>,
  path: string,
  value: object,
  // oxlint-disable-next-line typescript/no-explicit-any -- its type depends on the path
): Promise<any> {
  const { status, text, body } = await operator('PUT', path, value);
  if (status >= 300) throw new Error(`PUT ${path}: ${status} ${text}`);
  return body;
}
