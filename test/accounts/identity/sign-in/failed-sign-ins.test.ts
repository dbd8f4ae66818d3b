import { eq } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { operatorLog } from '../../../../src/accounts/audit/table.js';
import { failedSignIns } from '../../../../src/accounts/identity/table.js';
import { users } from '../../../../src/accounts/organizations/table.js';
import { DAY_MS, HOUR_MS } from '../../../../src/core/time.js';
import { deleteOldFailedSignIns } from '../../../../src/accounts/identity/sign-in/failed-queries.js';
import { addMember, Browser, createUser } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { signedInOperator } from '../../../support/operators.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const html = { accept: 'text/html' };
const rowsOf = (userId: string) =>
  database.db.orm.select().from(failedSignIns).where(eq(failedSignIns.userId, userId));
const signIn = (email: string, password: string) =>
  new Browser(service.url).send('POST', '/login', { form: { email, password } });

it('wrong passwords of a person are counted in one row an hour, outside the audit log', async () => {
  const { id, email } = await createUser(database.db);
  const before = await database.db.orm.$count(operatorLog);
  for (let n = 1; n <= 3; n++) {
    expect((await signIn(` ${email.toUpperCase()} `, 'not the password')).status).toBe(401);
    await expect.poll(() => rowsOf(id)).toMatchObject([{ passwords: n, codes: 0 }]);
  }
  expect(await database.db.orm.$count(operatorLog)).toBe(before);
});

it('addresses without an account leave no trace', async () => {
  const before = await database.db.orm.$count(failedSignIns);
  expect((await signIn('stranger@nowhere.example', 'not the password')).status).toBe(401);
  const { id, email } = await createUser(database.db);
  await signIn(email, 'not the password');
  await expect.poll(() => rowsOf(id)).toHaveLength(1);
  expect(await database.db.orm.$count(failedSignIns)).toBe(before + 1);
});

it('people see their own failures, and operators see both kinds', async () => {
  const operator = await signedInOperator(service);
  const organization = await createOrganization(database.db);
  const { browser, id, email } = await signedInOperator(service);
  await addMember(database.db, organization.id, id, 'member');
  expect((await browser.get('/dashboard/account/sessions', html)).text).toContain('None in the last 30 days');
  const other = new Browser(service.url);
  await signIn(email, 'not the password');
  await other.signIn(email);
  await other.send('POST', '/login/code', { form: { code: '000000' }, headers: html });
  await expect.poll(() => rowsOf(id)).toMatchObject([{ passwords: 1, codes: 1 }]);

  expect((await browser.get('/dashboard/account/sessions', html)).text).toContain(
    '2 failed sign-ins in the last',
  );
  const open = async (path: string) => (await operator.browser.get(path, html)).text;
  for (const path of [
    `/console/customers/${organization.slug}`,
    `/console/customers/${organization.slug}/people`,
    `/console?signal=sign-ins&search=${organization.slug}`,
    `/console/people?signal=sign-ins&search=${email}`,
  ]) {
    const text = await open(path);
    expect([path, text.includes('1 wrong password'), text.includes('1 wrong code')]).toEqual([
      path,
      true,
      true,
    ]);
  }
  expect(await open(`/console/people/${id}`)).toContain('2 failed sign-ins in the last');
  expect(await open(`/console/people?signal=sign-ins&search=${operator.email}`)).toContain('No people match');
  expect((await operator.browser.get('/console/people?signal=x', html)).status).toBe(400);
});

it('failures are deleted with the person or after 30 days, and flagged for a day', async () => {
  const { context } = service;
  const { id, email } = await createUser(database.db);
  const at = (ms: number) => new Date(Math.floor((context.clock.now() - ms) / HOUR_MS) * HOUR_MS);
  await database.db.orm.insert(failedSignIns).values([
    { userId: id, hour: at(31 * DAY_MS), passwords: 1 },
    { userId: id, hour: at(2 * DAY_MS), passwords: 1 },
  ]);
  const operator = await signedInOperator(service);
  const list = await operator.browser.get(`/console/people?signal=sign-ins&search=${email}`, html);
  expect(list.text).toContain('No people match');
  await deleteOldFailedSignIns(database.db, new Date(context.clock.now()));
  expect(await rowsOf(id)).toMatchObject([{ hour: at(2 * DAY_MS) }]);
  const gone = await createUser(database.db);
  await database.db.orm.insert(failedSignIns).values({ userId: gone.id, hour: at(0), passwords: 1 });
  await database.db.orm.delete(users).where(eq(users.id, gone.id));
  expect(await rowsOf(gone.id)).toEqual([]);
});
