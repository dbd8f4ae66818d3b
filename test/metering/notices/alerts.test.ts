import { eq, sql } from 'drizzle-orm';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { mails } from '../../../src/accounts/mail/table.js';
import type { Role } from '../../../src/accounts/organizations/table.js';
import { webhookEndpoints } from '../../../src/accounts/webhooks/table.js';
import { createSecretBox } from '../../../src/core/secret-box.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import {
  createBalanceAlerts,
  createCapNotices,
  createCreditAlerts,
} from '../../../src/metering/notices/notices.js';
import { usageAlerts } from '../../../src/metering/notices/table.js';
import { addMember, createUser, signedIn } from '../../support/accounts.js';
import { isEmbedded } from '../../support/database.js';
import { createKey } from '../../support/fixtures.js';
import { mailEnv } from '../../support/mail.js';
import { useOtherConnections, useService } from '../../support/use.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { addGrant, burnCredits } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';

const ALERTS = '/dashboard/usage/alerts';
const html = { accept: 'text/html' };

const { database, service } = useService({ env: mailEnv(1) });
const others = isEmbedded ? undefined : useOtherConnections(database);
beforeAll(() => service.clock.set('2031-03-15T12:00:00Z'));
beforeEach(async () => void (await database.db.orm.delete(mails)));

/** An owner with a product that has a cap, a key, and an endpoint for `usage.alert`. */
async function createCustomer(unitCap: string | null = '1000') {
  const owner = await signedIn(database.db, service.url);
  const { id: orgId } = owner.organization;
  const product = await createProduct(database.db, { unitCap, name: 'Tiles' });
  await grant(database.db, orgId, product.id);
  const key = await createKey(database.db, orgId, {});
  await createListener(database.db, orgId, { types: ['usage.alert'] });
  let n = 0;
  return {
    ...owner,
    orgId,
    product,
    add: (fields: Record<string, string>, browser = owner.browser) =>
      browser.send('POST', ALERTS, { form: fields, headers: html }),
    remove: (id: string, browser = owner.browser) =>
      browser.send('POST', `${ALERTS}/${id}/remove`, { form: {}, headers: html }),
    page: async () => (await owner.browser.get(ALERTS, html)).text,
    ids: async () =>
      (await database.db.orm.select().from(usageAlerts).where(eq(usageAlerts.orgId, orgId))).map(
        ({ id }) => id,
      ),
    async use(quantity: number) {
      const occurredAt = new Date(service.clock.now() - 1000).toISOString();
      const event = usageEvent(product.slug, `n ${++n}`, { quantity, occurredAt });
      expect((await sendUsage(service.url, key.secret, [event])).status).toBe(202);
      await look();
    },
    async burn(credits: string) {
      await burnCredits(database.db, { orgId, livemode: true }, credits, new Date(service.clock.now()));
      await look();
    },
    /** The messages of `usage.alert`: level and used. */
    sent: async () =>
      (await readWebhookMessages(database.db, orgId, 'usage.alert')).map(({ data }) => [
        data.level,
        data.used ?? `${data.balance} left`,
      ]),
    mailed: async (email = owner.user.email) =>
      (await database.db.orm.select().from(mails).where(eq(mails.toAddress, email)).orderBy(mails.id)).map(
        ({ subject }) => subject.replace(` (${owner.organization.name})`, ''),
      ),
    signIn: async (role: Role) => {
      const person = await signedIn(database.db, service.url, role);
      await addMember(database.db, orgId, person.user.id, role);
      await person.browser.send('POST', '/dashboard/organization', {
        form: { organization: owner.organization.slug },
        headers: html,
      });
      return person;
    },
  };
}

/** Runs the jobs on two instances at the same time, twice in a row. */
async function look() {
  const { context } = service;
  const make = () =>
    [context.db, others ?? context.db].flatMap((db) =>
      [createCapNotices, createCreditAlerts, createBalanceAlerts].map((create) => create({ ...context, db })),
    );
  for (const jobs of [make(), make()]) await Promise.all(jobs.map((job) => job()));
}

