import { and, eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { hashToken } from '../../src/accounts/identity/session/session-cookie.js';
import { hashPassword } from '../../src/accounts/identity/password.js';
import { apiKeys } from '../../src/accounts/api-keys/table.js';
import {
  identities,
  oneTimeLinks,
  operators,
  secondFactors,
  sessions,
} from '../../src/accounts/identity/table.js';
import { invitations, memberships, organizations, users } from '../../src/accounts/organizations/table.js';
import { products } from '../../src/metering/entitlements/table.js';
import { organizationPlans, plans, planVersions } from '../../src/metering/plans/table.js';
import { usageEvents, usageReservations } from '../../src/metering/ingestion/table.js';
import type { Database } from '../../src/core/db/client.js';
import {
  addMember,
  Browser,
  createUser,
  openSession,
  PASSWORD,
  sessionIdOf,
  signedIn,
} from '../support/accounts.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { creditAccounts } from '../../src/metering/credits/table.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct } from '../metering/support/products.js';
import { forgetConfirmation, makeLink, makeOperator, signedInOperator } from '../support/operators.js';
import { givePasskey, SoftPasskey } from '../support/passkey.js';
import type { Populated } from '../pages/populated.js';
import { authenticator, giveSecondFactor } from '../support/second-factor.js';
import type { TestService } from '../support/service.js';
import { usageEvent } from '../metering/support/usage.js';
import { operatorToken } from '../support/operator.js';
import type { LiveAccount } from '../markets/support/live-account.js';

export interface World {
  db: Database;
  service: TestService;
  own: Populated;
  /** An Organization that trades live, with its own service. */
  live: LiveAccount;
}

/** A request that changes something only while its sender has the authority. */
export interface Prepared {
  method: string;
  path: string;
  headers: Record<string, string>;
  /** Undefined if the route reads no body. */
  body?: string;
  /** The service to call instead of the shared one. */
  service?: TestService;
  /** Ways to withdraw the authority during the request, by name. */
  withdrawals: Record<string, () => Promise<unknown>>;
}

export type Prepare = (world: World) => Promise<Prepared>;

const form = (fields: Record<string, string>) => ({
  body: new URLSearchParams(fields).toString(),
  headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' },
});
const json = (value: unknown) => ({
  body: JSON.stringify(value),
  headers: { 'content-type': 'application/json' },
});
const none = { headers: {} };

interface Part {
  body?: string;
  headers: Record<string, string>;
}

