import { afterAll, beforeAll, expect, it } from 'vitest';
import { and, eq } from 'drizzle-orm';
import { operatorLog, operators, secondFactors, sessions, users } from '../../../src/tables.js';
import { createSetUpLink } from '../../../src/identity/operators/operators.js';
import { Browser, createUser, PASSWORD } from '../../support/accounts.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { makeLink, makeOperator, signedInOperator } from '../../support/operators.js';
import { giveSecondFactor } from '../../support/second-factor.js';
import { startTestService, type TestService } from '../../support/service.js';

let database: TestDatabase;
let service: TestService;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestService(database.db);
});
afterAll(async () => {
  await service.stop();
  await database.remove();
});

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
  (await database.db.orm.select().from(operatorLog).where(eq(operatorLog.target, email))).map(
    ({ action }) => action,
  );

it('a link works once, however many use it at once', async () => {
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
  expect(answers.map(({ status }) => status).sort()).toEqual([303, 404, 404, 404]);
  expect(await database.db.orm.select().from(operators)).toHaveLength(1);
  // What the others would have made is undone.
  const made = await database.db.orm.select().from(users);
  expect(made.filter(({ email }) => email.startsWith('at-once'))).toHaveLength(1);
  const again = await open('set-up', token);
  expect((await again.get('/set-up', html)).text).toContain('This link was used');
  expect(await createSetUpLink(service.context)).toBeUndefined();
  expect(await createSetUpLink(service.context, true)).toBeDefined();
});

it('a link that is replaced, has expired, is of another kind or unknown says so', async () => {
  const user = await createUser(database.db);
  const [first, second] = [
    await makeLink(service, 'password_reset', user),
    await makeLink(service, 'password_reset', user),
  ];
  const say = async (page: 'reset' | 'set-up', token: string) => {
    const { status, text } = await (await open(page, token)).get(`/${page}`, html);
    return [status, /no such link|was used|has expired/.exec(text)?.[0]];
  };
  expect(await say('reset', first)).toEqual([404, 'no such link']);
  expect(await say('set-up', second)).toEqual([404, 'no such link']);
  expect(await say('reset', 'x'.repeat(43))).toEqual([404, 'no such link']);
  expect(await say('reset', second)).toEqual([200, undefined]);
  service.clock.advance(25 * 3_600_000);
  expect(await say('reset', second)).toEqual([404, 'has expired']);
  for (const link of ['', 'short', `${second}x`, '\u0000', '<script>', 'ü'.repeat(43)])
    expect((await post(new Browser(service.url), '/reset/open', { link })).status).toBe(404);
});

it('a lost password is chosen anew, with a code where a factor is on, and every session ends', async () => {
  const user = await createUser(database.db);
  const old = new Browser(service.url);
  await old.signIn(user.email);
  const app = await giveSecondFactor(database.db, user.id, service.clock);
  const browser = await open('reset', await makeLink(service, 'password_reset', user));
  expect((await browser.get('/reset', html)).text).toContain('name="code"');
  expect((await post(browser, '/reset', chosen)).status).toBe(400);
  expect((await post(browser, '/reset', { ...chosen, code: '000000' })).status).toBe(401);
  expect((await post(browser, '/reset', { ...chosen, newPasswordAgain: 'x' })).status).toBe(400);
  const crossSite = { 'sec-fetch-site': 'cross-site' };
  expect((await post(browser, '/reset', { ...chosen, code: app.code() }, crossSite)).status).toBe(403);
  const done = await post(browser, '/reset', { ...chosen, code: app.code() });
  expect([done.status, done.headers.get('location')]).toEqual([303, '/dashboard']);
  expect((await browser.get('/dashboard/account', html)).status).toBe(200);
  expect((await old.get('/dashboard/account', html)).status).toBe(303);
  expect((await new Browser(service.url).signIn(user.email, PASSWORD)).status).toBe(401);
  expect(await actionsOf(user.email)).toEqual(
    expect.arrayContaining(['link.created', 'user.code_refused', 'user.password_reset']),
  );
});

it('a lost second factor is removed for who knows the password, ten guesses at most', async () => {
  const user = await createUser(database.db);
  await giveSecondFactor(database.db, user.id, service.clock);
  const guesser = await open('reset', await makeLink(service, 'second_factor_reset', user));
  for (let guess = 0; guess < 10; guess++)
    expect((await post(guesser, '/reset', { password: 'wrong' })).status).toBe(401);
  expect((await post(guesser, '/reset', { password: PASSWORD })).status).toBe(429);
  const browser = await open('reset', await makeLink(service, 'second_factor_reset', user));
  expect((await post(browser, '/reset', { password: PASSWORD })).status).toBe(303);
  const left = await database.db.orm.select().from(secondFactors).where(eq(secondFactors.userId, user.id));
  expect(left).toEqual([]);
  expect(await actionsOf(user.email)).toContain('user.second_factor_removed');
});

it('an account that exists becomes an operator with its own password, and its second factor is asked for', async () => {
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

it('an operator’s invitation is for its address, and ends with the operator who made it', async () => {
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
