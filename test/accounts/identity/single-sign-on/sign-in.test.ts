import { beforeEach, describe, expect, it, vi } from 'vitest';
import { eq } from 'drizzle-orm';
import { pino } from 'pino';
import { v7 as uuid } from 'uuid';
import { identities, singleSignOns } from '../../../../src/accounts/identity/table.js';
import { invitations, users } from '../../../../src/accounts/organizations/table.js';
import { isEmbedded } from '../../../support/database.js';
import { addMember, Browser, createUser, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { TestIssuer } from '../../../support/issuer.js';
import { operatorClient } from '../../../support/operator.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { use, useService } from '../../../support/use.js';
import { freshEmail, invite, JOIN, openLink, roleOf } from '../members/support.js';
import { operatorLogOf } from '../../../support/audit.js';

const html = { accept: 'text/html', 'sec-fetch-mode': 'navigate' };

const issuer = use(
  () => new TestIssuer().start(),
  (started) => started.stop(),
);
const { database, service, startAnother } = useService(() => ({ env: issuer.env() }));
const call = operatorClient(() => service);

beforeEach(() => {
  Object.assign(issuer, {
    claims: {},
    userInfo: {},
    broken: undefined,
    signsWithAnotherKey: false,
    isChallenging: false,
  });
  // Resets the rate limit per IP address.
  service.clock.advance(61_000);
});

const arrive = () => new Browser(service.url);

/** Creates a person who has the same email address here and at the issuer. */
async function newPerson() {
  const user = await createUser(database.db);
  issuer.claims = { sub: uuid(), email: user.email, email_verified: true };
  return user;
}

async function nameOf(browser: Browser): Promise<string | undefined> {
  const { status, text } = await browser.get('/dashboard/account', html);
  return status === 200 ? /name="name"[^>]*value="([^"]*)"/.exec(text)?.[1] : undefined;
}

const entriesOf = async (email: string) =>
  (await operatorLogOf(database.db, email)).map(({ action, details }) => [action, details]);

