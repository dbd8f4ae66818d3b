import { describe, expect, it } from 'vitest';
import { and, eq, inArray, isNull } from 'drizzle-orm';
import { findLink } from '../../../../src/accounts/identity/links/links.js';
import {
  oneTimeLinks,
  operators,
  passkeys,
  secondFactors,
  sessions,
} from '../../../../src/accounts/identity/table.js';
import { users } from '../../../../src/accounts/organizations/table.js';
import { createSetUpLink } from '../../../../src/accounts/identity/operators/operators.js';
import { hashToken } from '../../../../src/accounts/identity/session/session-cookie.js';
import { isEmbedded } from '../../../support/database.js';
import { Browser, createUser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { givePasskey } from '../../../support/passkey.js';
import { makeLink, makeOperator, signedInOperator } from '../../../support/operators.js';
import { operatorClient } from '../../../support/operator.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { startTestService } from '../../../support/service.js';
import { useService } from '../../../support/use.js';
import { operatorLogOf } from '../../../support/audit.js';

const { database, service } = useService();

const html = { accept: 'text/html' };
const post = (browser: Browser, path: string, form: Record<string, string> = {}, headers = {}) =>
  browser.send('POST', path, { form, headers: { ...html, ...headers } });
const newPassword = 'a long phrase of my own';
const chosen = { newPassword, newPasswordAgain: newPassword };

async function open(page: 'reset' | 'set-up', token: string): Promise<Browser> {
  const browser = new Browser(service.url);
  expect((await post(browser, `/${page}/open`, { link: token })).status).toBe(303);
  return browser;
}

const actionsOf = async (email: string) =>
  (await operatorLogOf(database.db, email)).map(({ action }) => action);

it('a link works once, however many concurrent uses there are', async () => {
  const token = await makeLink(service, 'setup');
  const browsers = await Promise.all([1, 2, 3, 4].map(() => open('set-up', token)));
  const answers = await Promise.all(
    browsers.map((browser, n) =>
      post(browser, '/set-up/person', {
        name: 'N',
        email: `at-once-${n}@example.com`,
        password: newPassword,
      }),
    ),
  );
  expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([303, 404, 404, 404]);
  expect(await database.db.orm.select().from(operators)).toHaveLength(1);
  // The other attempts were rolled back.
  const made = await database.db.orm.select().from(users);
  expect(made.filter(({ email }) => email.startsWith('at-once'))).toHaveLength(1);
  const again = await open('set-up', token);
  expect((await again.get('/set-up', html)).text).toContain('This link was already used');
  expect(await createSetUpLink(service.context)).toBeUndefined();
  expect(await createSetUpLink(service.context, true)).toBeDefined();
});

it('a link that was replaced, expired, is of another kind or is unknown says so', async () => {
  const user = await createUser(database.db);
  const [first, second] = [
    await makeLink(service, 'password_reset', user),
    await makeLink(service, 'password_reset', user),
  ];
  const say = async (page: 'reset' | 'set-up', token: string) => {
    const { status, text } = await (await open(page, token)).get(`/${page}`, html);
    return [status, /link does not exist|was used|has expired/.exec(text)?.[0]];
  };
  expect(await say('reset', first)).toEqual([404, 'link does not exist']);
  expect(await say('set-up', second)).toEqual([404, 'link does not exist']);
  expect(await say('reset', 'x'.repeat(43))).toEqual([404, 'link does not exist']);
  expect(await say('reset', second)).toEqual([200, undefined]);
  service.clock.advance(25 * 3_600_000);
  expect(await say('reset', second)).toEqual([404, 'has expired']);
  for (const link of ['', 'short', `${second}x`, '\u0000', '<script>', 'ü'.repeat(43)])
    expect((await post(new Browser(service.url), '/reset/open', { link })).status).toBe(404);
});

it('a lost password is replaced with a code if a factor is on, and every session ends', async () => {
  const user = await createUser(database.db);
  const old = new Browser(service.url);
  await old.signIn(user.email);
  const app = await giveSecondFactor(database.db, user.id, service.clock);
  const browser = await open('reset', await makeLink(service, 'password_reset', user));
  expect((await browser.get('/reset', html)).text).toContain('name="code"');
  expect((await post(browser, '/reset', chosen)).status).toBe(400);
  expect((await post(browser, '/reset', { ...chosen, code: '000000' })).status).toBe(401);
  expect((await post(browser, '/reset', { ...chosen, newPasswordAgain: 'x' })).status).toBe(400);
  const done = await post(browser, '/reset', { ...chosen, code: app.code() });
  expect([done.status, done.headers.get('location')]).toEqual([303, '/dashboard']);
  expect((await browser.get('/dashboard/account', html)).status).toBe(200);
  expect((await old.get('/dashboard/account', html)).status).toBe(303);
  expect((await new Browser(service.url).signIn(user.email, PASSWORD)).status).toBe(401);
  expect(await actionsOf(user.email)).toEqual(
    expect.arrayContaining(['link.created', 'user.code_refused', 'user.password_reset']),
  );
});

it.runIf(isEmbedded)(
  'a lost password is replaced once with a passkey whose challenge belongs to this link',
  async () => {
    const user = await createUser(database.db);
    const passkey = await givePasskey(database.db, user.id, service.url);
    const other = await createUser(database.db);
    await givePasskey(database.db, other.id, service.url);
    const browser = await open('reset', await makeLink(service, 'password_reset', user));
    const ask = async (from: Browser) =>
      (await post(from, '/reset/passkey-options')).body as { challenge: string };
    const local = browser.copy(service.url.replace('127.0.0.1', 'localhost'));
    expect((await local.get('/reset', html)).text).toContain('data-passkey="/reset/passkey-options"');
    expect((await post(browser, '/reset', chosen)).status).toBe(400);
    const foreign = await ask(await open('reset', await makeLink(service, 'password_reset', other)));
    for (const bad of ['x', '{}', passkey.use(foreign)]) {
      const { status } = await post(browser, '/reset', { ...chosen, passkey: bad });
      expect([400, 401]).toContain(status);
    }
    const signed = passkey.use(await ask(browser));
    expect((await post(browser, '/reset', { ...chosen, passkey: signed })).status).toBe(303);
    expect((await browser.get('/dashboard/account', html)).status).toBe(200);
    expect(await actionsOf(user.email)).toEqual(
      expect.arrayContaining(['user.passkey_refused', 'user.password_reset']),
    );
    const gone = await post(browser, '/reset', { ...chosen, passkey: signed });
    expect(gone.status).toBe(404);
    expect((await post(new Browser(service.url), '/reset/passkey-options')).status).toBe(404);
  },
);

it('a passkey removed after it signed cannot reset a password', async () => {
  const user = await createUser(database.db);
  await givePasskey(database.db, user.id, service.url);
  const passkey = await givePasskey(database.db, user.id, service.url);
  const browser = await open('reset', await makeLink(service, 'password_reset', user));
  const { body } = await post(browser, '/reset/passkey-options');
  const signed = passkey.use(body as { challenge: string });
  await database.db.orm.delete(passkeys).where(eq(passkeys.credentialId, passkey.id));
  expect((await post(browser, '/reset', { ...chosen, passkey: signed })).status).toBe(401);
  expect((await new Browser(service.url).signIn(user.email, newPassword)).status).toBe(401);
  expect(await actionsOf(user.email)).toContain('user.passkey_refused');
});

it('removing a lost second factor needs the password, with ten guesses across all links', async () => {
  const [guessed, user] = [await createUser(database.db), await createUser(database.db)];
  for (const { id } of [guessed, user]) await giveSecondFactor(database.db, id, service.clock);
  const openNext = async () => open('reset', await makeLink(service, 'second_factor_reset', guessed));
  for (let link = 0; link < 2; link++) {
    const guesser = await openNext();
    for (let guess = 0; guess < 5; guess++)
      expect((await post(guesser, '/reset', { password: 'wrong' })).status).toBe(401);
  }
  const refused = await post(await openNext(), '/reset', { password: PASSWORD });
  expect([refused.status, refused.text.includes('Too many wrong')]).toEqual([429, true]);
  const browser = await open('reset', await makeLink(service, 'second_factor_reset', user));
  expect((await post(browser, '/reset', { password: PASSWORD })).status).toBe(303);
  const left = await database.db.orm.select().from(secondFactors).where(eq(secondFactors.userId, user.id));
  expect(left).toEqual([]);
  expect(await actionsOf(user.email)).toContain('user.second_factor_removed');
});

it('an existing account becomes an operator with its own password and second factor', async () => {
  const user = await createUser(database.db);
  const app = await giveSecondFactor(database.db, user.id, service.clock);
  const browser = await open('set-up', await makeLink(service, 'setup'));
  const fields = { name: 'Another', email: user.email };
  expect((await post(browser, '/set-up/person', { ...fields, password: newPassword })).status).toBe(401);
  const right = await post(browser, '/set-up/person', { ...fields, password: PASSWORD });
  expect(right.headers.get('location')).toBe('/login/code?next=%2Fset-up');
  expect((await browser.get('/set-up', html)).text).not.toContain('Step');
  expect((await post(browser, '/login/code', { code: app.code(), next: '/set-up' })).status).toBe(303);
  expect((await browser.get('/set-up', html)).text).toContain('Step 3 of 4');
});

it('an operator’s invitation is bound to its address and ends with its creator’s role', async () => {
  const { id } = await signedInOperator(service);
  const person = { id: undefined, email: 'second@example.com' };
  const token = await makeLink(service, 'operator_invitation', person, id);
  const browser = await open('set-up', token);
  await database.db.orm.delete(operators).where(eq(operators.userId, id));
  expect((await browser.get('/set-up', html)).status).toBe(404);
  await makeOperator(service, id);
  const invited = await open('set-up', token);
  const fields = { name: 'Second', email: 'other@example.com', password: newPassword };
  expect((await post(invited, '/set-up/person', fields)).status).toBe(303);
  const [made] = await database.db.orm
    .select()
    .from(operators)
    .innerJoin(users, and(eq(users.id, operators.userId), eq(users.email, person.email)));
  expect(made?.operators.createdBy).toBe(id);
  const [session] = await database.db.orm.select().from(sessions).where(eq(sessions.userId, made!.users.id));
  expect(session?.confirmedAt).toEqual(new Date(service.clock.now()));
});

describe('open links of a former operator', () => {
  const operatorApi = operatorClient(() => service);
  const opens = async (page: 'reset' | 'set-up', token: string) =>
    (await (await open(page, token)).get(`/${page}`, html)).status;
  const leavers = {
    'who is removed': async (id: string) => {
      const { browser } = await signedInOperator(service);
      return (await post(browser, `/console/operators/${id}/remove`)).status;
    },
    'whose account is deleted': async (_id: string, email: string) =>
      (await operatorApi('DELETE', `/users/${email}`)).status,
  };

  it.each(Object.entries(leavers))('end for an operator %s', async (_who, leave) => {
    const leaver = await signedInOperator(service);
    const [first, second] = [await createUser(database.db), await createUser(database.db)];
    await giveSecondFactor(database.db, second.id, service.clock);
    const invited = { id: undefined, email: `invited-by-${leaver.id}@example.com` };
    const links = [
      ['reset', await makeLink(service, 'password_reset', first, leaver.id)],
      ['reset', await makeLink(service, 'second_factor_reset', second, leaver.id)],
      ['set-up', await makeLink(service, 'operator_invitation', invited, leaver.id)],
    ] as const;
    const other = await makeLink(service, 'password_reset', second, (await signedInOperator(service)).id);
    const prepared = await open('reset', links[0][1]);
    expect((await prepared.get('/reset', html)).status).toBe(200);
    for (const [page, token] of links) expect(await opens(page, token)).toBe(200);

    expect([204, 303]).toContain(await leave(leaver.id, leaver.email));
    for (const [page, token] of links) expect(await opens(page, token)).toBe(404);
    expect((await post(prepared, '/reset', chosen)).status).toBe(404);
    expect((await new Browser(service.url).signIn(first.email)).status).toBe(303);
    expect(await opens('reset', other)).toBe(200);
    const hashes = links.map(([, token]) => hashToken(token));
    const left = await database.db.orm
      .select()
      .from(oneTimeLinks)
      .where(inArray(oneTimeLinks.hashedToken, hashes));
    expect(left).toEqual([]);
  });

  it.each(Object.entries(leavers))(
    'end for an operator %s, even if another is created concurrently',
    async (_who, leave) => {
      const leaver = await signedInOperator(service);
      const user = await createUser(database.db);
      const make = () => post(leaver.browser, `/console/people/${user.id}/link`, { kind: 'password_reset' });
      const [made, left] = await Promise.all([make(), leave(leaver.id, leaver.email)]);
      expect([204, 303]).toContain(left);
      expect([201, 303, 401, 403, 404]).toContain(made.status);
      const links = await database.db.orm
        .select()
        .from(oneTimeLinks)
        .where(and(eq(oneTimeLinks.userId, user.id), isNull(oneTimeLinks.usedAt)));
      expect(links).toEqual([]);
    },
  );

  it('do not work even if they are still stored', async () => {
    const maker = await signedInOperator(service);
    const user = await createUser(database.db);
    await giveSecondFactor(database.db, user.id, service.clock);
    const tokens = [
      await makeLink(service, 'password_reset', user, maker.id),
      await makeLink(service, 'second_factor_reset', user, maker.id),
    ];
    await database.db.orm.delete(operators).where(eq(operators.userId, maker.id));
    for (const token of tokens) {
      const { status, text } = await (await open('reset', token)).get('/reset', html);
      expect([status, /no longer an operator/.test(text)]).toEqual([404, true]);
    }
  });
});

it('deleting a person ends the links for them, including invitations of their address', async () => {
  const operatorApi = operatorClient(() => service);
  const maker = await signedInOperator(service);
  const user = await createUser(database.db);
  const reset = await makeLink(service, 'password_reset', user, maker.id);
  const invitation = { id: undefined, email: user.email };
  const invited = await makeLink(service, 'operator_invitation', invitation, maker.id);
  expect((await operatorApi('DELETE', `/users/${user.email}`)).status).toBe(204);
  expect((await (await open('reset', reset)).get('/reset', html)).status).toBe(404);
  expect((await (await open('set-up', invited)).get('/set-up', html)).status).toBe(404);
});

/** Restores the state of a first start, regardless of what other tests have created. */
async function withoutOperators(): Promise<void> {
  await database.db.orm.delete(operators);
  await database.db.orm.delete(oneTimeLinks).where(eq(oneTimeLinks.kind, 'setup'));
}

const tokenOf = (link: { path: string } | undefined) => link!.path.split('#')[1]!;

it('two concurrent starts leave one working link and store only its hash', async () => {
  await withoutOperators();
  const made = await Promise.all([createSetUpLink(service.context), createSetUpLink(service.context)]);
  const tokens = made.map(tokenOf);
  for (const token of tokens) expect(Buffer.from(token, 'base64url')).toHaveLength(32);
  const stored = await database.db.orm.select().from(oneTimeLinks).where(eq(oneTimeLinks.kind, 'setup'));
  expect(stored).toHaveLength(1);
  expect(JSON.stringify(stored)).not.toMatch(new RegExp(tokens.join('|')));
  expect(tokens.map(hashToken)).toContain(stored[0]!.hashedToken);
});

it('a start during a set-up does not create a second link', async () => {
  await withoutOperators();
  const { id } = await createUser(database.db);
  const token = tokenOf(await createSetUpLink(service.context));
  const now = new Date(service.clock.now());
  let started: Promise<unknown> | undefined;
  await database.db.orm.transaction(async (tx) => {
    const link = await findLink(tx, token, ['setup'], now);
    await tx.update(oneTimeLinks).set({ usedAt: now }).where(eq(oneTimeLinks.hashedToken, link.hashedToken));
    await tx.insert(operators).values({ userId: id, createdAt: now });
    started = createSetUpLink(service.context);
    await new Promise((resolve) => setTimeout(resolve, 200));
  });
  expect(await started).toBeUndefined();
});

it('a recovery link ends when the lost factor is changed in another way', async () => {
  const { db } = database;
  const operator = operatorClient(() => service);
  const opens = async (token: string) => (await (await open('reset', token)).get('/reset', html)).status;
  const { user, browser } = await signedIn(db, service.url);
  const byThemselves = await makeLink(service, 'password_reset', user);
  const changed = await post(browser, '/dashboard/account/password', {
    currentPassword: PASSWORD,
    ...chosen,
  });
  expect([changed.status, await opens(byThemselves)]).toEqual([303, 404]);

  const byOperator = await makeLink(service, 'password_reset', user);
  const renamed = await operator('PUT', `/users/${user.email}`, { name: 'Renamed', password: newPassword });
  expect([renamed.status, await opens(byOperator)]).toEqual([200, 200]);
  await operator('PUT', `/users/${user.email}`, { name: 'Renamed', password: 'yet another long phrase' });
  expect(await opens(byOperator)).toBe(404);

  await giveSecondFactor(db, user.id, service.clock);
  const ofFactor = await makeLink(service, 'second_factor_reset', user);
  expect((await operator('DELETE', `/users/${user.email}/second-factor`)).status).toBe(204);
  expect(await opens(ofFactor)).toBe(404);
});

it('a reset ends every session, for pages and API, and pending sign-ins', async () => {
  const { user, browser: other } = await signedIn(database.db, service.url);
  const app = await giveSecondFactor(database.db, user.id, service.clock);
  const waiting = new Browser(service.url);
  expect((await waiting.signIn(user.email)).headers.get('location')).toContain('/login/code');
  const browser = await open('reset', await makeLink(service, 'password_reset', user));
  // The reset also ends another person's session in this browser, because that session could have been planted.
  const stranger = await createUser(database.db);
  await browser.signIn(stranger.email);
  const before = browser.copy();
  expect((await post(browser, '/reset', { ...chosen, code: app.code() })).status).toBe(303);
  const json = { accept: 'application/json' };
  expect((await other.get('/dashboard/api-keys', json)).status).toBe(401);
  const key = { json: { name: 'late', livemode: true } };
  expect((await other.send('POST', '/dashboard/api-keys', key)).status).toBe(401);
  expect((await post(waiting, '/login/code', { code: app.code(1) })).headers.get('location')).toMatch(
    /^\/login\?/,
  );
  expect((await before.get('/dashboard/account', json)).status).toBe(401);
  expect(browser.cookies.get('gauge_session')).not.toBe(before.cookies.get('gauge_session'));
  expect(browser.cookies.has('gauge_reset')).toBe(false);
  expect((await browser.get('/dashboard/account', html)).status).toBe(200);
});

it.runIf(isEmbedded)(
  'a link’s secret is in a cookie of this site only, never in an address or a page',
  async () => {
    const user = await createUser(database.db);
    const token = await makeLink(service, 'password_reset', user);
    const opener = new Browser(service.url);
    const opened = await post(opener, '/reset/open', { link: `https://gauge.example.com/reset#${token}` });
    const [cookie] = opened.headers.getSetCookie();
    expect(cookie).toContain(token);
    expect(cookie!.split('; ').slice(1)).toEqual(
      expect.arrayContaining(['HttpOnly', 'SameSite=Lax', 'Path=/']),
    );
    const page = await opener.get('/reset', html);
    const refused = await post(opener, '/reset', { newPassword: 'x', newPasswordAgain: 'y', token });
    expect([page.status, refused.status]).toEqual([200, 400]);
    for (const { headers, text } of [opened, page, refused]) {
      expect(headers.get('location') ?? '').not.toContain('#');
      expect(text).not.toContain(token);
      expect(headers.get('cache-control')).toContain('no-store');
      expect(headers.get('referrer-policy')).toMatch(/^(no-referrer|same-origin)$/);
    }
    const production = {
      NODE_ENV: 'production',
      TRUST_PROXY: '1',
      PUBLIC_URL: 'https://gauge.example.com',
      SESSION_KEYS: 'a-session-key-of-the-tests',
    };
    const secure = await startTestService(database.db, { env: production });
    try {
      const browser = new Browser(secure.url);
      const { headers } = await post(browser, '/reset/open', { link: token });
      expect(headers.getSetCookie()[0]).toMatch(/^__Host-gauge_reset=.*; Secure/);
    } finally {
      await secure.stop();
    }
  },
);

it.runIf(isEmbedded)(
  'an address that sends thirty wrong links is blocked, and right ones do not count',
  async () => {
    const other = await startTestService(database.db);
    try {
      const user = await createUser(database.db);
      const token = await makeLink(service, 'password_reset', user);
      const send = async (link: string) => {
        const browser = new Browser(other.url);
        const { status } = await post(browser, '/reset/open', { link });
        return status === 303 ? (await browser.get('/reset', html)).status : status;
      };
      for (let n = 0; n < 40; n++) expect(await send(token)).toBe(200);
      for (let n = 0; n < 15; n++) expect(await send('short')).toBe(404);
      for (let n = 0; n < 15; n++) expect(await send('x'.repeat(43))).toBe(404);
      expect(await send('short')).toBe(429);
      // The set-up page has its own rate limit.
      expect((await post(new Browser(other.url), '/set-up/open', { link: 'short' })).status).toBe(404);
    } finally {
      await other.stop();
    }
  },
);