const cookieOf = ({ cookies }: Browser) => [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');

/** Creates a signed-in admin of the Organization, with functions that withdraw their authority. */
async function hire({ db, service, own }: World) {
  const user = await createUser(db);
  await addMember(db, own.id, user.id, 'admin');
  const browser = await openSession(db, service.url, user.id, service.clock.now());
  const isTheirs = and(eq(memberships.orgId, own.id), eq(memberships.userId, user.id));
  return {
    ...user,
    browser,
    sessionEnded: () => db.orm.delete(sessions).where(eq(sessions.hashedToken, sessionIdOf(browser))),
    removed: () => db.orm.delete(memberships).where(isTheirs),
    demoted: () => db.orm.update(memberships).set({ role: 'billing' }).where(isTheirs),
  };
}

async function createLinked(db: Database) {
  const user = await createUser(db);
  const identity = { issuer: 'https://login.example.com', subject: user.id, userId: user.id };
  await db.orm.insert(identities).values({ ...identity, createdAt: new Date() });
  return user;
}

type Hired = Awaited<ReturnType<typeof hire>>;

/** Prepares a change to the Organization by an admin. */
const byMember =
  (
    method: string,
    path: string | ((world: World) => Promise<string> | string),
    part: Part | ((world: World) => Part),
  ): Prepare =>
  async (world) => {
    const { browser, removed, demoted, sessionEnded } = await hire(world);
    const { headers, ...rest } = typeof part === 'function' ? part(world) : part;
    return {
      method,
      path: typeof path === 'function' ? await path(world) : path,
      ...rest,
      headers: { ...headers, cookie: cookieOf(browser) },
      withdrawals: { removed, demoted, 'signed out': sessionEnded },
    };
  };

/** Prepares a change to a person's own account. */
const byPerson =
  (
    path: string | ((world: World, person: Hired) => Promise<string>),
    fields: (world: World, person: Hired) => Promise<Record<string, string>> | Record<string, string>,
  ): Prepare =>
  async (world) => {
    const person = await hire(world);
    const { headers, body } = form(await fields(world, person));
    return {
      method: 'POST',
      path: typeof path === 'function' ? await path(world, person) : path,
      body,
      headers: { ...headers, cookie: cookieOf(person.browser) },
      withdrawals: { 'signed out': person.sessionEnded },
    };
  };

const byOperator =
  (
    method: string,
    path: (world: World) => Promise<string> | string,
    value?: unknown,
    serviceOf: (world: World) => TestService = ({ service }) => service,
  ): Prepare =>
  async (world) => {
    const service = serviceOf(world);
    const { operatorTokens } = service.context.config;
    const { headers, ...rest } = value === undefined ? none : json(value);
    return {
      method,
      service,
      path: `/operator${await path(world)}`,
      ...rest,
      headers: { ...headers, authorization: `Bearer ${operatorToken}` },
      withdrawals: { 'token exchanged': async () => void operatorTokens.splice(0) },
    };
  };

const byKey =
  (
    path: string | ((world: World) => Promise<string>),
    value: (world: World) => unknown,
    method = 'POST',
  ): Prepare =>
  async (world) => {
    const { db, own, service } = world;
    const key = await createKey(db, own.id, { scopes: ['usage:write', 'usage:correct', 'trading:write'] });
    const set = (values: { revokedAt?: Date; expiresAt?: Date }) => () =>
      db.orm.update(apiKeys).set(values).where(eq(apiKeys.id, key.id));
    const { headers, body } = json(value(world));
    return {
      method,
      path: typeof path === 'string' ? path : await path(world),
      ...(method === 'DELETE' ? {} : { body }),
      headers: { ...headers, authorization: `Bearer ${key.secret}`, 'idempotency-key': uuid() },
      withdrawals: {
        revoked: set({ revokedAt: new Date(service.clock.now()) }),
        expired: set({ expiresAt: new Date(service.clock.now()) }),
      },
    };
  };

/** Creates a held reservation and returns its path. */
const heldReservation =
  (more = '') =>
  async ({ db, own, service }: World): Promise<string> => {
    const [product] = await db.orm.select().from(products).where(eq(products.slug, own.productSlugs[0]!));
    const id = uuid();
    await db.orm.insert(usageReservations).values({
      orgId: own.id,
      id,
      productId: product!.id,
      apiKeyId: uuid(),
      createdAt: new Date(service.clock.now()),
      expiresAt: new Date(service.clock.now() + 300_000),
      livemode: true,
      idempotencyKey: id,
      metric: 'requests',
      quantity: '1',
    });
    return `/api/usage/reservations/${id}${more}`;
  };

/** Prepares the request for an event that was just recorded. */
const withEvent =
  (prepare: (idempotencyKey: string) => Prepare): Prepare =>
  async (world) => {
    const { db, own, service } = world;
    const [product] = await db.orm.select().from(products).where(eq(products.slug, own.productSlugs[0]!));
    const idempotencyKey = uuid();
    const at = new Date(service.clock.now());
    await db.orm.insert(usageEvents).values({
      orgId: own.id,
      productId: product!.id,
      apiKeyId: uuid(),
      occurredAt: at,
      receivedAt: at,
      livemode: true,
      idempotencyKey,
      metric: 'requests',
      quantity: '2',
    });
    return prepare(idempotencyKey)(world);
  };

interface Debtor {
  slug: string;
  grantKey: string;
  productSlug: string;
}

/** Prepares the request for a new customer with a grant and an overdraft. */
const withCredits =
  (prepare: (debtor: Debtor) => Prepare): Prepare =>
  async (world) => {
    const { db, service } = world;
    const { id: orgId, slug } = await createOrganization(db);
    const product = await createProduct(db);
    const scoped = { amount: '5', productIds: [uuid()] };
    const grantKey = await addGrant(db, orgId, scoped, new Date(service.clock.now()));
    await db.orm
      .update(creditAccounts)
      .set({ debtors: [product.id], debts: ['2'] })
      .where(eq(creditAccounts.orgId, orgId));
    return prepare({ slug, grantKey, productSlug: product.slug })(world);
  };
/** Creates an Organization on the first of a plan's two versions. */
const withPlan =
  (prepare: (place: { slug: string; plan: string }) => Prepare): Prepare =>
  async (world) => {
    const { orm } = world.db;
    const { id: orgId, slug } = await createOrganization(world.db);
    const plan = `plan-${uuid()}`;
    const at = new Date(world.service.clock.now());
    const both = { createdAt: at, updatedAt: at };
    await orm.insert(plans).values({ slug: plan, name: 'Plan', version: 2, ...both });
    for (const [version, productSlug] of world.own.productSlugs.slice(0, 2).entries())
      await orm.insert(planVersions).values({
        plan,
        version: version + 1,
        definition: { entitlements: [{ productSlug, kind: 'live' }], grants: [] },
        createdAt: at,
      });
    const start = { startsAt: at, anchor: at, grantedUntil: at };
    await orm.insert(organizationPlans).values({ orgId, plan, version: 1, ...start, ...both });
    return prepare({ slug, plan })(world);
  };
const because = { reason: 'half-sent' };
const correctionOf = (idempotencyKey: string) => ({
  corrections: [{ idempotencyKey, quantity: 1, reason: 'half-sent', correctionKey: uuid() }],
});

/** Prepares a request that carries its own proof: a password, a code or a link's secret. */
const byProof =
  (
    path: string,
    prepare: (world: World) => Promise<{
      fields: Record<string, string>;
      cookie?: string;
      withdrawals: Prepared['withdrawals'];
    }>,
  ): Prepare =>
  async (world) => {
    const { fields, cookie, withdrawals } = await prepare(world);
    const { headers, body } = form(fields);
    return {
      method: 'POST',
      path,
      body,
      headers: { ...headers, ...(cookie === undefined ? {} : { cookie }) },
      withdrawals,
    };
  };

/** Prepares a form submission by a signed-in operator. */
const byOperatorPerson =
  (
    path: string | ((world: World) => Promise<string> | string),
    fields: (world: World) => Promise<Record<string, string>> | Record<string, string>,
    isDangerous = false,
    serviceOf: (world: World) => TestService = (world) => world.service,
  ): Prepare =>
  async (world) => {
    const { db } = world;
    const service = serviceOf(world);
    const { id, browser } = await signedInOperator(service);
    const { headers, body } = form(await fields(world));
    return {
      service,
      method: 'POST',
      path: typeof path === 'function' ? await path(world) : path,
      body,
      headers: { ...headers, cookie: cookieOf(browser) },
      withdrawals: {
        'signed out': () => db.orm.delete(sessions).where(eq(sessions.hashedToken, sessionIdOf(browser))),
        'no operator any more': () => db.orm.delete(operators).where(eq(operators.userId, id)),
        'without a second factor': () => db.orm.delete(secondFactors).where(eq(secondFactors.userId, id)),
        ...(isDangerous ? { 'signed in long ago': () => forgetConfirmation(service, browser) } : {}),
      },
    };
  };

/** The limit set by the previous change. Each change must raise the limit further. */
let raisedOpenOrders = 1_000;

/** Prepares a request by a link's holder, with the cookie of the browser that opened the link. */
const byLink =
  (
    path: string,
    prepare: (world: World) => Promise<{
      token: string;
      fields: Record<string, string>;
      /** Returns the value of the passkey field, signed in the browser that opened the link. */
      sign?: (opener: Browser) => Promise<string>;
    }>,
  ): Prepare =>
  async (world) => {
    const { token, fields, sign } = await prepare(world);
    const opener = new Browser(world.service.url);
    await opener.send('POST', `/${path.split('/')[1]!}/open`, { form: { link: token } });
    const { headers, body } = form(sign ? { ...fields, passkey: await sign(opener) } : fields);
    const used = { usedAt: new Date('2020-01-01T00:00:00Z') };
    const isThis = eq(oneTimeLinks.hashedToken, hashToken(token));
    return {
      method: 'POST',
      path,
      body,
      headers: { ...headers, cookie: cookieOf(opener) },
      withdrawals: { 'link used': () => world.db.orm.update(oneTimeLinks).set(used).where(isThis) },
    };
  };

const order = ({ own }: World) => ({
  id: uuid(),
  side: 'yes',
  action: 'buy',
  contracts: '1',
  limitPrice: own.market.limit,
  timeInForce: 'immediate_or_cancel',
});

async function withFactor({ db, service }: World, { id }: Hired) {
  const app = await giveSecondFactor(db, id, service.clock);
  return { currentPassword: PASSWORD, code: app.code() };
}

const changedPassword =
  ({ db }: World, userId: string) =>
  async () =>
    db.orm
      .update(users)
      .set({ passwordHash: await hashPassword('another') })
      .where(eq(users.id, userId));

const revoked =
  ({ db }: World, id: string) =>
  () =>
    db.orm
      .update(invitations)
      .set({ revokedAt: new Date('2020-01-01T00:00:00Z') })
      .where(eq(invitations.id, id));

const chosenPassword = {
  newPassword: 'one half-sent long phrase',
  newPasswordAgain: 'one half-sent long phrase',
};

const PASSKEYS = '/dashboard/account/passkeys';

const SET_UP = '/dashboard/account/second-factor';

const endpoint = { url: 'https://hooks.example.com/', types: ['api_key.created'], livemode: true };
const endpointFields = { url: endpoint.url, types: 'api_key.created', livemode: 'true' };
const webhookPath =
  (end = '') =>
  ({ own }: World) =>
    `/dashboard/webhooks/${own.webhook.id}${end}`;
const deliveryPath = (world: World) =>
  webhookPath(`/deliveries/${world.own.webhook.messageId}/resend`)(world);

const slugOf = ({ own }: World) => own.slug;
const userOf = async ({ own }: World) => `/users/${(await own.newMember()).email}`;

const CUSTOMERS = '/console/customers';
const memberPath =
  (end: string) =>
  async ({ own }: World) =>
    `${CUSTOMERS}/${own.slug}/people/${(await own.newMember()).id}/${end}`;
const customerPath =
  (end: string) =>
  ({ own }: World) =>
    `${CUSTOMERS}/${own.slug}${end}`;

/** Uses a separate customer, because archiving the shared one would break other requests. */
const otherCustomer = async ({ db }: World) => `${CUSTOMERS}/${(await createOrganization(db)).slug}/archive`;

const inConsole: Record<string, Prepare[]> = {
  'post /console/new-customer': [
    byOperatorPerson('/console/new-customer', () => ({ slug: `made-${uuid()}`, name: 'Half-sent' })),
    byOperatorPerson('/console/new-customer', () => ({
      slug: `made-${uuid()}`,
      name: 'Half-sent',
      marketAccess: 'read',
    })),
  ],
  'post /console/customers/{slug}': [
    byOperatorPerson(customerPath(''), () => ({ name: `Half-sent ${uuid()}`, mayCorrect: 'yes' })),
  ],
  'post /console/customers/{slug}/archive': [
    byOperatorPerson(otherCustomer, () => ({ archived: 'yes' }), true),
  ],
  'post /console/customers/{slug}/invite': [
    byOperatorPerson(
      customerPath('/invite'),
      () => ({ email: `guest-${uuid()}@example.com`, role: 'owner', days: '7' }),
      true,
    ),
  ],
  'post /console/customers/{slug}/invitations/{id}/revoke': [
    byOperatorPerson(
      async ({ own }) => `${CUSTOMERS}/${own.slug}/invitations/${(await own.newInvitation()).id}/revoke`,
      () => ({}),
    ),
  ],
  'post /console/customers/{slug}/people/{userId}/role': [
    byOperatorPerson(memberPath('role'), () => ({ role: 'billing' }), true),
  ],
  'post /console/customers/{slug}/people/{userId}/remove': [
    byOperatorPerson(memberPath('remove'), () => ({}), true),
  ],
  'post /console/customers/{slug}/entitlement': [
    byOperatorPerson(
      ({ own }) => `${CUSTOMERS}/${own.slug}/entitlement?product=${own.productSlugs[0]!}`,
      () => ({
        kind: 'live',
        cap: 'own',
        unitCap: String(Math.ceil(Math.random() * 1e9)),
      }),
    ),
  ],
  'post /console/customers/{slug}/entitlement/withdraw': [
    byOperatorPerson(
      customerPath('/entitlement/withdraw'),
      ({ own }) => ({ product: own.productSlugs[2]! }),
      true,
    ),
  ],
  'post /console/customers/{slug}/keys/{id}/revoke': [
    byOperatorPerson(
      async ({ own }) => `${CUSTOMERS}/${own.slug}/keys/${(await own.newKey()).id}/revoke`,
      () => ({}),
    ),
  ],
  'post /console/customers/{slug}/webhooks/new': [
    byOperatorPerson(customerPath('/webhooks/new'), () => ({ ...endpointFields, id: uuid() }), true),
  ],
  'post /console/customers/{slug}/webhooks/{id}/edit': [
    byOperatorPerson(
      ({ own }) => `${CUSTOMERS}/${own.slug}/webhooks/${own.webhook.id}/edit`,
      () => ({ ...endpointFields, isEnabled: 'true' }),
      true,
    ),
  ],
  'post /console/customers/{slug}/webhooks/{id}/delete': [
    byOperatorPerson(
      async ({ own }) => `${CUSTOMERS}/${own.slug}/webhooks/${await own.newWebhook()}/delete`,
      () => ({}),
      true,
    ),
  ],
  'post /console/customers/{slug}/usage/corrections': [
    withEvent((idempotencyKey) =>
      byOperatorPerson(
        customerPath('/usage/corrections'),
        () => ({
          idempotencyKey,
          quantity: '1',
          why: 'half-sent',
          correctionKey: uuid(),
        }),
        true,
      ),
    ),
  ],
  'post /console/customers/{slug}/credits/grant': [
    withCredits(({ slug }) =>
      byOperatorPerson(
        `${CUSTOMERS}/${slug}/credits/grant`,
        () => ({ ...because, step: 'save', mode: 'live', grantKey: uuid(), amount: '1', priority: '50' }),
        true,
      ),
    ),
  ],
  'post /console/customers/{slug}/credits/void': [
    withCredits(({ slug, grantKey }) =>
      byOperatorPerson(
        `${CUSTOMERS}/${slug}/credits/void`,
        () => ({ ...because, mode: 'live', grant: grantKey }),
        true,
      ),
    ),
  ],
  'post /console/customers/{slug}/credits/forgive': [
    withCredits(({ slug, productSlug }) =>
      byOperatorPerson(
        `${CUSTOMERS}/${slug}/credits/forgive`,
        () => ({ ...because, mode: 'live', product: productSlug }),
        true,
      ),
    ),
  ],
  'post /console/customers/{slug}/trading/limits': [
    byOperatorPerson(customerPath('/trading/limits'), () => ({ maxOpenOrders: '9' })),
    byOperatorPerson(
      customerPath('/trading/limits'),
      () => ({ maxOpenOrders: String(++raisedOpenOrders) }),
      true,
    ),
  ],
  'post /console/customers/{slug}/trading/limits/withdraw': [
    byOperatorPerson(customerPath('/trading/limits/withdraw'), () => ({})),
  ],
  'post /console/customers/{slug}/trading/switch': [
    byOperatorPerson(customerPath('/trading/switch'), () => ({ state: 'open', reason: uuid() })),
  ],
  'post /console/new-product': [
    byOperatorPerson('/console/new-product', () => ({
      slug: `made-${uuid()}`,
      name: 'Half-sent',
      usageMetric: 'x',
    })),
  ],
  'post /console/new-plan': [
    byOperatorPerson('/console/new-plan', () => ({
      name: 'Half-sent',
      slug: `made-${uuid()}`,
      definition: 'entitlements: []',
      step: 'save',
    })),
  ],
  'post /console/plans/{slug}': [
    withPlan(({ plan }) =>
      byOperatorPerson(`/console/plans/${plan}`, () => ({
        name: 'Half-sent',
        definition: 'entitlements: []',
        step: 'save',
      })),
    ),
  ],
  'post /console/plans/{slug}/move': [
    withPlan(({ plan }) => byOperatorPerson(`/console/plans/${plan}/move`, () => ({}))),
  ],
  'post /console/customers/{slug}/plan': [
    withPlan(({ plan }) =>
      byOperatorPerson(
        async ({ db }) => `${CUSTOMERS}/${(await createOrganization(db)).slug}/plan`,
        () => ({ plan, step: 'save' }),
      ),
    ),
  ],
  'post /console/customers/{slug}/plan/end': [
    withPlan(({ slug }) => byOperatorPerson(`${CUSTOMERS}/${slug}/plan/end`, () => ({}))),
  ],
  'post /console/products/{slug}': [
    byOperatorPerson(
      async ({ db }) => `/console/products/${(await createProduct(db)).slug}`,
      () => ({ name: 'Half-sent', usageMetric: 'calls' }),
    ),
  ],
  'post /console/products/{slug}/price': [
    async (world) => {
      const { id, slug } = await createProduct(world.db);
      const [product] = await world.db.orm.select().from(products).where(eq(products.id, id));
      const seen = product!.updatedAt.toISOString();
      const fields = { step: 'save', price: '2', enforcement: 'warn', seen };
      return byOperatorPerson(`/console/products/${slug}/price`, () => fields, true)(world);
    },
  ],
  'post /console/products/{slug}/archive': [
    byOperatorPerson(
      async ({ db }) => `/console/products/${(await createProduct(db)).slug}/archive`,
      () => ({ archived: 'yes' }),
      true,
    ),
  ],
  'post /console/operators/invite': [
    byOperatorPerson('/console/operators/invite', () => ({ email: `${uuid()}@example.com` }), true),
  ],
  'post /console/operators/{userId}/remove': [
    byOperatorPerson(
      async ({ db, service }) => {
        const { id } = await createUser(db);
        await makeOperator(service, id);
        return `/console/operators/${id}/remove`;
      },
      () => ({}),
      true,
    ),
  ],
  'post /console/people/{userId}/link': [
    byOperatorPerson(
      async ({ db }) => `/console/people/${(await createUser(db)).id}/link`,
      () => ({ kind: 'password_reset' }),
      true,
    ),
  ],
  'post /console/people/{userId}': [
    byOperatorPerson(
      async ({ db }) => `/console/people/${(await createUser(db)).id}`,
      () => ({ name: 'Half-sent' }),
    ),
  ],
  'post /console/people/{userId}/sign-out': [
    byOperatorPerson(
      async ({ db, service }) => {
        const { id, email } = await createUser(db);
        await new Browser(service.url).signIn(email);
        return `/console/people/${id}/sign-out`;
      },
      () => ({}),
      true,
    ),
  ],
  'post /console/people/{userId}/second-factor': [
    byOperatorPerson(
      async ({ db, service }) => {
        const { id } = await createUser(db);
        await giveSecondFactor(db, id, service.clock);
        return `/console/people/${id}/second-factor`;
      },
      () => ({}),
      true,
    ),
  ],
  'post /console/people/{userId}/single-sign-on': [
    byOperatorPerson(
      async ({ db }) => `/console/people/${(await createLinked(db)).id}/single-sign-on`,
      () => ({}),
      true,
    ),
  ],
  'post /console/people/{userId}/delete': [
    byOperatorPerson(
      async ({ db }) => `/console/people/${(await createUser(db)).id}/delete`,
      () => ({}),
      true,
    ),
  ],
  'post /console/trading/reconciliation': [
    byOperatorPerson(
      ({ live }) => {
        live.venue.exchange.balanceCents -= 100;
        return '/console/trading/reconciliation';
      },
      () => ({ accept: 'yes' }),
      true,
      ({ live }) => live.service,
    ),
  ],
  'post /console/trading/switch': [
    byOperatorPerson('/console/trading/switch', () => ({ state: 'open', reason: uuid() })),
  ],
};

/** Every route that changes something, with its requests. A missing route fails the test. */
export const changes: Record<string, Prepare[]> = {
  'post /dashboard/webhooks': [
    byMember('POST', '/dashboard/webhooks', json(endpoint)),
    byMember('POST', '/dashboard/webhooks', () => form({ ...endpointFields, id: uuid() })),
  ],
  'put /dashboard/webhooks/{id}': [byMember('PUT', webhookPath(), json({ ...endpoint, isEnabled: true }))],
  'delete /dashboard/webhooks/{id}': [
    byMember('DELETE', async ({ own }) => `/dashboard/webhooks/${await own.newWebhook()}`, none),
  ],
  'post /dashboard/webhooks/{id}/edit': [
    byMember('POST', webhookPath('/edit'), form({ ...endpointFields, isEnabled: 'true' })),
  ],
  'post /dashboard/webhooks/{id}/delete': [
    byMember('POST', async ({ own }) => `/dashboard/webhooks/${await own.newWebhook()}/delete`, none),
  ],
  'post /dashboard/webhooks/{id}/rotate': [
    byMember('POST', webhookPath('/rotate'), none),
    byMember('POST', webhookPath('/rotate'), form({ graceMinutes: '60' })),
  ],
  'post /dashboard/webhooks/{id}/test': [
    byMember('POST', webhookPath('/test'), none),
    byMember('POST', webhookPath('/test'), form({})),
  ],
  'post /dashboard/webhooks/{id}/resend': [
    byMember('POST', webhookPath('/resend'), json({ since: '2026-01-01T00:00:00Z' })),
    byMember('POST', webhookPath('/resend'), form({ since: '24' })),
  ],
  'post /dashboard/webhooks/{id}/deliveries/{messageId}/resend': [
    byMember('POST', deliveryPath, none),
    byMember('POST', deliveryPath, form({})),
  ],
  'post /dashboard/api-keys': [
    byMember('POST', '/dashboard/api-keys', json({ name: 'half-sent', livemode: true })),
    byMember('POST', '/dashboard/api-keys', () =>
      form({ id: uuid(), name: 'half-sent', livemode: 'true', scopes: 'usage:write' }),
    ),
  ],
  'post /dashboard/api-keys/{id}/rotate': [
    byMember('POST', async ({ own }) => `/dashboard/api-keys/${(await own.newKey()).id}/rotate`, json({})),
    byMember(
      'POST',
      async ({ own }) => `/dashboard/api-keys/${(await own.newKey()).id}/rotate`,
      form({ grace: '60' }),
    ),
  ],
  'delete /dashboard/api-keys/{id}': [
    byMember('DELETE', async ({ own }) => `/dashboard/api-keys/${(await own.newKey()).id}`, none),
  ],
  'post /dashboard/api-keys/{id}/rename': [
    byMember(
      'POST',
      async ({ own }) => `/dashboard/api-keys/${(await own.newKey()).id}/rename`,
      form({ name: 'another name' }),
    ),
  ],
  'post /dashboard/api-keys/{id}/revoke': [
    byMember('POST', async ({ own }) => `/dashboard/api-keys/${(await own.newKey()).id}/revoke`, none),
  ],
  'post /dashboard/members/invite': [
    byMember('POST', '/dashboard/members/invite', () =>
      form({ id: uuid(), email: `guest-${uuid()}@example.com`, role: 'member', days: '7' }),
    ),
  ],
  'post /dashboard/members/invitations/{id}/revoke': [
    byMember(
      'POST',
      async ({ own }) => `/dashboard/members/invitations/${(await own.newInvitation()).id}/revoke`,
      none,
    ),
  ],
  'post /dashboard/members/second-factor': [
    async ({ db, service }) => {
      const { user, browser } = await signedIn(db, service.url);
      await giveSecondFactor(db, user.id, service.clock);
      const isTheirs = eq(memberships.userId, user.id);
      const { headers, body } = form({ required: 'yes' });
      return {
        method: 'POST',
        path: '/dashboard/members/second-factor',
        body,
        headers: { ...headers, cookie: cookieOf(browser) },
        withdrawals: {
          removed: () => db.orm.delete(memberships).where(isTheirs),
          demoted: () => db.orm.update(memberships).set({ role: 'admin' }).where(isTheirs),
          'signed out': () => db.orm.delete(sessions).where(eq(sessions.hashedToken, sessionIdOf(browser))),
        },
      };
    },
  ],
  'post /dashboard/members/single-sign-on': [
    async ({ db, service }) => {
      const { organization, user, browser } = await signedIn(db, service.url);
      await db.orm
        .update(organizations)
        .set({ requireSingleSignOn: true })
        .where(eq(organizations.id, organization.id));
      const isTheirs = eq(sessions.hashedToken, sessionIdOf(browser));
      await db.orm.update(sessions).set({ singleSignOnAt: new Date() }).where(isTheirs);
      const isMembership = eq(memberships.userId, user.id);
      const { headers, body } = form({ required: 'no' });
      return {
        method: 'POST',
        path: '/dashboard/members/single-sign-on',
        body,
        headers: { ...headers, cookie: cookieOf(browser) },
        withdrawals: {
          removed: () => db.orm.delete(memberships).where(isMembership),
          demoted: () => db.orm.update(memberships).set({ role: 'admin' }).where(isMembership),
          'signed out': () => db.orm.delete(sessions).where(isTheirs),
          'not by single sign-on': () =>
            db.orm.update(sessions).set({ singleSignOnAt: null }).where(isTheirs),
        },
      };
    },
  ],
  'post /dashboard/members/{userId}/role': [
    byMember(
      'POST',
      async ({ own }) => `/dashboard/members/${(await own.newMember()).id}/role`,
      form({ role: 'billing' }),
    ),
  ],
  'post /dashboard/members/{userId}/remove': [
    byMember('POST', async ({ own }) => `/dashboard/members/${(await own.newMember()).id}/remove`, form({})),
  ],
  'post /dashboard/markets/{ticker}': [
    byMember(
      'POST',
      ({ own }) => `/dashboard/markets/${own.market.ticker}`,
      (world) => form(order(world)),
    ),
  ],
  'post /dashboard/portfolio/orders/{id}/cancel': [
    byMember(
      'POST',
      async (world) => `/dashboard/portfolio/orders/${await world.own.newRestingOrder()}/cancel`,
      form({}),
    ),
  ],
  'post /dashboard/portfolio/orders/{id}/decrease': [
    byMember(
      'POST',
      async (world) => `/dashboard/portfolio/orders/${await world.own.newRestingOrder()}/decrease`,
      form({ remainingContracts: '1' }),
    ),
  ],
  'post /dashboard/portfolio/risk/switch': [
    byMember('POST', '/dashboard/portfolio/risk/switch', form({ state: 'open', reason: 'half-sent' })),
  ],
  'post /dashboard/organization': [
    byPerson('/dashboard/organization', (world) => ({ organization: slugOf(world) })),
  ],
  'post /dashboard/account': [byPerson('/dashboard/account', () => ({ name: 'Half Sent' }))],
  'post /dashboard/account/notices': [
    async (world) => {
      const { browser, sessionEnded, removed, demoted } = await hire(world);
      const { headers, body } = form({ organization: world.own.slug, notices: 'off' });
      return {
        method: 'POST',
        path: '/dashboard/account/notices',
        body,
        headers: { ...headers, cookie: cookieOf(browser) },
        withdrawals: { 'signed out': sessionEnded, removed, demoted },
      };
    },
  ],
  'post /dashboard/account/password': [
    byPerson('/dashboard/account/password', () => ({
      currentPassword: PASSWORD,
      newPassword: 'one half-sent long phrase',
      newPasswordAgain: 'one half-sent long phrase',
    })),
  ],
  'post /dashboard/account/second-factor': [byPerson(SET_UP, () => ({ currentPassword: PASSWORD }))],
  'post /dashboard/account/second-factor/setup': [
    byPerson(`${SET_UP}/setup`, async ({ db, service }, { id, browser }) => {
      const begun = await browser.send('POST', SET_UP, { form: { currentPassword: PASSWORD } });
      if (begun.status !== 303) throw new Error(begun.text);
      const { text } = await browser.get(`${SET_UP}/setup`, { accept: 'text/html' });
      const secret = /secret=([A-Z2-7]{32})/.exec(text)![1]!;
      if (!(await db.orm.select().from(secondFactors).where(eq(secondFactors.userId, id))).length)
        throw new Error('no set-up');
      return { code: authenticator(secret, service.clock)() };
    }),
  ],
  'post /dashboard/account/second-factor/recovery-codes': [byPerson(`${SET_UP}/recovery-codes`, withFactor)],
  'post /dashboard/account/second-factor/off': [byPerson(`${SET_UP}/off`, withFactor)],
  'post /dashboard/account/passkeys': [
    byPerson(PASSKEYS, async ({ service }, { id, browser }) => {
      const options = await browser.send('POST', `${PASSKEYS}/new-options`);
      return { name: 'Laptop', passkey: new SoftPasskey(service.url, id).create(options.body) };
    }),
  ],
  'post /dashboard/account/passkeys/remove': [
    byPerson(`${PASSKEYS}/remove`, async ({ db, service }, { id }) => ({
      id: (await givePasskey(db, id, service.url)).id,
    })),
  ],
  'post /dashboard/account/sessions/{id}/end': [
    byPerson(
      async ({ db, service }, { id, email }) => {
        const other = new Browser(service.url);
        await other.signIn(email);
        const rows = await db.orm.select().from(sessions).where(eq(sessions.userId, id));
        const session = rows.find(({ hashedToken }) => hashedToken === sessionIdOf(other))!;
        return `/dashboard/account/sessions/${session.id}/end`;
      },
      () => ({}),
    ),
  ],
  'post /dashboard/account/sign-out-everywhere': [
    byPerson('/dashboard/account/sign-out-everywhere', () => ({})),
  ],
  'post /dashboard/join': [
    async (world) => {
      const { db, service, own } = world;
      const user = await createUser(db);
      const browser = new Browser(service.url);
      await browser.signIn(user.email);
      const { id, token } = await own.newInvitation();
      const { headers, body } = form({ invitation: token });
      return {
        method: 'POST',
        path: '/dashboard/join',
        body,
        headers: { ...headers, cookie: cookieOf(browser) },
        withdrawals: {
          'signed out': () => db.orm.delete(sessions).where(eq(sessions.hashedToken, sessionIdOf(browser))),
          'invitation revoked': revoked(world, id),
        },
      };
    },
  ],
  'post /dashboard/join/account': [
    byProof('/dashboard/join/account', async (world) => {
      const { id, token } = await world.own.newInvitation();
      return {
        fields: { invitation: token, name: 'A guest', password: 'a long phrase of their own' },
        withdrawals: { 'invitation revoked': revoked(world, id) },
      };
    }),
  ],
  'post /login': [
    byProof('/login', async (world) => {
      const { id, email } = await createUser(world.db);
      return {
        fields: { email, password: PASSWORD },
        withdrawals: { 'password changed': changedPassword(world, id) },
      };
    }),
  ],
  'post /login/code': [
    byProof('/login/code', async (world) => {
      const { id, email } = await createUser(world.db);
      const app = await giveSecondFactor(world.db, id, world.service.clock);
      const browser = new Browser(world.service.url);
      await browser.signIn(email);
      return {
        fields: { code: app.code() },
        cookie: cookieOf(browser),
        withdrawals: { 'password changed': changedPassword(world, id) },
      };
    }),
  ],
  'post /login/passkey': [
    byProof('/login/passkey', async ({ db, service }) => {
      const { id } = await createUser(db);
      const passkey = await givePasskey(db, id, service.url);
      const { body } = await new Browser(service.url).send('POST', '/login/passkey-options');
      return {
        fields: { passkey: passkey.use(body) },
        // No withdrawals here, because a refused sign-in is itself recorded. The passkey tests cover the removal of a
        // passkey during a sign-in.
        withdrawals: {},
      };
    }),
  ],
  'post /confirm': [byPerson('/confirm', () => ({ currentPassword: PASSWORD }))],
  'post /reset': [
    byLink('/reset', async ({ db, service }) => ({
      token: await makeLink(service, 'password_reset', await createUser(db)),
      fields: chosenPassword,
    })),
    byLink('/reset', async ({ db, service }) => {
      const user = await createUser(db);
      const passkey = await givePasskey(db, user.id, service.url);
      return {
        token: await makeLink(service, 'password_reset', user),
        fields: chosenPassword,
        sign: async (opener) => passkey.use((await opener.send('POST', '/reset/passkey-options')).body),
      };
    }),
    byLink('/reset', async ({ db, service }) => {
      const user = await createUser(db);
      await giveSecondFactor(db, user.id, service.clock);
      const token = await makeLink(service, 'second_factor_reset', user);
      return { token, fields: { password: PASSWORD } };
    }),
  ],
  'post /set-up/person': [
    byLink('/set-up/person', async ({ service }) => ({
      token: await makeLink(service, 'setup'),
      fields: { name: 'Half Sent', email: `${uuid()}@example.com`, password: 'one half-sent long phrase' },
    })),
    byLink('/set-up/person', async ({ db, service }) => ({
      token: await makeLink(service, 'setup'),
      fields: { email: (await createUser(db)).email, password: PASSWORD },
    })),
  ],
  'post /set-up/second-factor': [
    byPerson('/set-up/second-factor', async ({ service }, { id }) => {
      await makeOperator(service, id);
      return { currentPassword: PASSWORD };
    }),
  ],
  'post /set-up/second-factor/confirm': [
    byPerson('/set-up/second-factor/confirm', async ({ service }, { id, browser }) => {
      await makeOperator(service, id);
      const begun = await browser.send('POST', '/set-up/second-factor', {
        form: { currentPassword: PASSWORD },
      });
      if (begun.status !== 303) throw new Error(begun.text);
      const { text } = await browser.get('/set-up', { accept: 'text/html' });
      const secret = /secret=([A-Z2-7]{32})/.exec(text)![1]!;
      return { code: authenticator(secret, service.clock)() };
    }),
  ],
  'post /set-up/product': [
    byOperatorPerson('/set-up/product', () => ({
      productSlug: `made-${uuid()}`,
      productName: 'Half-sent',
      usageMetric: 'calls',
      unitCap: '',
      orgSlug: `made-${uuid()}`,
      orgName: 'Half-sent',
    })),
  ],
  'post /set-up/owner': [
    byOperatorPerson(
      '/set-up/owner',
      async ({ db }) => {
        const { slug } = await createOrganization(db);
        return { organization: slug, owner: 'other', email: `${uuid()}@example.com` };
      },
      true,
    ),
    byOperatorPerson(
      '/set-up/owner',
      async ({ db }) => {
        const { slug } = await createOrganization(db);
        return { organization: slug, owner: 'me', email: '' };
      },
      true,
    ),
  ],
  ...inConsole,
  'post /trade': [
    byKey('/trade', ({ own }) => ({
      ticker: own.market.ticker,
      side: 'yes',
      action: 'buy',
      contracts: 1,
      limitPrice: own.market.limit,
    })),
  ],
  'delete /trades/{id}': [
    byKey(
      async ({ own }) => `/trades/${await own.newRestingOrder()}`,
      () => ({}),
      'DELETE',
    ),
  ],
  'post /trades/{id}/decrease': [
    byKey(
      async ({ own }) => `/trades/${await own.newRestingOrder()}/decrease`,
      () => ({ remainingContracts: 1 }),
    ),
  ],
  'post /api/usage/events': [
    byKey('/api/usage/events', ({ own }) => ({
      events: [usageEvent(own.productSlugs[0]!, uuid(), { metric: 'requests' })],
    })),
  ],
  'post /api/usage/corrections': [
    withEvent((key) => byKey('/api/usage/corrections', () => correctionOf(key))),
  ],
  'post /operator/organizations/{slug}/usage/corrections': [
    withEvent((key) =>
      byOperator('POST', ({ own }) => `/organizations/${own.slug}/usage/corrections`, correctionOf(key)),
    ),
  ],
  'post /operator/organizations/{slug}/usage/events': [
    (world) =>
      byOperator('POST', ({ own }) => `/organizations/${own.slug}/usage/events`, {
        events: [usageEvent(world.own.productSlugs[0]!, uuid(), { metric: 'requests' })],
      })(world),
  ],
  'post /dashboard/usage/events/correction': [
    withEvent((idempotencyKey) =>
      byMember(
        'POST',
        '/dashboard/usage/events/correction',
        form({ idempotencyKey, quantity: '1', reason: 'half-sent', correctionKey: uuid() }),
      ),
    ),
  ],
  'post /api/usage/reservations': [
    byKey('/api/usage/reservations', ({ own }) => ({
      productSlug: own.productSlugs[0]!,
      metric: 'requests',
      quantity: 1,
      idempotencyKey: uuid(),
    })),
  ],
  'post /api/usage/reservations/{id}/settle': [byKey(heldReservation('/settle'), () => ({}))],
  'delete /api/usage/reservations/{id}': [byKey(heldReservation(), () => ({}), 'DELETE')],
  'put /operator/organizations/{slug}/credits/grants/{grantKey}': [
    withCredits(({ slug }) =>
      byOperator('PUT', () => `/organizations/${slug}/credits/grants/${uuid()}`, { ...because, amount: 1 }),
    ),
  ],
  'post /operator/organizations/{slug}/credits/grants/{grantKey}/void': [
    withCredits(({ slug, grantKey }) =>
      byOperator('POST', () => `/organizations/${slug}/credits/grants/${grantKey}/void`, because),
    ),
  ],
  'post /operator/organizations/{slug}/credits/overdrafts/{productSlug}/forgive': [
    withCredits(({ slug, productSlug }) =>
      byOperator('POST', () => `/organizations/${slug}/credits/overdrafts/${productSlug}/forgive`, because),
    ),
  ],
  'put /operator/products/{slug}': [
    byOperator('PUT', () => `/products/made-${uuid()}`, { name: 'Half-sent', usageMetric: 'calls' }),
  ],
  'put /operator/plans/{slug}': [
    byOperator('PUT', () => `/plans/made-${uuid()}`, { name: 'Half-sent', entitlements: [] }),
  ],
  'post /operator/plans/{slug}/move': [
    withPlan(({ plan }) => byOperator('POST', () => `/plans/${plan}/move`, {})),
  ],
  'put /operator/organizations/{slug}/plan': [
    withPlan(({ plan }) =>
      byOperator('PUT', async ({ db }) => `/organizations/${(await createOrganization(db)).slug}/plan`, {
        plan,
      }),
    ),
  ],
  'delete /operator/organizations/{slug}/plan': [
    withPlan(({ slug }) => byOperator('DELETE', () => `/organizations/${slug}/plan`)),
  ],
  'put /operator/organizations/{slug}': [
    byOperator('PUT', () => `/organizations/made-${uuid()}`, { name: 'Half-sent' }),
    byOperator('PUT', async ({ db }) => `/organizations/${(await createOrganization(db)).slug}`, {
      name: 'Half-sent',
      marketAccess: 'read',
    }),
  ],
  'put /operator/users/{email}': [
    byOperator('PUT', () => `/users/${uuid()}@example.com`, { name: 'Half-sent', password: PASSWORD }),
  ],
  'delete /operator/users/{email}': [byOperator('DELETE', userOf)],
  'delete /operator/users/{email}/sessions': [
    byOperator('DELETE', async (world) => `/users/${(await hire(world)).email}/sessions`),
  ],
  'delete /operator/users/{email}/second-factor': [
    byOperator('DELETE', async (world) => {
      const person = await hire(world);
      await giveSecondFactor(world.db, person.id, world.service.clock);
      return `/users/${person.email}/second-factor`;
    }),
  ],
  'delete /operator/users/{email}/single-sign-on': [
    byOperator('DELETE', async ({ db }) => `/users/${(await createLinked(db)).email}/single-sign-on`),
  ],
  'put /operator/organizations/{slug}/members/{email}': [
    byOperator(
      'PUT',
      async ({ db, own }) => `/organizations/${own.slug}/members/${(await createUser(db)).email}`,
      {
        role: 'owner',
      },
    ),
  ],
  'delete /operator/organizations/{slug}/members/{email}': [
    byOperator(
      'DELETE',
      async ({ own }) => `/organizations/${own.slug}/members/${(await own.newMember()).email}`,
    ),
  ],
  'put /operator/organizations/{slug}/entitlements/{productSlug}': [
    byOperator('PUT', ({ own }) => `/organizations/${own.slug}/entitlements/${own.productSlugs[0]!}`, {
      kind: 'read_only',
    }),
  ],
  'delete /operator/organizations/{slug}/entitlements/{productSlug}': [
    byOperator('DELETE', ({ own }) => `/organizations/${own.slug}/entitlements/${own.productSlugs[1]!}`),
  ],
  'post /operator/organizations/{slug}/webhooks': [
    byOperator('POST', ({ own }) => `/organizations/${own.slug}/webhooks`, endpoint),
  ],
  'put /operator/organizations/{slug}/webhooks/{id}': [
    byOperator('PUT', async ({ own }) => `/organizations/${own.slug}/webhooks/${await own.newWebhook()}`, {
      ...endpoint,
      isEnabled: false,
    }),
  ],
  'delete /operator/organizations/{slug}/webhooks/{id}': [
    byOperator('DELETE', async ({ own }) => `/organizations/${own.slug}/webhooks/${await own.newWebhook()}`),
  ],
  'put /operator/organizations/{slug}/trading/limits': [
    byOperator('PUT', ({ own }) => `/organizations/${own.slug}/trading/limits`, { maxOpenOrders: 7 }),
  ],
  'delete /operator/organizations/{slug}/trading/limits': [
    byOperator('DELETE', async ({ own, service }) => {
      const path = `/organizations/${own.slug}/trading/limits`;
      const answer = await fetch(`${service.url}/operator${path}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
        body: '{"maxOpenOrders":5}',
      });
      if (!answer.ok) throw new Error(await answer.text());
      return path;
    }),
  ],
  'put /operator/organizations/{slug}/trading/switch': [
    byOperator('PUT', ({ own }) => `/organizations/${own.slug}/trading/switch`, {
      state: 'open',
      reason: 'half-sent',
    }),
  ],
  'put /operator/organizations/{slug}/trading/reconciliation': [
    byOperator(
      'PUT',
      ({ live }) => {
        // Creates a difference for the operator to accept.
        live.venue.exchange.balanceCents -= 100;
        return `/organizations/${live.organization.slug}/trading/reconciliation`;
      },
      { accept: true },
      ({ live }) => live.service,
    ),
  ],
  'put /operator/trading/switch': [
    byOperator('PUT', () => '/trading/switch', { state: 'open', reason: 'half-sent' }),
  ],
};

/** Routes without an authority that could be withdrawn during the request. */
export const others = [
  // These only read.
  'post /api/usage/events/lookup',
  'post /api/entitlements/check',
  // These only store a challenge for five minutes; a challenge grants no access.
  'post /dashboard/account/passkeys/new-options',
  'post /dashboard/account/passkeys/options',
  'post /login/code/passkey-options',
  'post /reset/passkey-options',
  'post /login/passkey-options',
  // These only store the link in a cookie of this browser.
  'post /dashboard/join/open',
  'post /reset/open',
  'post /set-up/open',
  // This works only while an issuer is down; test/accounts/identity/single-sign-on/required.test.ts covers it.
  'post /dashboard/account/single-sign-on/waiver',
  // This requests mail to the person's own address, which needs no authority.
  'post /forgot',
  // These end the session that sends them.
  'post /logout',
  'post /dashboard/join/sign-out',
];