describe('signing in', () => {
  it('the first sign-in links by the verified address, later ones go by the subject alone', async () => {
    const user = await newPerson();
    const first = arrive();
    const signedIn = await issuer.signIn(first, '/dashboard/account');
    expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, '/dashboard/account']);
    expect(await nameOf(first)).toBe(user.name);
    // At the issuer, the address now belongs to another person who has an account here.
    const other = await createUser(database.db);
    issuer.claims = { ...issuer.claims, email: other.email };
    const second = arrive();
    await issuer.signIn(second);
    expect(await nameOf(second)).toBe(user.name);
    const { sub } = issuer.claims;
    expect(await entriesOf(user.email)).toEqual([
      ['user.identity_linked', { issuer: issuer.url, subject: sub }],
      ['user.signed_in', { secondFactor: null, singleSignOn: true }],
      ['user.signed_in', { secondFactor: null, singleSignOn: true }],
    ]);
  });

  it('reads the address from the userinfo endpoint if the token has none', async () => {
    const user = await newPerson();
    const { sub, ...rest } = issuer.claims;
    Object.assign(issuer, { claims: { sub }, userInfo: rest });
    const browser = arrive();
    expect((await issuer.signIn(browser)).status).toBe(303);
    expect(await nameOf(browser)).toBe(user.name);
  });

  it.each<[string, object, object]>([
    ['as text', { email_verified: 'true' }, {}],
    ['only from userinfo, with the address', {}, { email_verified: true, email: 'same' }],
    ['only from userinfo, without the address', {}, { email_verified: 'True' }],
  ])('accepts a verification %s', async (_what, claims, userInfo) => {
    const user = await newPerson();
    const same = 'email' in userInfo ? { email: user.email } : {};
    Object.assign(issuer, {
      claims: { sub: issuer.claims.sub, email: user.email, ...claims },
      userInfo: { ...userInfo, ...same },
    });
    expect((await issuer.signIn(arrive())).status).toBe(303);
  });

  it('a verification from userinfo does not count for another address', async () => {
    const user = await newPerson();
    delete issuer.claims.email_verified;
    issuer.userInfo = { email: `other-${user.email}`, email_verified: true };
    expect((await issuer.signIn(arrive())).text).toContain('you have no account here');
  });

  it('an address with accents is no account’s, but its domain may have them', async () => {
    const user = await createUser(database.db, { email: `jack-${uuid()}@xn--bcher-kva.example` });
    issuer.claims = { sub: uuid(), email: user.email.replace('jack', 'jac\u212a'), email_verified: true };
    const refused = await issuer.signIn(arrive());
    expect([refused.status, refused.text]).toEqual([401, expect.stringContaining('cannot use')]);
    issuer.claims.email = user.email.replace('jack', 'JACK').replace('xn--bcher-kva', 'Bücher');
    expect((await issuer.signIn(arrive())).status).toBe(303);
  });

  it('a second factor is still required', async () => {
    const user = await newPerson();
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    const browser = arrive();
    const due = await issuer.signIn(browser, '/dashboard/account');
    expect(due.headers.get('location')).toBe('/login/code?next=%2Fdashboard%2Faccount');
    expect(await nameOf(browser)).toBeUndefined();
    await browser.send('POST', '/login/code', { form: { code: app.code() } });
    expect(await nameOf(browser)).toBe(user.name);
    expect((await entriesOf(user.email)).at(-1)).toEqual([
      'user.signed_in',
      { secondFactor: 'app', singleSignOn: true },
    ]);
  });

  it.each([false, 'false', 1, undefined])(
    'an address with email_verified %s matches no account',
    async (verified) => {
      const user = await newPerson();
      issuer.claims.email_verified = verified;
      const refused = await issuer.signIn(arrive());
      expect([refused.status, refused.text]).toEqual([
        401,
        expect.stringContaining('Test Login has not verified your e-mail address.'),
      ]);
      expect(await entriesOf(user.email)).toMatchObject([
        ['user.single_sign_on_refused', { reason: 'unverified_address' }],
      ]);
    },
  );

  it('neither an unknown address nor another account at the issuer opens an account', async () => {
    const user = await newPerson();
    issuer.claims.email = `nobody-${uuid()}@example.com`;
    const unknown = await issuer.signIn(arrive());
    expect([unknown.status, unknown.text]).toEqual([
      401,
      expect.stringContaining('you have no account here'),
    ]);
    issuer.claims.email = user.email;
    expect((await issuer.signIn(arrive())).status).toBe(303);
    issuer.claims.sub = 'another';
    const other = await issuer.signIn(arrive());
    expect([other.status, other.text]).toEqual([401, expect.stringContaining('another account than before')]);
    // The operator unlinks the old account.
    const path = `/users/${user.email}/single-sign-on`;
    expect([(await call('DELETE', path)).status, (await call('DELETE', path)).status]).toEqual([204, 404]);
    expect((await issuer.signIn(arrive())).status).toBe(303);
  });
});

describe.runIf(isEmbedded)('addresses of an issuer that does not say whether it verified them', () => {
  it('are accepted only if the operator trusts them, and never if it says that they are not verified', async () => {
    const other = await startAnother({ env: issuer.env({ OIDC_TRUST_ADDRESSES: 'on' }) });
    const user = await newPerson();
    issuer.claims.email_verified = false;
    expect((await issuer.signIn(new Browser(other.url))).status).toBe(401);
    issuer.claims.email_verified = undefined;
    expect((await issuer.signIn(arrive())).status).toBe(401);
    const browser = new Browser(other.url);
    expect((await issuer.signIn(browser)).status).toBe(303);
    expect(await nameOf(browser)).toBe(user.name);
  });
});