describe('an alert on a share of a cap', () => {
  it('is sent once a month, by e-mail and webhook, over restarts and instances', async () => {
    const customer = await createCustomer();
    expect((await customer.add({ cap: customer.product.slug, level: '62' })).status).toBe(303);
    await customer.use(619);
    expect(await customer.sent()).toEqual([]);
    await customer.use(1.5);
    await customer.use(1);
    expect(await customer.sent()).toEqual([[62, 620.5]]);
    expect(await customer.mailed()).toEqual(['Tiles has used 62% of its cap']);
    const [message] = await readWebhookMessages(database.db, customer.orgId, 'usage.alert');
    expect(message).toMatchObject({
      livemode: true,
      data: {
        alertId: (await customer.ids())[0],
        productSlug: customer.product.slug,
        metric: 'calls',
        level: 62,
        cap: 1000,
        used: 620.5,
        windowStart: '2031-03-01T00:00:00.000Z',
        windowEnd: '2031-04-01T00:00:00.000Z',
      },
    });
    const [mail] = await database.db.orm.select().from(mails).where(eq(mails.toAddress, customer.user.email));
    const box = createSecretBox(service.context.config.mail!.secretKeys, 'mail');
    expect(box.open(mail!.id, mail!.text)).toContain(
      `${customer.organization.name}: Tiles has used 62% of its cap in March 2031: 620.5 of 1,000 calls.`,
    );
    expect(await customer.page()).toContain('62% of the cap of Tiles');
    for (const done of ['added', 'removed'])
      expect((await customer.browser.get(`${ALERTS}?done=${done}`, html)).text).toContain(`Alert ${done}.`);
    expect(await customer.page()).not.toContain('Never');
    service.clock.set('2031-04-02T12:00:00Z');
    await customer.use(619);
    expect(await customer.sent()).toHaveLength(1);
    await customer.use(1);
    expect(await customer.sent()).toEqual([
      [62, 620.5],
      [62, 620],
    ]);
    service.clock.set('2031-03-15T12:00:00Z');
  });

  it('is not sent again after usage fell below it and rose again', async () => {
    const customer = await createCustomer();
    await customer.add({ cap: customer.product.slug, level: '60' });
    await customer.use(600);
    for (const quantity of [100, 700]) {
      await database.db.orm.execute(
        sql`update usage_totals set quantity = ${quantity} where org_id = ${customer.orgId}::uuid`,
      );
      await look();
    }
    expect(await customer.sent()).toEqual([[60, 600]]);
  });

  it('follows the cap: one that falls is reached, one that is raised is not, and a monthly limit counts', async () => {
    const customer = await createCustomer('10000');
    const set = async (values: Partial<typeof entitlements.$inferInsert>) => {
      await database.db.orm.update(entitlements).set(values).where(eq(entitlements.orgId, customer.orgId));
      await look();
    };
    await customer.add({ cap: customer.product.slug, level: '50' });
    await customer.add({ cap: customer.product.slug, level: '70' });
    await customer.use(500);
    await set({ hasOwnCap: true, unitCap: null });
    expect(await customer.sent()).toEqual([]);
    await set({ unitCap: '1000' });
    expect(await customer.sent()).toEqual([[50, 500]]);
    await set({ unitCap: '5000' });
    await set({ unitCap: '1000' });
    expect(await customer.sent()).toHaveLength(1);
    await set({ limits: [{ quantity: '700', window: 'calendar_month', enforcement: 'block' }] });
    expect(await customer.sent()).toEqual([
      [50, 500],
      [70, 500],
    ]);
  });

  it('is left out if a higher one is reached at once, and is forgotten when removed', async () => {
    const customer = await createCustomer();
    for (const level of ['10', '20', '30']) await customer.add({ cap: customer.product.slug, level });
    const [, , third] = await customer.ids();
    await customer.remove(third!);
    await customer.use(350);
    expect(await customer.sent()).toEqual([[20, 350]]);
    expect(await customer.mailed()).toEqual(['Tiles has used 20% of its cap']);
  });

  it('is mailed to owners, admins and billing members who want it, and 80% still only to owners and admins', async () => {
    const customer = await createCustomer();
    const people = Object.fromEntries(
      await Promise.all(
        (['admin', 'billing', 'member'] as const).map(async (role) => {
          const { id, email } = await createUser(database.db);
          await addMember(database.db, customer.orgId, id, role);
          return [role, email] as const;
        }),
      ),
    );
    await customer.add({ cap: customer.product.slug, level: '75' });
    await customer.use(750);
    await customer.use(50);
    const [alert, notice] = ['Tiles has used 75% of its cap', 'Tiles has used 80% of its cap'];
    expect(await customer.mailed()).toEqual([alert, notice]);
    expect(await customer.mailed(people.admin)).toEqual([alert, notice]);
    expect(await customer.mailed(people.billing)).toEqual([alert]);
    expect(await customer.mailed(people.member)).toEqual([]);
    // Nobody set an alert at 80%.
    expect(await customer.sent()).toEqual([[75, 750]]);
  });
});

