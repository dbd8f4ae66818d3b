import { and, eq } from 'drizzle-orm';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCapNotices, deleteOldNotices } from '../../../src/metering/notices/notices.js';
import { createEndingMessages } from '../../../src/metering/notices/endings.js';
import { createSecretBox } from '../../../src/core/secret-box.js';
import { mails } from '../../../src/accounts/mail/table.js';
import { memberships } from '../../../src/accounts/organizations/table.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import { capNotices } from '../../../src/metering/notices/table.js';
import { addMember, createUser, signedIn } from '../../support/accounts.js';
import { isCitus } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { mailEnv } from '../../support/mail.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';

const textOf = ({ id, text }: typeof mails.$inferSelect): string =>
  createSecretBox(service.context.config.mail!.secretKeys, 'mail').open(id, text);

const { database, service } = useService({ env: mailEnv(1) });
beforeAll(async () => {
  service.clock.set('2031-03-15T12:00:00Z');
});
beforeEach(async () => void (await database.db.orm.delete(mails)));
const html = { accept: 'text/html' };

const subjectsMailedTo = async (email: string) => {
  const rows = await database.db.orm.select().from(mails).where(eq(mails.toAddress, email)).orderBy(mails.id);
  return rows.map(({ subject }) => subject);
};

/** Creates an Organization with a product, a key, an owner and some usage against a cap. */
async function createCustomer(unitCap: string) {
  const tenant = await createTenant(database.db, unitCap);
  const owner = await createUser(database.db);
  await addMember(database.db, tenant.organization.id, owner.id, 'owner');
  let n = 0;
  return {
    ...tenant,
    owner,
    async use(quantity: number, more = {}) {
      const event = usageEvent(tenant.product.slug, `n ${++n}`, { quantity, ...more });
      expect((await sendUsage(service.url, tenant.key.secret, [event])).status).toBe(202);
      await createCapNotices(service.context)();
    },
  };
}

describe('the mail about a cap', () => {
  it('is sent once at 80% and once at 100% per month, to owners and admins who opted in', async () => {
    const customer = await createCustomer('100');
    const { id: orgId } = customer.organization;
    const people = await Promise.all([1, 2, 3, 4].map(() => createUser(database.db)));
    const [admin, quiet, member, billing] = people as [typeof customer.owner, ...typeof people];
    await addMember(database.db, orgId, admin.id, 'admin');
    await addMember(database.db, orgId, quiet!.id, 'admin');
    await addMember(database.db, orgId, member!.id, 'member');
    await addMember(database.db, orgId, billing!.id, 'billing');
    await database.db.orm
      .update(memberships)
      .set({ mailNotices: false })
      .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, quiet!.id)));
    await customer.use(79.999);
    expect(await subjectsMailedTo(customer.owner.email)).toEqual([]);
    await customer.use(0.001);
    await customer.use(10);
    const first = `${customer.product.name} has used 80% of its cap (${customer.organization.name})`;
    expect(await subjectsMailedTo(customer.owner.email)).toEqual([first]);
    await customer.use(10);
    await customer.use(1);
    const second = `${customer.product.name} has reached its cap (${customer.organization.name})`;
    for (const { email } of [customer.owner, admin])
      expect(await subjectsMailedTo(email)).toEqual([first, second]);
    for (const { email } of [quiet!, member!, billing!]) expect(await subjectsMailedTo(email)).toEqual([]);
    const [mail] = await database.db.orm.select().from(mails).where(eq(mails.toAddress, admin.email));
    expect(textOf(mail!)).toContain('80 of 100 calls');
    expect(textOf(mail!)).toContain('in March 2031');
  });

  it('names only the higher level if both are reached at once, and is sent again next month', async () => {
    const customer = await createCustomer('100');
    await customer.use(150);
    expect(await subjectsMailedTo(customer.owner.email)).toEqual([
      expect.stringContaining('has reached its cap'),
    ]);
    service.clock.set('2031-04-02T12:00:00Z');
    await customer.use(85, { occurredAt: '2031-04-02T11:00:00Z' });
    expect(await subjectsMailedTo(customer.owner.email)).toEqual([
      expect.stringContaining('has reached its cap'),
      expect.stringContaining('has used 80% of its cap'),
    ]);
  });

  it('follows the cap that applies: the entitlement’s own', async () => {
    const higher = await createCustomer('100');
    const none = await createCustomer('100');
    const set = (orgId: string, unitCap: string | null) =>
      database.db.orm
        .update(entitlements)
        .set({ hasOwnCap: true, unitCap })
        .where(eq(entitlements.orgId, orgId));
    await set(higher.organization.id, '1000');
    await set(none.organization.id, null);
    await higher.use(150);
    await none.use(150);
    for (const { owner } of [higher, none]) expect(await subjectsMailedTo(owner.email)).toEqual([]);
    await set(higher.organization.id, '160');
    await createCapNotices(service.context)();
    expect(await subjectsMailedTo(higher.owner.email)).toHaveLength(1);
  });

  it('is not sent for test usage, a cap of zero, or an ended entitlement', async () => {
    const customer = await createCustomer('0');
    await customer.use(0);
    expect(await subjectsMailedTo(customer.owner.email)).toEqual([]);
    const ended = await createCustomer('10');
    const endsAt = new Date(service.clock.now() - 1);
    const over = { startsAt: new Date('2020-01-01T00:00:00Z'), endsAt };
    const testKey = await createKey(database.db, ended.organization.id, { livemode: false });
    const event = usageEvent(ended.product.slug, 'test', { quantity: 10 });
    expect((await sendUsage(service.url, testKey.secret, [event])).status).toBe(202);
    await createCapNotices(service.context)();
    expect(await subjectsMailedTo(ended.owner.email)).toEqual([]);
    await sendUsage(service.url, ended.key.secret, [{ ...event, idempotencyKey: 'live' }]);
    await database.db.orm.update(entitlements).set(over).where(eq(entitlements.orgId, ended.organization.id));
    await createCapNotices(service.context)();
    expect(await subjectsMailedTo(ended.owner.email)).toEqual([]);
  });

  it('is sent once even if two instances look at the same time', async () => {
    const customer = await createCustomer('10');
    const event = usageEvent(customer.product.slug, 'all', { quantity: 10 });
    await sendUsage(service.url, customer.key.secret, [event]);
    await Promise.all([1, 2, 3].map(() => createCapNotices(service.context)()));
    expect(await subjectsMailedTo(customer.owner.email)).toHaveLength(1);
  });

  it.skipIf(isCitus)('is sent for entitlements beyond the first batch of a statement', async () => {
    const organization = await createOrganization(database.db);
    for (let n = 0; n < 510; n++) {
      const product = await createProduct(database.db, { unitCap: '5' });
      await grant(database.db, organization.id, product.id);
    }
    const customer = await createCustomer('10');
    await customer.use(10);
    expect(await subjectsMailedTo(customer.owner.email)).toHaveLength(1);
  });

  it('is forgotten after some months', async () => {
    const afterAprilExpires = new Date('2031-08-01T00:00:00Z');
    await deleteOldNotices(database.db, new Date(service.clock.now()));
    expect((await database.db.orm.select().from(capNotices)).length).toBeGreaterThan(0);
    await deleteOldNotices(database.db, afterAprilExpires);
    expect(await database.db.orm.select().from(capNotices)).toEqual([]);
  });
});