describe('an invited person', () => {
  const email = freshEmail();

  async function invited() {
    const owner = await signedIn(database.db, service.url);
    const token = await invite(owner.browser, email);
    issuer.claims = { sub: uuid(), email, email_verified: true, name: 'Invited Person' };
    const browser = arrive();
    const page = await openLink(browser, token);
    expect(page.text).toContain('href="/login/single-sign-on?next=%2Fdashboard%2Fjoin"');
    return { ...owner, browser, token };
  }
  const listUsers = () => database.db.orm.select().from(users).where(eq(users.email, email));

  it('gets no account for another address, an unverified one, or a revoked invitation', async () => {
    const { browser, organization } = await invited();
    const { claims } = issuer;
    for (const wrong of [{ email: freshEmail() }, { email_verified: false }]) {
      issuer.claims = { ...claims, ...wrong };
      const refused = await issuer.signIn(browser, JOIN);
      expect([refused.status, refused.text]).toEqual([401, expect.stringContaining(`value="${JOIN}"`)]);
    }
    issuer.claims = claims;
    expect((await issuer.signIn(browser)).status, 'not from the invitation').toBe(401);
    expect((await issuer.signIn(arrive(), JOIN)).status, 'another browser').toBe(401);
    const isTheirs = eq(invitations.orgId, organization.id);
    await database.db.orm.update(invitations).set({ revokedAt: new Date() }).where(isTheirs);
    expect((await issuer.signIn(browser, JOIN)).status).toBe(401);
    expect(await listUsers()).toEqual([]);
  });

  it('creates an account by single sign-on, then joins', async () => {
    const { browser, token, organization } = await invited();
    const signedIn = await issuer.signIn(browser, JOIN);
    expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, JOIN]);
    expect((await browser.get(JOIN, html)).text).toContain(`Join as <bdi>${email}</bdi>`);
    const joined = await browser.send('POST', JOIN, { form: { invitation: token }, headers: html });
    expect(joined.headers.get('location')).toBe('/dashboard?done=joined');
    const [user] = await listUsers();
    expect(user!.name).toBe('Invited Person');
    expect(await roleOf(database.db, organization.id, user!.id)).toBe('member');
    expect((await entriesOf(email)).map(([action]) => action)).toContain('user.created');
  });
});