describe('an alert on credits a day', () => {
  it('is sent once a day, when more were burned', async () => {
    const customer = await createCustomer(null);
    await addGrant(database.db, customer.orgId, { amount: '5000' }, new Date(service.clock.now()));
    expect((await customer.add({ cap: '', level: '1000' })).status).toBe(303);
    await customer.burn('1000');
    expect(await customer.sent()).toEqual([]);
    await customer.burn('0.25');
    await customer.burn('5');
    expect(await customer.sent()).toEqual([[1000, 1000.25]]);
    expect(await customer.mailed()).toEqual(['More than 1,000 credits burned on 15 Mar 2031']);
    const [message] = await readWebhookMessages(database.db, customer.orgId, 'usage.alert');
    expect(message!.data).toMatchObject({
      productSlug: null,
      metric: null,
      cap: null,
      windowStart: '2031-03-15T00:00:00.000Z',
      windowEnd: '2031-03-16T00:00:00.000Z',
    });
    expect(await customer.page()).toContain('More than 1,000 credits burned in a day');
    service.clock.set('2031-03-16T00:00:10Z');
    await customer.burn('999');
    expect(await customer.sent()).toHaveLength(1);
    await customer.burn('2');
    expect(await customer.sent()).toHaveLength(2);
    service.clock.set('2031-03-15T12:00:00Z');
  });

  it('counts the whole day from the sum of earlier hours, with entries that were committed late', async () => {
    const customer = await createCustomer(null);
    const account = { orgId: customer.orgId, livemode: true };
    await addGrant(database.db, customer.orgId, { amount: '5000' }, new Date(service.clock.now()));
    await customer.add({ cap: '', level: '1000' });
    const run = createCreditAlerts({ ...service.context, db: database.db });
    const burn = async (credits: string, at: string) => {
      await burnCredits(database.db, account, credits, new Date(at));
      await run();
    };
    await burn('600.5', '2031-03-15T08:00:00Z');
    await burn('300', '2031-03-15T11:55:00Z');
    service.clock.set('2031-03-15T12:04:00Z');
    await burn('99', '2031-03-15T11:55:30Z');
    await burn('0.5', '2031-03-15T12:03:00Z');
    expect(await customer.sent()).toEqual([]);
    await burn('0.25', '2031-03-15T12:03:30Z');
    expect(await customer.sent()).toEqual([[1000, 1000.25]]);
    service.clock.set('2031-03-16T08:00:00Z');
    await burn('1000', '2031-03-16T07:00:00Z');
    expect(await customer.sent()).toHaveLength(1);
    await burn('1', '2031-03-16T07:59:00Z');
    expect(await customer.sent()).toHaveLength(2);
    service.clock.set('2031-03-15T12:00:00Z');
  });
});

