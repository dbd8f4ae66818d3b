import { and, eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { newFormId } from '../../src/core/ids.js';
import { hashToken } from '../../src/accounts/identity/session/session-cookie.js';
import { hashPassword } from '../../src/accounts/identity/password.js';
import {
  identities,
  oneTimeLinks,
  operators,
  secondFactors,
  sessions,
} from '../../src/accounts/identity/table.js';
import { invitations, memberships, organizations, users } from '../../src/accounts/organizations/table.js';
import { webhookDeliveries } from '../../src/accounts/webhooks/table.js';
import { byService, change } from '../../src/accounts/audit/audit.js';
import { createServiceKey } from '../../src/accounts/service-keys/service-keys.js';
import { products } from '../../src/metering/entitlements/table.js';
import { organizationPlans, plans, planVersions } from '../../src/metering/plans/table.js';
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
import { createOrganization } from '../support/fixtures.js';
import { creditAccounts } from '../../src/metering/credits/table.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct } from '../metering/support/products.js';
import { forgetConfirmation, makeLink, makeOperator, signedInOperator } from '../support/operators.js';
import { givePasskey, SoftPasskey } from '../support/passkey.js';
import type { HttpRequest } from '../openapi/support/send-example.js';
import { isDangerous, matrix, type Row } from '../pages/matrix.js';
import type { Populated } from '../pages/populated.js';
import { authenticator, giveSecondFactor } from '../support/second-factor.js';
import { operatorClient, operatorToken } from '../support/operator.js';
import type { TestService } from '../support/service.js';
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
  request: HttpRequest;
  service: TestService;
  /** Ways to withdraw the authority during the request, by name. */
  withdrawals: Record<string, () => Promise<unknown>>;
}

/** Prepares a request to a route, for example `post /console/people/{userId}`. */
export type Prepare = (world: World, address: string) => Promise<Prepared>;

type Fields = Record<string, string>;

/** The fields of a form, and the values that its path contains. */
interface Target {
  fields?: Fields;
  query?: string;
  slug?: string;
  id?: string;
  userId?: string;
}

type MakeTarget<Sender = undefined> = (world: World, sender: Sender) => Target | Promise<Target>;

function formTo(
  address: string,
  { fields = {}, query = '', ...ids }: Target,
  cookies?: Browser,
): HttpRequest {
  const names: Record<string, string> = ids;
  const cookie = [...(cookies?.cookies ?? [])].map(([name, value]) => `${name}=${value}`).join('; ');
  return {
    method: 'POST',
    path: address.replace('post ', '').replace(/\{(\w+)\}/g, (_, name: string) => names[name]!) + query,
    body: new URLSearchParams(fields).toString(),
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'text/html',
      ...(cookie ? { cookie } : {}),
    },
  };
}

const signOut =
  ({ db }: World, browser: Browser) =>
  () =>
    db.orm.delete(sessions).where(eq(sessions.hashedToken, sessionIdOf(browser)));

/** Functions that withdraw a member's authority. */
export function withdrawalsOf(
  db: Database,
  member: { orgId: string; userId: string; demotedTo: 'member' | 'billing' | 'admin' },
) {
  const isTheirs = and(eq(memberships.orgId, member.orgId), eq(memberships.userId, member.userId));
  return {
    removed: () => db.orm.delete(memberships).where(isTheirs),
    demoted: () => db.orm.update(memberships).set({ role: member.demotedTo }).where(isTheirs),
  };
}

/** Creates a signed-in admin of the Organization. */
async function hire({ db, service, own }: World) {
  const user = await createUser(db);
  await addMember(db, own.id, user.id, 'admin');
  return { ...user, browser: await openSession(db, service.url, user.id, service.clock.now()) };
}

type Hired = Awaited<ReturnType<typeof hire>>;

/** Prepares a form submission about a person's own account. */
const byPerson =
  (makeTarget: MakeTarget<Hired> = () => ({})): Prepare =>
  async (world, address) => {
    const person = await hire(world);
    return {
      service: world.service,
      request: formTo(address, await makeTarget(world, person), person.browser),
      withdrawals: { 'signed out': signOut(world, person.browser) },
    };
  };