describe.runIf(isEmbedded)('a wrong answer', () => {
  const now = () => Math.floor(Date.now() / 1000);

  async function expectRefused(text = 'could not be verified') {
    const browser = arrive();
    const refused = await issuer.signIn(browser);
    expect([refused.status, refused.text]).toEqual([401, expect.stringContaining(text)]);
    expect(await nameOf(browser)).toBeUndefined();
    expect(
      await database.db.orm.$count(identities, eq(identities.subject, issuer.claims.sub as string)),
    ).toBe(0);
  }

  it.each([
    ['of a wrong issuer', () => ({ iss: 'https://other.example' })],
    ['for a wrong audience', () => ({ aud: 'another' })],
    ['for several audiences and another party', () => ({ aud: ['gauge', 'another'], azp: 'another' })],
    ['with another nonce', () => ({ nonce: 'another' })],
    ['that expired more than a minute ago', () => ({ exp: now() - 65 })],
    ['that is valid in more than a minute', () => ({ nbf: now() + 65 })],
  ])('a token %s is refused', async (_what, claims) => {
    await newPerson();
    Object.assign(issuer.claims, claims());
    await expectRefused();
  });

  it('a token signed with another key is refused', async () => {
    await newPerson();
    issuer.signsWithAnotherKey = true;
    await expectRefused();
  });

  it.each([
    ['expired', () => ({ exp: now() - 50 })],
    ['not yet valid', () => ({ nbf: now() + 50 })],
  ])('a clock that differs by less than a minute is accepted: %s', async (_what, claims) => {
    await newPerson();
    Object.assign(issuer.claims, claims());
    expect((await issuer.signIn(arrive())).status).toBe(303);
  });

  it.each(['https://other.example', undefined])('a mixed-up issuer is refused: %s', async (iss) => {
    await newPerson();
    const browser = arrive();
    const back = new URL(await issuer.visit(browser), service.url);
    if (iss === undefined) back.searchParams.delete('iss');
    else back.searchParams.set('iss', iss);
    expect((await browser.get(back.pathname + back.search)).status).toBe(401);
  });

  it('an answer works once, and a code only with its own sign-in', async () => {
    await newPerson();
    const browser = arrive();
    const used = await issuer.visit(browser);
    expect((await browser.get(used)).status).toBe(303);
    expect((await browser.get(used)).status).toBe(401);
    // The code of another sign-in, used or not, does not match this sign-in's verifier.
    for (const other of [used, await issuer.visit(arrive())]) {
      const back = new URL(await issuer.visit(browser), service.url);
      back.searchParams.set('code', new URL(other, service.url).searchParams.get('code')!);
      expect((await browser.get(back.pathname + back.search)).status).toBe(401);
    }
  });

  it('without its state, with that of another browser, or too late, nobody is signed in', async () => {
    await newPerson();
    const browser = arrive();
    const path = await issuer.visit(browser);
    const without = path.replace(/state=[^&]*/, '');
    for (const wrong of [without, `${path}&state=twice`, '/login/single-sign-on/callback'])
      expect((await browser.get(wrong)).status).toBe(401);
    const other = arrive();
    await issuer.visit(other);
    for (const stranger of [arrive(), other]) expect((await stranger.get(path)).status).toBe(401);
    // The attempts above did not consume the callback path, but it has expired by now.
    service.clock.advance(11 * 60_000);
    const late = await browser.get(path, html);
    expect([late.status, late.text]).toEqual([401, expect.stringContaining('has expired')]);
  });

  it('the form continues at the same page as the sign-in that failed', async () => {
    const browser = arrive();
    for (const spoil of ['error=access_denied', 'code=wrong']) {
      const path = (await issuer.visit(browser, '/dashboard/members')).replace(/code=[^&]*/, spoil);
      expect((await browser.get(path, html)).text).toContain('name="next" value="/dashboard/members"');
    }
    const late = await issuer.visit(browser, '/dashboard/members');
    service.clock.advance(11 * 60_000);
    expect((await browser.get(late, html)).text).toContain('name="next" value="/dashboard/members"');
  });

  it.each([false, true])(
    'a wrong client secret is reported on the page and in the log (challenge: %s)',
    async (isChallenging) => {
      issuer.isChallenging = isChallenging;
      const lines: string[] = [];
      const other = await startAnother({
        env: issuer.env({ OIDC_CLIENT_SECRET: 'another-secret' }),
        context: { log: pino({}, { write: (line: string) => void lines.push(line) }) },
      });
      const browser = new Browser(other.url);
      const refused = await browser.get(await issuer.visit(browser), html);
      expect([refused.status, refused.text]).toEqual([
        401,
        expect.stringContaining('must check OIDC_CLIENT_ID and OIDC_CLIENT_SECRET'),
      ]);
      const log = lines.join('');
      expect(log).toContain('the issuer refuses OIDC_CLIENT_ID or OIDC_CLIENT_SECRET');
      expect(log).not.toContain('another-secret');
    },
  );

  it('a refusal by the person at the issuer is reported', async () => {
    const browser = arrive();
    const path = (await issuer.visit(browser)).replace(/code=[^&]*/, 'error=access_denied');
    const refused = await browser.get(path, html);
    expect([refused.status, refused.text]).toEqual([401, expect.stringContaining('did not sign you in')]);
  });

  it('the page to continue at must be on this site', async () => {
    await newPerson();
    for (const next of ['https://evil.example/', '/login/single-sign-on?next=/dashboard/members']) {
      const signedIn = await issuer.signIn(arrive(), next);
      expect(signedIn.headers.get('location')).toBe('/dashboard');
    }
  });
});