describe('an alert on credits a month', () => {
  it('is sent once a month, when more were burned, with the days before', async () => {
    const customer = await createCustomer(null);
    const account = { orgId: customer.orgId, livemode: true };
    await addGrant(database.db, customer.orgId, { amount: '9000' }, new Date('2031-02-01T00:00:00Z'));
    for (const [credits, day] of [
      ['2000', '2031-02-20'],
      ['1500', '2031-03-02'],
    ] as const)
      await burnCredits(database.db, account, credits, new Date(`${day}T10:00:00Z`), customer.product.id);
    for (const level of ['2500', '2600'])
      expect((await customer.add({ cap: ':month', level })).status).toBe(303);
    expect((await customer.page()).replaceAll(/\s+/g, ' ')).toMatch(
      /<option value=":month" data-fill="2000">.*The month before burned 2,000 credits/,
    );
    await customer.burn('1000');
    expect(await customer.sent()).toEqual([]);
    await customer.burn('0.5');
    await customer.burn('5');
    expect(await customer.sent()).toEqual([[2500, 2500.5]]);
    expect(await customer.mailed()).toEqual(['More than 2,500 credits burned in March 2031']);
    const [message] = await readWebhookMessages(database.db, customer.orgId, 'usage.alert');
    expect(message!.data).toMatchObject({
      productSlug: null,
      cap: null,
      balance: null,
      windowStart: '2031-03-01T00:00:00.000Z',
      windowEnd: '2031-04-01T00:00:00.000Z',
    });
    const page = (await customer.page()).replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ');
    expect(page).toMatch(/More than 2,500 credits burned in a month Reached 1 time .* Remove/);
    expect(page).toMatch(/More than 2,600 credits burned in a month Not in the last 30 days Never/);
    service.clock.set('2031-04-02T12:00:00Z');
    await customer.burn('2500');
    expect(await customer.sent()).toHaveLength(1);
    await customer.burn('1');
    expect((await customer.sent()).slice(1)).toEqual([[2500, 2501]]);
    service.clock.set('2031-03-15T12:00:00Z');
    const log = (await customer.browser.get('/dashboard/audit-log', html)).text;
    expect(log.replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ')).toContain(
      'Added an alert at 2,600 credits burned in a month',
    );
  });
});

describe('an alert on credits left', () => {
  it('is sent once when fewer are left, and again after a new grant or in a new month', async () => {
    const customer = await createCustomer(null);
    const give = (amount: string) =>
      addGrant(database.db, customer.orgId, { amount }, new Date(service.clock.now()));
    await give('1000');
    for (const level of ['200', '500', '100'])
      expect((await customer.add({ cap: ':left', level })).status).toBe(303);
    await customer.burn('500');
    expect(await customer.sent()).toEqual([]);
    await customer.burn('0.5');
    await customer.burn('10');
    expect(await customer.sent()).toEqual([[500, '499.5 left']]);
    expect(await customer.mailed()).toEqual(['Fewer than 500 credits left']);
    const [message] = await readWebhookMessages(database.db, customer.orgId, 'usage.alert');
    expect(message!.data).toMatchObject({
      productSlug: null,
      metric: null,
      cap: null,
      used: null,
      windowStart: '2031-03-15T00:00:00.000Z',
      windowEnd: '2031-04-01T00:00:00.000Z',
    });
    // The lowest of several, also of an overdrawn account.
    await customer.burn('495');
    expect((await customer.sent()).slice(1)).toEqual([[100, '-5.5 left']]);
    service.clock.set('2031-03-16T12:00:00Z');
    await give('305.5');
    await customer.burn('10');
    expect((await customer.sent()).slice(2)).toEqual([[500, '290 left']]);
    service.clock.set('2031-04-01T00:00:10Z');
    await customer.burn('1');
    await customer.burn('1');
    expect((await customer.sent()).slice(3)).toEqual([[500, '289 left']]);
    service.clock.set('2031-03-15T12:00:00Z');
    const page = await customer.page();
    expect(page).toContain('Fewer than 500 credits left');
    const log = (await customer.browser.get('/dashboard/audit-log', html)).text.replaceAll(
      /<[^>]*>|\s+/g,
      ' ',
    );
    expect(log).toContain('Added an alert at 500 credits left');
    expect((await customer.remove((await customer.ids())[0]!)).status).toBe(303);
  });

  it('is not sent while it holds, and not for another Organization', async () => {
    const [poor, rich] = [await createCustomer(null), await createCustomer(null)];
    await addGrant(database.db, rich.orgId, { amount: '1000' }, new Date(service.clock.now()));
    await addGrant(database.db, poor.orgId, { amount: '10' }, new Date(service.clock.now()));
    await rich.add({ cap: ':left', level: '1000' });
    await look();
    expect([await rich.sent(), await poor.sent()]).toEqual([[], []]);
  });
});