/** Prepares the form of a row of the permission matrix, submitted by an admin of the Organization. */
const byRow =
  (row: Row): Prepare =>
  async (world, address) => {
    const { db, service, own } = world;
    const { id: userId, browser } = await hire(world);
    const path = (await row.path?.(own, 'admin')) ?? address.replace('post ', '');
    const [, member, billing] = row.own;
    const demotedTo = billing >= 400 ? 'billing' : 'member';
    return {
      service,
      request: formTo(path, { fields: (await row.form?.(own)) ?? {} }, browser),
      withdrawals: {
        'signed out': signOut(world, browser),
        ...(member >= 400 ? withdrawalsOf(db, { orgId: own.id, userId, demotedTo }) : {}),
      },
    };
  };

/** Prepares a form submission by the owner of a new Organization. */
const byOwner =
  (
    fields: Fields,
    more: (world: World, owner: Awaited<ReturnType<typeof signedIn>>) => Promise<Prepared['withdrawals']>,
  ): Prepare =>
  async (world, address) => {
    const { db, service } = world;
    const owner = await signedIn(db, service.url);
    const member = { orgId: owner.organization.id, userId: owner.user.id, demotedTo: 'admin' as const };
    return {
      service,
      withdrawals: {
        'signed out': signOut(world, owner.browser),
        ...withdrawalsOf(db, member),
        ...(await more(world, owner)),
      },
      request: formTo(address, { fields }, owner.browser),
    };
  };

/** Prepares a request that carries its own proof: a password, a code or a link's secret. */
const byProof =
  (
    prepare: (world: World) => Promise<{
      fields: Fields;
      browser?: Browser;
      withdrawals: Prepared['withdrawals'];
    }>,
  ): Prepare =>
  async (world, address) => {
    const { fields, browser, withdrawals } = await prepare(world);
    return { service: world.service, request: formTo(address, { fields }, browser), withdrawals };
  };

/** Creates an Organization on the first of a plan's two versions. */
async function createPlan({ db, service, own }: World): Promise<{ slug: string; plan: string }> {
  const { id: orgId, slug } = await createOrganization(db);
  const plan = `plan-${uuid()}`;
  const at = new Date(service.clock.now());
  const both = { createdAt: at, updatedAt: at };
  await db.orm.insert(plans).values({ slug: plan, name: 'Plan', version: 2, ...both });
  for (const [version, productSlug] of own.productSlugs.slice(0, 2).entries())
    await db.orm.insert(planVersions).values({
      plan,
      version: version + 1,
      definition: { entitlements: [{ productSlug, kind: 'live' }], grants: [] },
      createdAt: at,
    });
  const start = { startsAt: at, anchor: at, grantedUntil: at };
  await db.orm.insert(organizationPlans).values({ orgId, plan, version: 1, ...start, ...both });
  return { slug, plan };
}

async function makeServiceKey({ service: { context, clock } }: World): Promise<string> {
  const input = { name: 'gateway', livemode: true, scopes: ['usage:write' as const], expiresAt: null };
  const source = { actor: 'operator', at: new Date(clock.now()) };
  return (await change(context, byService, (tx) => createServiceKey(tx, input, source))).key.id;
}

/** Prepares a form submission by a signed-in operator. */
const byOperator =
  (
    makeTarget: MakeTarget,
    asksAgain?: 'asks for the password again',
    serviceOf: (world: World) => TestService = (world) => world.service,
  ): Prepare =>
  async (world, address) => {
    const { db, own } = world;
    const service = serviceOf(world);
    const { id, browser } = await signedInOperator(service);
    return {
      service,
      request: formTo(address, { slug: own.slug, ...(await makeTarget(world, undefined)) }, browser),
      withdrawals: {
        'signed out': signOut(world, browser),
        'no operator any more': () => db.orm.delete(operators).where(eq(operators.userId, id)),
        'without a second factor': () => db.orm.delete(secondFactors).where(eq(secondFactors.userId, id)),
        ...(asksAgain || isDangerous(address)
          ? { 'signed in long ago': () => forgetConfirmation(service, browser) }
          : {}),
      },
    };
  };