describe.runIf(isEmbedded)('an issuer that is down', () => {
  it.each([
    ['before the sign-in', '/openid-configuration'],
    ['before the token', '/token'],
    ['before its keys', '/jwks'],
  ])('is named on the form, where passwords still work: %s', async (_what, path) => {
    const user = await newPerson();
    // The issuer's metadata is cached for a minute.
    service.clock.advance(61_000);
    const browser = arrive();
    const back = path === '/openid-configuration' ? '/login/single-sign-on' : await issuer.visit(browser);
    issuer.broken = { path, status: 503 };
    const down = await browser.get(back, html);
    expect([down.status, down.text]).toEqual([503, expect.stringContaining('Test Login does not respond')]);
    expect(down.text).toContain('name="password"');
    expect((await browser.signIn(user.email)).status).toBe(303);
  });

  it('does not answer at all', async () => {
    const gone = await new TestIssuer().start();
    const other = await startAnother({ env: gone.env() });
    await gone.stop();
    expect((await new Browser(other.url).get('/login/single-sign-on', html)).status).toBe(503);
  });

  it('calls itself by an address with a slash: the page and the log of the start say what to enter', async () => {
    const realm = issuer.describeAs('/realm/');
    const lines: string[] = [];
    const other = await startAnother({
      env: issuer.env({ OIDC_ISSUER: `${issuer.url}/realm` }),
      context: { log: pino({}, { write: (line: string) => void lines.push(line) }) },
    });
    await vi.waitFor(() => expect(lines.join('')).toContain(`OIDC_ISSUER must be exactly ${realm}`));
    const refused = await new Browser(other.url).get('/login/single-sign-on', html);
    expect([refused.status, refused.text]).toEqual([
      401,
      expect.stringContaining(`OIDC_ISSUER must be exactly ${realm}`),
    ]);
  });

  it('describes another issuer', async () => {
    const other = await startAnother({ env: issuer.env({ OIDC_ISSUER: `${issuer.url}/realm` }) });
    const refused = await new Browser(other.url).get('/login/single-sign-on', html);
    expect(refused.status).toBe(401);
  });
});

describe('roles by a claim', () => {
  it('create the account, follow the claim at each sign-in, and spare the last owner', async () => {
    const [one, two] = [await createOrganization(database.db), await createOrganization(database.db)];
    const grants = [`staff=${one.slug}:member`, `leads=${one.slug}:admin`, `own=${two.slug}:owner`];
    const lines: string[] = [];
    const other = await startAnother({
      env: issuer.env({ OIDC_ROLES_CLAIM: 'groups', OIDC_ROLES: grants.join(',') }),
      context: { log: pino({}, { write: (line: string) => void lines.push(line) }) },
    });
    const email = `new-${uuid()}@example.com`;
    issuer.claims = { sub: uuid(), email, email_verified: true, name: 'New Person' };
    const rolesAfter = async (groups: unknown) => {
      issuer.claims.groups = groups;
      const browser = new Browser(other.url);
      const { status } = await issuer.signIn(browser);
      if (status !== 303) return status;
      const session = (await browser.get('/dashboard/session')).body as {
        organizations?: { slug: string; role: string }[];
      };
      return Object.fromEntries((session.organizations ?? []).map(({ slug, role }) => [slug, role]));
    };
    for (const none of [undefined, [], ['unknown'], 7, { roles: ['own'] }])
      expect(await rolesAfter(none)).toBe(401);
    expect(await rolesAfter(['staff', 'leads', 'own'])).toEqual({ [one.slug]: 'admin', [two.slug]: 'owner' });
    expect(await rolesAfter('staff')).toEqual({ [one.slug]: 'member', [two.slug]: 'owner' });
    const same = { [one.slug]: 'member', [two.slug]: 'owner' };
    for (const unreadable of [undefined, 7, ['staff', 7], [{ id: 1 }], { roles: ['leads'] }])
      expect(await rolesAfter(unreadable)).toEqual(same);
    expect(lines.filter((line) => line.includes('the role claim has a form'))).toHaveLength(1);
    expect(await rolesAfter({ staff: { '17': 'acme' }, own: { '17': 'acme' } })).toEqual(same);
    expect(await rolesAfter('staff,own')).toEqual(same);
    const successor = await createUser(database.db);
    await addMember(database.db, two.id, successor.id, 'owner');
    expect(await rolesAfter('staff')).toEqual({ [one.slug]: 'member' });
    const [user] = await database.db.orm.select().from(users).where(eq(users.email, email));
    expect(user!.name).toBe('New Person');
    const log = await call('GET', `/organizations/${one.slug}/audit-log`);
    expect(JSON.stringify(log.body)).toContain('single_sign_on');
  });
});