describe('alerts without e-mail', () => {
  const silent = useService();

  it('say that they reach nobody until an endpoint that listens works', async () => {
    const { browser, organization } = await signedIn(silent.database.db, silent.service.url);
    const read = async (path: string) => (await browser.get(path, html)).text.replaceAll(/\s+/g, ' ');
    const page = () => read(ALERTS);
    const product = await createProduct(silent.database.db, { unitCap: '10' });
    await grant(silent.database.db, organization.id, product.id);
    expect(await read('/dashboard/usage')).toMatch(/(?<!Nobody receives alerts.*)No alerts yet/);
    expect(await page()).toMatch(/Nobody receives alerts.*No alerts yet.*<h2 id="add">Add an alert/);
    const added = { cap: product.slug, level: '80' };
    expect((await browser.send('POST', ALERTS, { form: added, headers: html })).status).toBe(303);
    const usage = await read('/dashboard/usage');
    expect(usage).toMatch(/<strong>Nobody receives alerts\.<\/strong> This service .*80% of the cap/);
    const set = (values: Partial<typeof webhookEndpoints.$inferInsert>) =>
      silent.database.db.orm.update(webhookEndpoints).set(values);
    await createListener(silent.database.db, organization.id, { types: ['usage.threshold_reached'] });
    expect(await page()).toContain('This service sends no e-mail, and no live endpoint listens to');
    expect(await page()).toMatch(
      /Nobody receives alerts.*<h2 id="add">Add an alert<\/h2> <form method="post"/,
    );
    await set({ types: ['usage.alert'] });
    expect(await page()).not.toContain('Nobody receives alerts');
    for (const values of [{ failingSince: new Date() }, { failingSince: null, isEnabled: false }]) {
      await set(values);
      expect(await page()).toMatch(/each live endpoint for <code>usage.alert<\/code> is failing or disabled/);
    }
  });
});