describe('the mail about keys that expire', () => {
  const inDays = (days: number) => new Date(service.clock.now() + days * 86_400_000);

  it('is sent once per key, a week ahead, and not for rotated, revoked or expired keys', async () => {
    const customer = await createCustomer('10');
    const { id: orgId } = customer.organization;
    const make = (name: string, more: object) => createKey(database.db, orgId, { name, ...more });
    await make('Soon\r\nBcc: x', { expiresAt: inDays(7) });
    const rotated = await make('Rotated', { expiresAt: inDays(1) });
    await make('Successor', { rotatedFromId: rotated.id });
    await make('Late', { expiresAt: inDays(8) });
    await make('Over', { expiresAt: inDays(-1) });
    await make('Revoked', { expiresAt: inDays(1), revokedAt: inDays(-1) });
    await Promise.all([1, 2].map(() => createEndingMessages(service.context)()));
    await createEndingMessages(service.context)();
    const told = async () =>
      database.db.orm.select().from(mails).where(eq(mails.toAddress, customer.owner.email)).orderBy(mails.id);
    const [mail, ...others] = await told();
    expect(others).toEqual([]);
    expect(mail!.subject).toBe(`An API key expires within 7 days (${customer.organization.name})`);
    expect(textOf(mail!)).toContain('Soon Bcc: x (');
    expect(textOf(mail!)).not.toMatch(/Rotated|Late|Over|Revoked/);
    service.clock.advance(86_400_000);
    await createEndingMessages(service.context)();
    expect((await told()).map((each) => /Soon|Late/.exec(textOf(each))?.[0])).toEqual(['Soon', 'Late']);
  });
});

describe('the choice on the account page', () => {
  it('is personal, per Organization that the person manages', async () => {
    const { organization, browser, user } = await signedIn(database.db, service.url);
    const other = await signedIn(database.db, service.url);
    const { text } = await browser.get('/dashboard/account', html);
    expect(text).toContain('E-mails about caps, alerts and expiring keys');
    const choose = (slug: string, notices: string) =>
      browser.send('POST', '/dashboard/account/notices', {
        form: { organization: slug, notices },
        headers: html,
      });
    const isWanted = async (userId: string) =>
      (await database.db.orm.select().from(memberships).where(eq(memberships.userId, userId)))[0]!
        .mailNotices;
    for (const [notices, wanted] of [
      ['off', false],
      ['off', false],
      ['on', true],
    ] as const) {
      expect((await choose(organization.slug, notices)).status).toBe(303);
      expect(await isWanted(user.id)).toBe(wanted);
    }
    expect((await choose(other.organization.slug, 'off')).status).toBe(404);
    expect((await choose(organization.slug, 'maybe')).status).toBe(400);
    expect(await isWanted(other.user.id)).toBe(true);
  });

  it('is not shown to members who get no mail', async () => {
    const { browser } = await signedIn(database.db, service.url, 'member');
    expect((await browser.get('/dashboard/account', html)).text).not.toContain('E-mails about');
  });
});