describe('without single sign-on', () => {
  it('the routes do not exist and the form has no button', async () => {
    const other = await startAnother();
    const browser = new Browser(other.url);
    for (const path of ['', '/callback'])
      expect((await browser.get(`/login/single-sign-on${path}`)).status).toBe(404);
    expect((await browser.get('/login', html)).text).not.toContain('single-sign-on');
    expect((await arrive().get('/login', html)).text).toContain('Sign in with Test Login');
  });
});

it('begins at most 300 times a minute for an address, and forgets expired sign-ins', async () => {
  const other = await startAnother({ env: issuer.env() });
  await newPerson();
  for (const dest of ['image', 'iframe', 'empty']) {
    const embedded = await new Browser(other.url).get('/login/single-sign-on', { 'sec-fetch-dest': dest });
    expect([embedded.status, embedded.headers.get('ratelimit')]).toEqual([403, null]);
  }
  const browser = new Browser(other.url);
  const stray = [];
  for (let i = 0; i < 61; i++) stray.push((await browser.get('/login/single-sign-on/callback')).status);
  expect([new Set(stray.slice(0, 60)), stray.at(-1)]).toEqual([new Set([401]), 429]);
  // Answers to sign-ins that began are not counted.
  for (let i = 0; i < 3; i++) expect((await issuer.signIn(new Browser(other.url))).status).toBe(303);
  const statuses = [];
  for (let i = 0; i < 298; i++) statuses.push((await browser.get('/login/single-sign-on')).status);
  expect([new Set(statuses.slice(0, 297)), statuses.at(-1)]).toEqual([new Set([303]), 429]);
  const { deleteExpiredSingleSignOns } =
    await import('../../../../src/accounts/identity/single-sign-on/queries.js');
  await deleteExpiredSingleSignOns(database.db, new Date(other.clock.now() + 60 * 60_000));
  expect(await database.db.orm.$count(singleSignOns)).toBe(0);
});

describe('concurrent answers', () => {
  it('an answer that arrives twice signs in once', async () => {
    await newPerson();
    const browser = arrive();
    const path = await issuer.visit(browser);
    const answers = await Promise.all([browser.copy().get(path), browser.copy().get(path)]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([303, 401]);
  });

  it('two first sign-ins link once, even if they create the account', async () => {
    const { slug } = await createOrganization(database.db);
    const roles = { OIDC_ROLES_CLAIM: 'groups', OIDC_ROLES: `staff=${slug}:member` };
    const other = await startAnother({ env: issuer.env(roles) });
    const fresh = { sub: uuid(), email: `new-${uuid()}@example.com`, email_verified: true, groups: 'staff' };
    const user = await newPerson();
    for (const claims of [{ ...issuer.claims, sub: uuid(), email: user.email }, fresh]) {
      issuer.claims = claims;
      const browsers = [1, 2, 3].map(() => new Browser(other.url));
      const paths = await Promise.all(browsers.map((browser) => issuer.visit(browser)));
      const answers = await Promise.all(browsers.map((browser, i) => browser.get(paths[i]!)));
      expect(answers.map(({ status }) => status)).toEqual([303, 303, 303]);
      expect(await database.db.orm.$count(identities, eq(identities.subject, claims.sub))).toBe(1);
    }
  });
});

it('keeps a session of the same person, and ends that of another', async () => {
  const { user, browser } = await signedIn(database.db, service.url);
  issuer.claims = { sub: uuid(), email: user.email, email_verified: true };
  const before = new Map(browser.cookies);
  await issuer.signIn(browser);
  expect((await entriesOf(user.email)).at(-1)).toEqual([
    'user.signed_in',
    { singleSignOn: true, sameSession: true },
  ]);
  const former = browser.copy();
  former.cookies = before;
  expect([await nameOf(browser), await nameOf(former)]).toEqual([user.name, undefined]);
  const other = await newPerson();
  await issuer.signIn(browser);
  expect(await nameOf(browser)).toBe(other.name);
});