describe('the page of alerts', () => {
  it('lets billing members add and remove alerts, with an entry in the audit log, and members only see them', async () => {
    const customer = await createCustomer();
    const billing = await customer.signIn('billing');
    const member = await customer.signIn('member');
    expect((await customer.add({ cap: customer.product.slug, level: '55' }, billing.browser)).status).toBe(
      303,
    );
    expect((await customer.add({ cap: customer.product.slug, level: '55' })).status).toBe(303);
    const [id, ...more] = await customer.ids();
    expect(more).toEqual([]);
    const { text } = await member.browser.get('/dashboard/usage', html);
    expect(text).toContain('55% of the cap of Tiles');
    expect(text).not.toContain(`${ALERTS}/`);
    expect((await customer.add({ cap: '', level: '5' }, member.browser)).status).toBe(403);
    expect((await customer.remove(id!, member.browser)).status).toBe(403);
    expect(await customer.ids()).toEqual([id]);
    expect((await customer.remove(id!, billing.browser)).status).toBe(303);
    expect(await customer.ids()).toEqual([]);
    expect((await customer.remove(id!)).status).toBe(404);
    const rows = await selectRows<{ action: string; details: object }>(
      database.db.orm,
      sql`select action, details from audit_log where org_id = ${customer.orgId}::uuid and action like 'usage_alert.%' order by seq`,
    );
    expect(rows).toEqual([
      { action: 'usage_alert.added', details: { percent: 55 } },
      { action: 'usage_alert.removed', details: { percent: 55 } },
    ]);
    const log = await customer.browser.get('/dashboard/audit-log', html);
    expect(log.text.replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ')).toContain(
      'Added an alert at 55% of the cap of Tiles',
    );
  });

  it('says who is told, by name, and at which endpoints', async () => {
    const customer = await createCustomer();
    const { id } = await createUser(database.db);
    await addMember(database.db, customer.orgId, id, 'billing');
    const page = (await customer.page()).replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ');
    expect(page).toMatch(
      new RegExp(`Goes to ${customer.user.name} and .* : owners, admins and billing members`),
    );
    expect(page).toContain('example.com Enabled');
    expect(page).not.toContain('Nobody receives alerts');
  });

  it('proposes the cap of the product shown, and the most credits of a day', async () => {
    const customer = await createCustomer();
    await customer.use(250);
    await addGrant(database.db, customer.orgId, { amount: '5000' }, new Date('2031-03-01T00:00:00Z'));
    const account = { orgId: customer.orgId, livemode: true };
    for (const [day, credits] of [
      ['11', '40'],
      ['12', '96.5'],
      ['13', '20'],
    ] as const)
      await burnCredits(
        database.db,
        account,
        credits,
        new Date(`2031-03-${day}T10:00:00Z`),
        customer.product.id,
      );
    const read = async (path: string) =>
      (await customer.browser.get(path, html)).text.replaceAll(/\s+/g, ' ');
    const address = `${ALERTS}?cap=${customer.product.slug}`;
    expect(await read(`/dashboard/usage?product=${customer.product.slug}`)).toContain(`href="${address}"`);
    const proposal = `<option value="${customer.product.slug}" data-fill="95" selected> Cap of Tiles, 25.0% used`;
    expect(await read(address)).toContain(proposal);
    expect(await read(address)).toContain('value="95"');
    expect(await read(address)).toContain(
      '<option value=":left" data-fill="968"> Credits left </option> <option value=":month" data-fill=""> Credits burned in a month </option> <option value="" data-fill="97">',
    );
    expect(await read(`${ALERTS}?cap=:left`)).toContain('value="968"');
    await customer.add({ cap: '', level: '30' });
    const page = await read(ALERTS);
    expect(page).not.toContain(proposal);
    expect(page).toContain('value="97"');
    expect(page).toMatch(/The last 30 days burned 0 to 96\.5 credits a day, median [\d.]+\./);
    expect(page).toContain('Above on 2 days');
  });

  it('refuses a product without a cap, other products, and levels that are not whole numbers', async () => {
    const customer = await createCustomer(null);
    const other = await createCustomer();
    const refused: [Record<string, string>, string][] = [
      [{ cap: customer.product.slug, level: '50' }, 'Has no monthly cap. Choose a product that has one.'],
      [{ cap: other.product.slug, level: '50' }, 'Has no monthly cap.'],
      [{ cap: "x'; drop table usage_alerts; --", level: '50' }, 'Must be 1 to 64 of a-z'],
      [{ cap: '', level: '' }, 'Required.'],
      ...['0', '-1', '1.5', '1e3', '٥', '<b>5</b>', 'NaN'].map((level): [Record<string, string>, string] => [
        { cap: '', level },
        'Must be a whole number, at least 1',
      ]),
      ...['1000000000', '9'.repeat(400)].map((level): [Record<string, string>, string] => [
        { cap: '', level },
        'Must be at most 999,999,999, in credits',
      ]),
    ];
    for (const [fields, error] of refused) {
      const { status, text } = await customer.add(fields);
      expect([status, text.includes(error)], JSON.stringify(fields)).toEqual([400, true]);
      expect(text).not.toContain('<b>5</b>');
    }
    expect((await other.add({ cap: other.product.slug, level: '1001' })).text).toContain(
      'Must be at most 1,000, in percent of the cap',
    );
    for (const { ids } of [customer, other]) expect(await ids()).toEqual([]);
  });

  it('has at most 20 alerts, and nobody removes another Organization’s', async () => {
    const customer = await createCustomer();
    const other = await createCustomer();
    for (let level = 1; level <= 20; level++)
      expect((await customer.add({ cap: '', level: String(level) })).status).toBe(303);
    const { status, text } = await customer.add({ cap: '', level: '21' });
    expect(status).toBe(400);
    expect(text).toContain('An Organization can have at most 20 alerts.');
    const [id] = await customer.ids();
    expect((await other.remove(id!)).status).toBe(404);
    expect((await customer.remove('not-an-id')).status).toBe(404);
    expect(await customer.ids()).toHaveLength(20);
  });
});
