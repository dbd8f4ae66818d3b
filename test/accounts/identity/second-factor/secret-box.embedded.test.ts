import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { createSecretBox } from '../../../../src/core/secret-box.js';
import { resealSecrets } from '../../../../src/accounts/identity/second-factor/codes.js';
import { secondFactors } from '../../../../src/accounts/identity/table.js';
import { Browser, createUser } from '../../../support/accounts.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { useService } from '../../../support/use.js';

const SECRET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const { database, service } = useService({ env: { SECRET_KEYS: 'the newest key, an older key' } });

const storedOf = async (userId: string) => {
  const [row] = await database.db.orm.select().from(secondFactors).where(eq(secondFactors.userId, userId));
  return row!.secret;
};

describe('a sealed secret', () => {
  const box = createSecretBox(['new', 'old']);

  it('differs each time, reveals nothing, and can be opened', () => {
    const [one, other] = [box.seal('ada', SECRET), box.seal('ada', SECRET)];
    expect(one).not.toBe(other);
    expect(one).not.toContain(SECRET);
    expect([box.open('ada', one), box.open('ada', other)]).toEqual([SECRET, SECRET]);
  });

  it('cannot be opened for another person, with another key, or after a byte was changed', () => {
    const sealed = box.seal('ada', SECRET);
    expect(() => box.open('ben', sealed)).toThrow();
    expect(() => createSecretBox(['another']).open('ada', sealed)).toThrow(/SECRET_KEYS/);
    const [head, name, text] = sealed.split('.') as [string, string, string];
    for (let i = 0; i < Buffer.from(text, 'base64url').length; i++) {
      const bytes = Buffer.from(text, 'base64url');
      bytes[i]! ^= 1;
      expect(() => box.open('ada', `${head}.${name}.${bytes.toString('base64url')}`)).toThrow();
    }
  });

  it('under an older key can be opened but is not current', () => {
    const older = createSecretBox(['old']).seal('ada', SECRET);
    expect([box.open('ada', older), box.isCurrent(older), box.isCurrent(box.seal('ada', SECRET))]).toEqual([
      SECRET,
      false,
      true,
    ]);
  });
});

it('stored unencrypted by an earlier version is encrypted on first use', async () => {
  const user = await createUser(database.db);
  const app = await giveSecondFactor(database.db, user.id, service.clock);
  expect(await storedOf(user.id)).toBe(app.secret);
  const browser = new Browser(service.url);
  await browser.signIn(user.email);
  const answer = await browser.send('POST', '/login/code', { form: { code: app.code() } });
  expect(answer.status).toBe(303);
  const box = createSecretBox(service.context.config.secretKeys);
  expect(box.isCurrent(await storedOf(user.id))).toBe(true);
  expect(box.open(user.id, await storedOf(user.id))).toBe(app.secret);
});

it('is encrypted with the newest key by the job, once', async () => {
  const [clear, older] = [await createUser(database.db), await createUser(database.db)];
  const apps = [
    await giveSecondFactor(database.db, clear.id, service.clock),
    await giveSecondFactor(database.db, older.id, service.clock),
  ];
  await database.db.orm
    .update(secondFactors)
    .set({ secret: createSecretBox(['an older key']).seal(older.id, apps[1]!.secret) })
    .where(eq(secondFactors.userId, older.id));
  const box = createSecretBox(service.context.config.secretKeys);
  expect(await resealSecrets(database.db, box)).toBe(2);
  expect(await resealSecrets(database.db, box)).toBe(0);
  for (const [i, { id }] of [clear, older].entries()) {
    expect(box.isCurrent(await storedOf(id))).toBe(true);
    expect(createSecretBox(['the newest key']).open(id, await storedOf(id))).toBe(apps[i]!.secret);
  }
});
