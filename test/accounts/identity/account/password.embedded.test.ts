import { describe, expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { signInChallenges } from '../../../../src/accounts/identity/table.js';
import { Browser, PASSWORD, signedIn } from '../../../support/accounts.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { follow, isSignedIn, logOf, open, post } from './account.js';
import { useService } from '../../../support/use.js';

const withLimits = (limits = {}) => ({
  app: { signInLimits: { firstDelayMs: 1, maxDelayMs: 1, ...limits } },
});
const { database, service, startAnother } = useService(withLimits());

const start = (limits = {}) => startAnother(withLimits(limits));

const NEW = 'eleven green umbrellas';
const form = (changes = {}) => ({
  currentPassword: PASSWORD,
  newPassword: NEW,
  newPasswordAgain: NEW,
  ...changes,
});

describe('a changed password', () => {
  it('replaces the old one', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const answer = await post(browser, '/password', form());
    expect(answer.status).toBe(303);
    expect((await follow(browser, answer)).text).toContain('Your password is changed');
    expect((await new Browser(service.url).signIn(user.email, NEW)).status).toBe(303);
    expect((await new Browser(service.url).signIn(user.email)).status).toBe(401);
  });

  it('ends other sessions on their next request and renews this session’s token', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const [other, copied] = [new Browser(service.url), browser.copy()];
    await other.signIn(user.email);
    expect(await isSignedIn(other)).toBe(true);
    await post(browser, '/password', form());
    expect(await isSignedIn(other)).toBe(false);
    expect(await isSignedIn(copied)).toBe(false);
    expect(await isSignedIn(browser)).toBe(true);
    const [entry] = await logOf(database, user.email);
    expect(entry).toMatchObject({
      action: 'user.password_changed',
      actor: user.id,
      details: { sessionsEnded: 1 },
    });
    expect(JSON.stringify(entry)).not.toContain(NEW);
  });

  it('needs a code if a second factor is on, keeps the factor, and ends pending sign-ins', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    const waiting = new Browser(service.url);
    await waiting.signIn(user.email);
    const page = await open(browser, '/password');
    expect(page.text).toContain('name="code"');
    const without = await post(browser, '/password', form());
    expect([without.status, without.text.includes('Required.')]).toEqual([400, true]);
    expect((await post(browser, '/password', { ...form(), code: '000000' })).status).toBe(400);
    expect((await new Browser(service.url).signIn(user.email, NEW)).status).toBe(401);
    expect((await post(browser, '/password', { ...form(), code: app.code(-1) })).status).toBe(303);
    const rows = await database.db.orm
      .select()
      .from(signInChallenges)
      .where(eq(signInChallenges.userId, user.id));
    expect(rows).toEqual([]);
    const late = await waiting.send('POST', '/login/code', { form: { code: app.code() } });
    expect(late.headers.get('location')).toMatch(/again=expired/);
    const fresh = new Browser(service.url);
    expect((await fresh.signIn(user.email, NEW)).headers.get('location')).toMatch(/^\/login\/code/);
  });

  it('is changed once when posted twice concurrently', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const other = new Browser(service.url);
    await other.signIn(user.email);
    const answers = await Promise.all([
      post(browser, '/password', form()),
      post(other, '/password', form({ newPassword: `${NEW}!`, newPasswordAgain: `${NEW}!` })),
    ]);
    const won = answers.filter(({ status }) => status === 303);
    expect(won).toHaveLength(1);
    for (const { status } of answers) expect([303, 400, 401]).toContain(status);
    expect(await logOf(database, user.email)).toHaveLength(1);
  });
});

describe('a password change', () => {
  it.each([
    ['without the current one', { currentPassword: '' }, 'currentPassword'],
    ['with a wrong current one', { currentPassword: 'not it, not it' }, 'currentPassword'],
    [
      'to one that is too short',
      { newPassword: 'x'.repeat(11), newPasswordAgain: 'x'.repeat(11) },
      'newPassword',
    ],
    ['to one that is too long', { newPassword: 'xy'.repeat(513) }, 'newPassword'],
    ['to one with a NUL', { newPassword: `${NEW}\0` }, 'newPassword'],
    ['to the current one', { newPassword: PASSWORD, newPasswordAgain: PASSWORD }, 'newPassword'],
    [
      'to a common one',
      { newPassword: 'passwordpassword', newPasswordAgain: 'passwordpassword' },
      'newPassword',
    ],
    ['to one that is typed differently twice', { newPasswordAgain: `${NEW} ` }, 'newPasswordAgain'],
    ['to one that is typed once', { newPasswordAgain: '' }, 'newPasswordAgain'],
  ])('is refused %s', async (_name, changes, field) => {
    const { browser, user } = await signedIn(database.db, service.url);
    const answer = await post(browser, '/password', form(changes));
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(`id="field-${field}-error"`);
    for (const typed of Object.values(form(changes)))
      if (typed.length > 5) expect(answer.text).not.toContain(typed);
    expect((await new Browser(service.url).signIn(user.email)).status).toBe(303);
    expect(await logOf(database, user.email)).toEqual([]);
  });

  it('is refused if the new password is the person’s address', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const answer = await post(
      browser,
      '/password',
      form({ newPassword: user.email.toUpperCase(), newPasswordAgain: user.email.toUpperCase() }),
    );
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('e-mail address');
  });

  it('is refused after ten wrong guesses, even with the right password; sign-in still works', async () => {
    const own = await start();
    const { browser, user } = await signedIn(database.db, own.url);
    for (let i = 0; i < 10; i++)
      expect((await post(browser, '/password', form({ currentPassword: 'wrong' }))).status).toBe(400);
    const blocked = await post(browser, '/password', form());
    expect(blocked.status).toBe(429);
    expect(blocked.text).toContain('Too many wrong passwords or codes');
    expect(blocked.text).toContain('name="newPassword"');
    expect(blocked.headers.get('retry-after')).not.toBeNull();
    // All pages that ask for the password share one counter of wrong attempts.
    expect((await post(browser, '/second-factor', { currentPassword: PASSWORD })).status).toBe(429);
    expect((await new Browser(own.url).signIn(user.email)).status).toBe(303);
  });

  it('works while strangers guess at the sign-in', async () => {
    const own = await start({ perAccount: 2 });
    const { browser, user } = await signedIn(database.db, own.url);
    for (let i = 0; i < 3; i++) await new Browser(own.url).signIn(user.email, 'wrong');
    expect((await new Browser(own.url).signIn(user.email)).status).toBe(429);
    expect((await post(browser, '/password', form())).status).toBe(303);
  });
});
