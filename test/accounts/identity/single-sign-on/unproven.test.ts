import { readdirSync, readFileSync } from 'node:fs';
import { eq } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { auditOf, operatorLogOf } from '../../../support/audit.js';
import { operatorLog } from '../../../../src/accounts/audit/table.js';
import {
  identities,
  keptForms,
  oneTimeLinks,
  operators,
  passkeys,
  recoveryCodes,
  secondFactors,
  sessions,
} from '../../../../src/accounts/identity/table.js';
import { invitations, memberships, users } from '../../../../src/accounts/organizations/table.js';
import { addMember, Browser, createUser, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { TestIssuer } from '../../../support/issuer.js';
import { operatorClient } from '../../../support/operator.js';
import { makeOperator } from '../../../support/operators.js';
import { givePasskey } from '../../../support/passkey.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { use, useService } from '../../../support/use.js';
import { freshEmail, invite, JOIN, openLink, post, roleOf, signIn } from '../members/support.js';

const issuer = use(
  () => new TestIssuer().start(),
  (started) => started.stop(),
);
const { database, service, startAnother } = useService(() => ({ env: issuer.env() }));
const operator = operatorClient(() => service);

beforeEach(() => service.clock.advance(61_000));

const password = 'four unrelated words here';
const userOf = async (email: string) =>
  (await database.db.orm.select().from(users).where(eq(users.email, email)))[0]!;
const isSignedIn = async (browser: Browser) =>
  (await browser.get('/dashboard/account', { accept: 'text/html', 'sec-fetch-mode': 'navigate' })).status ===
  200;

/** Invites the address, opens the link that the page shows, and creates the account. */
async function makeAccount(email = freshEmail()) {
  const inviter = await signedIn(database.db, service.url);
  const invitation = await invite(inviter.browser, email, { role: 'admin' });
  const browser = new Browser(service.url);
  await openLink(browser, invitation);
  const made = await post(browser, `${JOIN}/account`, { invitation, name: 'Intruder', password });
  expect(made.status).toBe(303);
  const user = await userOf(email);
  expect(user.provenAt).toBeNull();
  return { email, user, browser, organization: inviter.organization };
}

/** An instance whose issuer makes people with the value `staff` admins of a new Organization. */
async function startWithRoles() {
  const organization = await createOrganization(database.db);
  const roles = { OIDC_ROLES_CLAIM: 'groups', OIDC_ROLES: `staff=${organization.slug}:admin` };
  return { organization, other: await startAnother({ env: issuer.env(roles) }) };
}

const claimsOf = (email: string) => ({
  sub: uuid(),
  email,
  email_verified: true,
  name: 'Real Person',
  groups: ['staff'],
});

describe('an account whose address nobody has proven', () => {
  it('goes to the person with the verified address, and nothing of whoever made it stays', async () => {
    const { email, user, browser: intruder, organization: theirs } = await makeAccount();
    const { organization, other } = await startWithRoles();
    await giveSecondFactor(database.db, user.id, service.clock);
    await givePasskey(database.db, user.id, service.url);
    const pending = new Browser(service.url);
    expect((await pending.signIn(email, password)).headers.get('location')).toContain('/login/code');
    const later = new Date(service.clock.now() + 60_000);
    const form = { userId: user.id, hashedToken: 'x', page: '/dashboard', values: {}, expiresAt: later };
    await database.db.orm.insert(keptForms).values(form);
    const link = { kind: 'second_factor_reset', hashedToken: uuid(), userId: user.id, expiresAt: later };
    await database.db.orm
      .insert(oneTimeLinks)
      .values({ ...link, kind: 'second_factor_reset', createdAt: new Date() });

    issuer.claims = claimsOf(email);
    const real = new Browser(other.url);
    const answer = await issuer.signIn(real, '/dashboard');
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/dashboard']);
    expect((await real.get('/dashboard/session')).body).toMatchObject({
      user: { email },
      organizations: [{ slug: organization.slug, role: 'admin' }],
    });
    expect(await isSignedIn(intruder)).toBe(false);
    expect((await new Browser(service.url).signIn(email, password)).status).toBe(401);
    expect((await post(pending, '/login/code', { code: '000000' })).headers.get('location')).toContain(
      'expired',
    );
    const row = await userOf(email);
    expect(row).toMatchObject({ name: 'Real Person', provenAt: new Date(other.clock.now()) });
    for (const table of [passkeys, secondFactors, recoveryCodes, keptForms, oneTimeLinks])
      expect(await database.db.orm.$count(table, eq(table.userId, user.id))).toBe(0);
    expect(await roleOf(database.db, theirs.id, user.id)).toBeUndefined();
    expect((await auditOf(database.db, theirs.id)).at(-1)).toMatchObject({
      action: 'member.removed',
      actor: 'single_sign_on',
      target: email,
      details: { before: { role: 'admin' }, takenOver: true },
    });
    expect((await operatorLogOf(database.db, email)).map(({ action }) => action)).toContain(
      'user.taken_over',
    );
    // The next sign-in finds an ordinary account.
    expect((await issuer.signIn(new Browser(other.url))).status).toBe(303);
    expect(await isSignedIn(real)).toBe(true);
  });

  it('stays whole if the person has signed in to it in the same browser', async () => {
    const { email, user, browser, organization } = await makeAccount();
    issuer.claims = claimsOf(email);
    expect((await issuer.signIn(browser)).status).toBe(303);
    expect(await roleOf(database.db, organization.id, user.id)).toBe('admin');
    expect((await new Browser(service.url).signIn(email, password)).status).toBe(303);
    expect((await userOf(email)).provenAt).not.toBeNull();
  });

  it('keeps the memberships that an operator granted', async () => {
    const { email, user } = await makeAccount();
    const [mine, declared] = [await createOrganization(database.db), await createOrganization(database.db)];
    await addMember(database.db, declared.id, user.id, 'member');
    const inviting = await createUser(database.db);
    await makeOperator(service, inviting.id);
    const at = new Date(service.clock.now());
    const accepted = { hashedToken: uuid(), acceptedAt: at, acceptedBy: user.id, createdBy: inviting.id };
    const row = { orgId: mine.id, id: uuid(), email, role: 'member', createdAt: at, expiresAt: at } as const;
    await database.db.orm.insert(invitations).values({ ...row, ...accepted });
    await addMember(database.db, mine.id, user.id, 'member', at);
    issuer.claims = claimsOf(email);
    expect((await issuer.signIn(new Browser(service.url))).status).toBe(303);
    const kept = await database.db.orm.select().from(memberships).where(eq(memberships.userId, user.id));
    expect(new Set(kept.map(({ orgId }) => orgId))).toEqual(new Set([mine.id, declared.id]));
  });

  it('gets no role in another Organization from an operator who names the address, until it is proven', async () => {
    const { email, user, browser, organization } = await makeAccount();
    const other = await createOrganization(database.db);
    const put = () => operator('PUT', `/organizations/${other.slug}/members/${email}`, { role: 'owner' });
    expect(await put()).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(await roleOf(database.db, other.id, user.id)).toBeUndefined();
    await givePasskey(database.db, user.id, service.url);
    const declared = { name: 'Real Person', password: 'another four unrelated words' };
    expect((await operator('PUT', `/users/${email}`, declared)).status).toBe(200);
    expect(await isSignedIn(browser)).toBe(false);
    // Without the intruder's passkey, the password is enough.
    const real = await new Browser(service.url).signIn(email, declared.password);
    expect(real.headers.get('location')).toBe('/dashboard');
    expect((await put()).status).toBe(201);
    // Its own Organization has let it in before.
    const own = `/organizations/${organization.slug}/members/${email}`;
    expect([
      (await operator('DELETE', own)).status,
      (await operator('PUT', own, { role: 'member' })).status,
    ]).toEqual([204, 201]);
  });

  it('that was linked by an earlier version loses its password at the next sign-in, but no membership', async () => {
    const { email, user, browser: intruder, organization } = await makeAccount();
    issuer.claims = claimsOf(email);
    const { sub } = issuer.claims as { sub: string };
    const createdAt = new Date(service.clock.now());
    await database.db.orm
      .insert(identities)
      .values({ issuer: issuer.url, subject: sub, userId: user.id, createdAt });
    expect((await issuer.signIn(new Browser(service.url))).status).toBe(303);
    expect(await isSignedIn(intruder)).toBe(false);
    expect((await new Browser(service.url).signIn(email, password)).status).toBe(401);
    expect(await roleOf(database.db, organization.id, user.id)).toBe('admin');
  });

  it('is taken over once, even by concurrent sign-ins of both people', async () => {
    const { email, user } = await makeAccount();
    issuer.claims = claimsOf(email);
    const browsers = [1, 2, 3].map(() => new Browser(service.url));
    const paths = await Promise.all(browsers.map((browser) => issuer.visit(browser)));
    const intruders = [1, 2, 3].map(() => new Browser(service.url));
    await Promise.all([
      ...browsers.map((browser, i) => browser.get(paths[i]!)),
      ...intruders.map((browser) => browser.signIn(email, password)),
    ]);
    for (const browser of browsers) expect(await isSignedIn(browser)).toBe(true);
    for (const browser of intruders) expect(await isSignedIn(browser)).toBe(false);
    expect(await database.db.orm.$count(sessions, eq(sessions.userId, user.id))).toBe(3);
    const log = await operatorLogOf(database.db, email);
    expect(log.filter(({ action }) => action === 'user.taken_over')).toHaveLength(1);
  });
});

describe('what is stored between the two factors', () => {
  it('roles of the claim are granted after the second factor, in the session’s transaction', async () => {
    const user = await createUser(database.db);
    const { organization, other } = await startWithRoles();
    const app = await giveSecondFactor(database.db, user.id, other.clock);
    issuer.claims = claimsOf(user.email);
    const browser = new Browser(other.url);
    expect((await issuer.signIn(browser)).headers.get('location')).toContain('/login/code');
    expect(await roleOf(database.db, organization.id, user.id)).toBeUndefined();
    const code = app.code();
    const wrong = await post(browser, '/login/code', { code: code === '000000' ? '000001' : '000000' });
    expect(wrong.status).toBe(401);
    expect(await roleOf(database.db, organization.id, user.id)).toBeUndefined();
    expect((await post(browser, '/login/code', { code })).status).toBe(303);
    expect(await roleOf(database.db, organization.id, user.id)).toBe('admin');
  });

  it.each([
    ['remembered', () => undefined, true],
    ['new', () => Math.floor(Date.now() / 1000), false],
  ])('a %s sign-in at the issuer stays one', async (_what, authTime, isDue) => {
    const user = await createUser(database.db);
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    issuer.claims = { ...claimsOf(user.email), auth_time: authTime() };
    const browser = new Browser(service.url);
    service.clock.set(new Date().toISOString());
    await issuer.signIn(browser);
    expect((await post(browser, '/login/code', { code: app.code() })).status).toBe(303);
    const [session] = await database.db.orm.select().from(sessions).where(eq(sessions.userId, user.id));
    expect(session!.confirmedAt === null).toBe(isDue);
    const page = await browser.get('/dashboard/account/passkeys', { accept: 'text/html' });
    expect(page.text.includes('confirm it’s you')).toBe(isDue);
  });

  it.each([false, true])('the Organization on the screen stays (second factor: %s)', async (hasFactor) => {
    const user = await createUser(database.db);
    const made = [await createOrganization(database.db), await createOrganization(database.db)];
    for (const [i, { id }] of made.entries())
      await addMember(database.db, id, user.id, 'admin', new Date(Date.UTC(2020, i)));
    const browser = await signIn(service.url, user.email);
    const { slug, id } = made[1]!;
    await database.db.orm.update(sessions).set({ currentOrgId: id }).where(eq(sessions.userId, user.id));
    const app = hasFactor ? await giveSecondFactor(database.db, user.id, service.clock) : undefined;
    await browser.signIn(user.email);
    if (app) expect((await post(browser, '/login/code', { code: app.code() })).status).toBe(303);
    expect((await browser.get('/dashboard/session')).body).toMatchObject({ organization: { slug } });
    // Another person in the same browser begins with their own.
    const other = await createUser(database.db);
    await addMember(database.db, made[0]!.id, other.id, 'admin', new Date(Date.UTC(2020, 0)));
    await addMember(database.db, id, other.id, 'admin', new Date(Date.UTC(2020, 1)));
    await browser.signIn(other.email);
    expect((await browser.get('/dashboard/session')).body).toMatchObject({
      organization: { slug: made[0]!.slug },
    });
  });
});

it('the upgrade counts an address as proven only if an operator, the issuer or a link proved it', async () => {
  const folder = new URL('../../../../migrations/', import.meta.url);
  const statement = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .flatMap((name) => readFileSync(new URL(name, folder), 'utf8').split('--> statement-breakpoint'))
    .find((text) => text.includes('SET proven_at'))!;
  const at = new Date('2026-01-01T00:00:00Z');
  const log = (user: { id: string; email: string }, action: string, details = {}) =>
    database.db.orm
      .insert(operatorLog)
      .values({ id: uuid(), at, actor: user.id, target: user.email, action, details });
  const made = Object.fromEntries(
    await Promise.all(
      ['byOperator', 'byIssuer', 'operator', 'byLink', 'byMember', 'byMemberThenLinked', 'unknown'].map(
        async (name) => [name, await createUser(database.db)] as const,
      ),
    ),
  );
  await database.db.orm.update(users).set({ provenAt: null });
  await log(made.byOperator!, 'user.created', { after: { name: 'x' } });
  await log(made.byIssuer!, 'user.created', { after: { name: 'x' } });
  await database.db.orm.insert(operators).values({ userId: made.operator!.id, createdAt: at });
  for (const name of ['operator', 'byLink', 'byMember', 'byMemberThenLinked'])
    await log(made[name]!, 'user.created', { invitedTo: 'acme' });
  await log(made.byLink!, 'user.password_reset', { by: 'password_reset' });
  await log(made.byMemberThenLinked!, 'user.identity_linked', {});
  await database.db.orm.execute(statement);
  const proven = [];
  for (const [name, { email }] of Object.entries(made))
    if ((await userOf(email)).provenAt !== null) proven.push(name);
  expect(proven).toEqual(['byOperator', 'byIssuer', 'operator', 'byLink']);
});