/** Prepares a request by a link's holder, with the cookie of the browser that opened the link. */
const byLink =
  (
    prepare: (world: World) => Promise<{
      token: string;
      fields: Fields;
      /** Returns the value of the passkey field, signed in the browser that opened the link. */
      sign?: (opener: Browser) => Promise<string>;
    }>,
  ): Prepare =>
  async (world, address) => {
    const { token, fields, sign } = await prepare(world);
    const opener = new Browser(world.service.url);
    const page = address.split('/')[1]!;
    await opener.send('POST', `/${page}/open`, { form: { link: token } });
    const passkey = await sign?.(opener);
    const used = { usedAt: new Date('2020-01-01T00:00:00Z') };
    const isThis = eq(oneTimeLinks.hashedToken, hashToken(token));
    return {
      service: world.service,
      request: formTo(address, { fields: { ...fields, ...(passkey ? { passkey } : {}) } }, opener),
      withdrawals: { 'link used': () => world.db.orm.update(oneTimeLinks).set(used).where(isThis) },
    };
  };

async function createLinked(db: Database) {
  const user = await createUser(db);
  const identity = { issuer: 'https://login.example.com', subject: user.id, userId: user.id };
  await db.orm.insert(identities).values({ ...identity, createdAt: new Date() });
  return user;
}

/** Creates a customer with a grant and an overdraft. */
async function createDebtor({ db, service }: World) {
  const { id: orgId, slug } = await createOrganization(db);
  const product = await createProduct(db);
  const scoped = { amount: '5', productIds: [uuid()] };
  const grantKey = await addGrant(db, orgId, scoped, new Date(service.clock.now()));
  await db.orm
    .update(creditAccounts)
    .set({ debtors: [product.id], debts: ['2'] })
    .where(eq(creditAccounts.orgId, orgId));
  return { slug, grantKey, productSlug: product.slug };
}

const because = { reason: 'half-sent' };

async function withFactor({ db, service }: World, { id }: Hired) {
  const app = await giveSecondFactor(db, id, service.clock);
  return { fields: { currentPassword: PASSWORD, code: app.code() } };
}

