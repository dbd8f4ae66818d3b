import { hash } from '@node-rs/argon2';
import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { users } from '../../../../src/accounts/organizations/table.js';
import { hashPassword, passwordProblem, verifyPassword } from '../../../../src/accounts/identity/password.js';
import { addMember, Browser, createUser } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { operatorClient } from '../../../support/operator.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();
const operate = operatorClient(() => service);

const composed = 'Größe und Hürde Å 한글'.normalize('NFC');
const decomposed = composed.normalize('NFD');
const mixed = `${composed.slice(0, 12)}${decomposed.slice(14)}`;

const give = (id: string, passwordHash: string) =>
  database.db.orm.update(users).set({ passwordHash }).where(eq(users.id, id));
const hashOf = async (id: string) =>
  (await database.db.orm.select().from(users).where(eq(users.id, id)))[0]!.passwordHash;

async function createMember() {
  const user = await createUser(database.db);
  await addMember(database.db, (await createOrganization(database.db)).id, user.id, 'owner');
  return user;
}
const signIn = async (email: string, password: string) =>
  (await new Browser(service.url).signIn(email, password)).status;

describe('a password with accented letters', () => {
  it('is the same in both forms, wherever it is set', async () => {
    expect(composed).not.toBe(decomposed);
    for (const set of [composed, decomposed]) {
      const user = await createMember();
      expect((await operate('PUT', `/users/${user.email}`, { name: 'Jürgen', password: set })).status).toBe(
        200,
      );
      for (const typed of [composed, decomposed]) expect(await signIn(user.email, typed)).toBe(303);
      const stored = await hashOf(user.id);
      // The operator's declaration in the other form is no new password, which would end every session.
      const other = set === composed ? decomposed : composed;
      await operate('PUT', `/users/${user.email}`, { name: 'Jürgen', password: other });
      expect(await hashOf(user.id)).toBe(stored);
      expect(await signIn(user.email, `${composed}!`)).toBe(401);
    }
  });

  it('from an earlier version is accepted as it was typed, and in both forms afterwards', async () => {
    for (const [old, typed] of [
      [decomposed, decomposed],
      [decomposed, composed],
      [composed, decomposed],
      [mixed, mixed],
    ] as const) {
      const user = await createMember();
      const before = await hash(old, { memoryCost: 64, timeCost: 1, parallelism: 1 });
      await give(user.id, before);
      expect(await signIn(user.email, `${typed} `)).toBe(401);
      expect(await signIn(user.email, typed)).toBe(303);
      const after = await hashOf(user.id);
      expect(after === before).toBe(old === composed);
      for (const form of [composed, decomposed]) expect(await verifyPassword(after, form)).toBe('current');
    }
  });

  it('from an earlier version also confirms an identity, in the session that continues', async () => {
    const user = await createMember();
    const browser = new Browser(service.url);
    await give(user.id, await hashPassword(composed));
    await browser.signIn(user.email, composed);
    await give(user.id, await hash(decomposed));
    const headers = { accept: 'text/html', referer: `${service.url}/dashboard/account` };
    const form = {
      currentPassword: decomposed,
      newPassword: `${decomposed} 2`,
      newPasswordAgain: `${decomposed} 2`,
    };
    const { status } = await browser.send('POST', '/dashboard/account/password', { form, headers });
    expect(status).toBe(303);
    expect(await signIn(user.email, `${composed} 2`)).toBe(303);
  });

  it('is judged by its letters, however they are encoded', async () => {
    const short = 'ÄÖÜäöüÅå'.normalize('NFD');
    expect(short.length).toBeGreaterThan(12);
    expect(await passwordProblem(short, 'a@example.com')).toBe('must have at least 12 characters');
  });
});