/** Begins the set-up of a second factor, and returns the code that confirms it. */
async function beginSetUp({ service }: World, { browser }: Hired, start: string, page: string) {
  const begun = await browser.send('POST', start, { form: { currentPassword: PASSWORD } });
  if (begun.status !== 303) throw new Error(begun.text);
  const { text } = await browser.get(page, { accept: 'text/html' });
  return { code: authenticator(/secret=([A-Z2-7]{32})/.exec(text)![1]!, service.clock)() };
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

const endpointFields = { url: 'https://hooks.example.com/', types: 'api_key.created', livemode: 'true' };

/** The limit set by the previous change. Each change must raise the limit further. */
let raisedOpenOrders = 1_000;

const newPerson = async ({ db }: World) => ({ userId: (await createUser(db)).id });
const newSlug = () => `made-${uuid()}`;

const inConsole: Record<string, Prepare | Prepare[]> = {
  'post /console/new-customer': [
    byOperator(() => ({ fields: { slug: newSlug(), name: 'Half-sent' } })),
    byOperator(() => ({ fields: { slug: newSlug(), name: 'Half-sent', marketAccess: 'read' } })),
    byOperator(() => ({
      fields: { slug: newSlug(), name: 'Half-sent', email: `guest-${uuid()}@example.com` },
    })),
  ],
  'post /console/customers/{slug}/settings': byOperator(() => ({
    fields: { name: `Half-sent ${uuid()}`, mayCorrect: 'yes' },
  })),
  // A customer of its own, because archiving the shared one would break other requests.
  'post /console/customers/{slug}/archive': byOperator(async ({ db }) => ({
    slug: (await createOrganization(db)).slug,
    fields: { archived: 'yes' },
  })),
  'post /console/customers/{slug}/invite': byOperator(() => ({
    fields: { email: `guest-${uuid()}@example.com`, role: 'owner', days: '7' },
  })),
  'post /console/customers/{slug}/invitations/{id}/revoke': byOperator(({ own }) => own.newInvitation()),
  'post /console/customers/{slug}/people/{userId}/role': byOperator(async ({ own }) => ({
    userId: (await own.newMember()).id,
    fields: { role: 'billing' },
  })),
  'post /console/customers/{slug}/people/{userId}/remove': byOperator(async ({ own }) => ({
    userId: (await own.newMember()).id,
  })),
  'post /console/customers/{slug}/entitlement': byOperator(({ own }) => ({
    query: `?product=${own.productSlugs[0]!}`,
    fields: { kind: 'live', cap: 'own', unitCap: String(Math.ceil(Math.random() * 1e9)), step: 'save' },
  })),
  'post /console/customers/{slug}/entitlement/withdraw': byOperator(({ own }) => ({
    fields: { product: own.productSlugs[2]! },
  })),
  'post /console/customers/{slug}/keys/{id}/revoke': byOperator(({ own }) => own.newKey()),
  'post /console/customers/{slug}/webhooks/new': byOperator(({ own }) => ({
    fields: { ...endpointFields, id: newFormId(own.now()) },
  })),
  'post /console/customers/{slug}/webhooks/{id}/edit': byOperator(({ own }) => ({
    id: own.webhook.id,
    fields: { ...endpointFields, url: `https://hooks.example.com/${uuid()}`, isEnabled: 'true' },
  })),
  'post /console/customers/{slug}/webhooks/{id}/test': byOperator(({ own }) => ({ id: own.webhook.id })),
  'post /console/customers/{slug}/webhooks/{id}/delete': byOperator(async ({ own }) => ({
    id: await own.newWebhook(),
  })),
  'post /console/customers/{slug}/usage': byOperator(({ own }) => ({
    query: `?event=${own.eventKeys[1]}`,
    fields: {
      step: 'save',
      quantity: '1',
      reason: 'half-sent',
      correctionKey: uuid(),
    },
  })),
  'post /console/customers/{slug}/credits/grant': byOperator(async (world) => ({
    slug: (await createDebtor(world)).slug,
    fields: { ...because, step: 'save', mode: 'live', grantKey: uuid(), amount: '1', priority: '50' },
  })),
  'post /console/customers/{slug}/credits/void': byOperator(async (world) => {
    const { slug, grantKey } = await createDebtor(world);
    return { slug, fields: { ...because, mode: 'live', grant: grantKey } };
  }),
  'post /console/customers/{slug}/credits/forgive': byOperator(async (world) => {
    const { slug, productSlug } = await createDebtor(world);
    return { slug, fields: { ...because, mode: 'live', product: productSlug } };
  }),
  'post /console/customers/{slug}/trading/limits': [
    byOperator(() => ({ fields: { maxOpenOrders: '9' } })),
    byOperator(
      () => ({ fields: { maxOpenOrders: String(++raisedOpenOrders) } }),
      'asks for the password again',
    ),
  ],
  'post /console/customers/{slug}/trading/limits/withdraw': byOperator(() => ({})),
  'post /console/customers/{slug}/trading/switch': byOperator(() => ({
    fields: { state: 'open', reason: uuid() },
  })),
  'post /console/new-product': byOperator(() => ({
    fields: { slug: newSlug(), name: 'Half-sent', usageMetric: 'x' },
  })),
  'post /console/products/{slug}': byOperator(async ({ db }) => ({
    slug: (await createProduct(db)).slug,
    fields: { name: 'Half-sent', usageMetric: 'calls' },
  })),
  'post /console/products/{slug}/price': byOperator(async ({ db }) => {
    const { id, slug } = await createProduct(db);
    const [product] = await db.orm.select().from(products).where(eq(products.id, id));
    const seen = product!.updatedAt.toISOString();
    return { slug, fields: { step: 'save', price: '2', enforcement: 'warn', seen } };
  }),
  'post /console/products/{slug}/archive': byOperator(async ({ db }) => ({
    slug: (await createProduct(db)).slug,
    fields: { archived: 'yes' },
  })),
  'post /console/new-plan': byOperator(() => ({
    fields: { name: 'Half-sent', slug: newSlug(), definition: 'entitlements: []', step: 'save' },
  })),
  'post /console/plans/{slug}': byOperator(async (world) => ({
    slug: (await createPlan(world)).plan,
    fields: { name: 'Half-sent', definition: 'entitlements: []', step: 'save' },
  })),
  'post /console/plans/{slug}/move': byOperator(async (world) => ({ slug: (await createPlan(world)).plan })),
  'post /console/customers/{slug}/plan': byOperator(async (world) => ({
    slug: (await createOrganization(world.db)).slug,
    fields: { plan: (await createPlan(world)).plan, step: 'save' },
  })),
  'post /console/customers/{slug}/portal': byOperator(({ own }) => ({
    slug: own.slug,
    fields: { pages: 'usage', expiresInMinutes: '60' },
  })),
  'post /console/customers/{slug}/view': byOperator(({ own }) => ({ slug: own.slug })),
  'post /console/customers/{slug}/portal/end': byOperator(async ({ service }) => {
    const slug = newSlug();
    const operate = operatorClient(() => service);
    await operate('PUT', `/organizations/${slug}`, { name: 'Viewers' });
    await operate('POST', `/organizations/${slug}/portal-sessions`);
    return { slug };
  }),
  'post /console/service-keys/new': byOperator(({ service }) => ({
    fields: {
      id: newFormId(service.clock.now()),
      name: 'gateway',
      livemode: 'true',
      scopes: 'usage:write',
      expiry: 'never',
    },
  })),
  'post /console/service-keys/{id}/rotate': byOperator(async (world) => ({
    id: await makeServiceKey(world),
    fields: { grace: '0' },
  })),
  'post /console/service-keys/{id}/revoke': byOperator(async (world) => ({
    id: await makeServiceKey(world),
  })),
  'post /console/operators/invite': byOperator(() => ({ fields: { email: `${uuid()}@example.com` } })),
  'post /console/operators/{userId}/remove': byOperator(async ({ db, service }) => {
    const { id: userId } = await createUser(db);
    await makeOperator(service, userId);
    return { userId };
  }),
  'post /console/people/{userId}/link': byOperator(async (world) => ({
    ...(await newPerson(world)),
    fields: { kind: 'password_reset' },
  })),
  'post /console/people/{userId}': byOperator(async (world) => ({
    ...(await newPerson(world)),
    fields: { name: 'Half-sent' },
  })),
  'post /console/people/{userId}/sign-out': byOperator(async ({ db, service }) => {
    const { id, email } = await createUser(db);
    await new Browser(service.url).signIn(email);
    return { userId: id };
  }),
  'post /console/people/{userId}/second-factor': byOperator(async ({ db, service }) => {
    const { id } = await createUser(db);
    await giveSecondFactor(db, id, service.clock);
    return { userId: id };
  }),
  'post /console/people/{userId}/single-sign-on': byOperator(async ({ db }) => ({
    userId: (await createLinked(db)).id,
  })),
  'post /console/people/{userId}/delete': byOperator(newPerson),
  'post /console/trading/reconciliation': byOperator(
    ({ live }) => {
      // Creates a difference for the operator to accept.
      live.venue.exchange.balanceCents -= 100;
      return { fields: { accept: 'yes' } };
    },
    undefined,
    ({ live }) => live.service,
  ),
  'post /console/trading/switch': byOperator(() => ({ fields: { state: 'open', reason: uuid() } })),
};

const SECOND_FACTOR = '/dashboard/account/second-factor';

const byAccount: Record<string, Prepare | Prepare[]> = {
  'post /dashboard/members/second-factor': byOwner({ required: 'yes' }, async ({ db, service }, { user }) => {
    await giveSecondFactor(db, user.id, service.clock);
    return {};
  }),
  'post /dashboard/members/single-sign-on': byOwner(
    { required: 'no' },
    async ({ db }, { organization, browser }) => {
      const isTheirs = eq(organizations.id, organization.id);
      await db.orm.update(organizations).set({ requireSingleSignOn: true }).where(isTheirs);
      const signedInAt = (singleSignOnAt: Date | null) =>
        db.orm
          .update(sessions)
          .set({ singleSignOnAt })
          .where(eq(sessions.hashedToken, sessionIdOf(browser)));
      await signedInAt(new Date());
      return { 'not by single sign-on': () => signedInAt(null) };
    },
  ),
  'post /dashboard/webhooks/{id}/resend': async (world, address) => {
    const { id: endpointId } = world.own.webhook;
    const isTheirs = eq(webhookDeliveries.endpointId, endpointId);
    await world.db.orm.update(webhookDeliveries).set({ status: 'failed' }).where(isTheirs);
    return byRow(matrix[address]!)(world, address);
  },
  'post /dashboard/account/password': byPerson(() => ({
    fields: { currentPassword: PASSWORD, ...chosenPassword },
  })),
  'post /dashboard/account/second-factor/setup': byPerson(async (world, person) => ({
    fields: await beginSetUp(world, person, SECOND_FACTOR, `${SECOND_FACTOR}/setup`),
  })),
  'post /dashboard/account/second-factor/recovery-codes': byPerson(withFactor),
  'post /dashboard/account/second-factor/off': byPerson(withFactor),
  'post /dashboard/account/passkeys': byPerson(async ({ service }, { id, browser }) => {
    const options = await browser.send('POST', '/dashboard/account/passkeys/new-options');
    return { fields: { name: 'Laptop', passkey: new SoftPasskey(service.url, id).create(options.body) } };
  }),
  'post /dashboard/account/passkeys/remove': byPerson(async ({ db, service }, { id }) => ({
    fields: { id: (await givePasskey(db, id, service.url)).id },
  })),
  'post /dashboard/account/sessions/{id}/end': byPerson(async ({ db, service }, { id, email }) => {
    const other = new Browser(service.url);
    await other.signIn(email);
    const rows = await db.orm.select().from(sessions).where(eq(sessions.userId, id));
    return { id: rows.find(({ hashedToken }) => hashedToken === sessionIdOf(other))!.id };
  }),
  'post /dashboard/join': byProof(async (world) => {
    const user = await createUser(world.db);
    const browser = new Browser(world.service.url);
    await browser.signIn(user.email);
    const { id, token } = await world.own.newInvitation();
    const withdrawals = { 'signed out': signOut(world, browser), 'invitation revoked': revoked(world, id) };
    return { fields: { invitation: token }, browser, withdrawals };
  }),
  'post /dashboard/join/account': byProof(async (world) => {
    const { id, token } = await world.own.newInvitation();
    return {
      fields: { invitation: token, name: 'A guest', password: 'a long phrase of their own' },
      withdrawals: { 'invitation revoked': revoked(world, id) },
    };
  }),
  'post /login': byProof(async (world) => {
    const { id, email } = await createUser(world.db);
    const withdrawals = { 'password changed': changedPassword(world, id) };
    return { fields: { email, password: PASSWORD }, withdrawals };
  }),
  'post /login/code': byProof(async (world) => {
    const { id, email } = await createUser(world.db);
    const app = await giveSecondFactor(world.db, id, world.service.clock);
    const browser = new Browser(world.service.url);
    await browser.signIn(email);
    const withdrawals = { 'password changed': changedPassword(world, id) };
    return { fields: { code: app.code() }, browser, withdrawals };
  }),
  'post /login/passkey': byProof(async ({ db, service }) => {
    const { id } = await createUser(db);
    const passkey = await givePasskey(db, id, service.url);
    const { body } = await new Browser(service.url).send('POST', '/login/passkey-options');
    // No withdrawals here, because a refused sign-in is itself recorded. The passkey tests cover the removal of a
    // passkey during a sign-in.
    return { fields: { passkey: passkey.use(body) }, withdrawals: {} };
  }),
  'post /reset': [
    byLink(async ({ db, service }) => ({
      token: await makeLink(service, 'password_reset', await createUser(db)),
      fields: chosenPassword,
    })),
    byLink(async ({ db, service }) => {
      const user = await createUser(db);
      const passkey = await givePasskey(db, user.id, service.url);
      return {
        token: await makeLink(service, 'password_reset', user),
        fields: chosenPassword,
        sign: async (opener) => passkey.use((await opener.send('POST', '/reset/passkey-options')).body),
      };
    }),
    byLink(async ({ db, service }) => {
      const user = await createUser(db);
      await giveSecondFactor(db, user.id, service.clock);
      const token = await makeLink(service, 'second_factor_reset', user);
      return { token, fields: { password: PASSWORD } };
    }),
  ],
  'post /set-up/person': [
    byLink(async ({ service }) => ({
      token: await makeLink(service, 'setup'),
      fields: { name: 'Half Sent', email: `${uuid()}@example.com`, password: 'one half-sent long phrase' },
    })),
    byLink(async ({ db, service }) => ({
      token: await makeLink(service, 'setup'),
      fields: { email: (await createUser(db)).email, password: PASSWORD },
    })),
  ],
  'post /set-up/second-factor': byPerson(async ({ service }, { id }) => {
    await makeOperator(service, id);
    return { fields: { currentPassword: PASSWORD } };
  }),
  'post /set-up/second-factor/confirm': byPerson(async (world, person) => {
    await makeOperator(world.service, person.id);
    return { fields: await beginSetUp(world, person, '/set-up/second-factor', '/set-up') };
  }),
  'post /set-up/product': byOperator(() => ({
    fields: {
      productSlug: newSlug(),
      productName: 'Half-sent',
      usageMetric: 'calls',
      unitCap: '',
      orgSlug: newSlug(),
      orgName: 'Half-sent',
    },
  })),
  'post /set-up/owner': [
    byOperator(async ({ db }) => {
      const { slug } = await createOrganization(db);
      return { fields: { organization: slug, owner: 'other', email: `${uuid()}@example.com` } };
    }, 'asks for the password again'),
    byOperator(async ({ db }) => {
      const { slug } = await createOrganization(db);
      return { fields: { organization: slug, owner: 'me', email: '' } };
    }, 'asks for the password again'),
  ],
};

/** The example of this route changes nothing, because its customer owes nothing. */
const forgiven: Prepare = async (world, address) => {
  const { slug, productSlug } = await createDebtor(world);
  const { operatorTokens } = world.service.context.config;
  return {
    service: world.service,
    request: {
      method: 'POST',
      path: address.replace('post ', '').replace('{slug}', slug).replace('{productSlug}', productSlug),
      body: JSON.stringify(because),
      headers: { 'content-type': 'application/json', authorization: `Bearer ${operatorToken}` },
    },
    withdrawals: { 'token exchanged': async () => void operatorTokens.splice(0) },
  };
};

/** The forms that take effect as the permission matrix fills them in. */
const inMatrix = Object.entries(matrix)
  .filter(
    ([
      address,
      {
        own: [nobody, , , , owner],
      },
    ]) => {
      const takesEffect = owner === 201 || owner === 303;
      return address.startsWith('post ') && nobody === 401 && takesEffect;
    },
  )
  .map(([address, row]): [string, Prepare] => [address, byRow(row)]);

/**
 * Every form that changes something, and each API route whose examples change nothing. Add a form here only if its row
 * in `test/pages/matrix.ts` does not submit it with values that take effect for an admin.
 */
export const changes: Record<string, Prepare | Prepare[]> = {
  ...Object.fromEntries(inMatrix),
  ...byAccount,
  ...inConsole,
  // The answer is a page.
  'post /dashboard/portfolio/orders/cancel': (world, address) => byRow(matrix[address]!)(world, address),
  'post /operator/organizations/{slug}/credits/overdrafts/{productSlug}/forgive': forgiven,
};

/** Routes without an authority that could be withdrawn during the request. */
export const others = [
  // These only read.
  'post /api/usage/events/lookup',
  'post /api/entitlements/check',
  'post /service/keys/verify',
  'post /service/organizations/{slug}/usage/events/lookup',
  'post /service/organizations/{slug}/entitlements/check',
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
