import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { operatorLog } from '../../src/accounts/audit/table.js';
import { addMember, createUser, PASSWORD } from '../support/accounts.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { products } from '../../src/metering/entitlements/table.js';
import { createProduct, grant } from '../metering/support/products.js';
import { forgetConfirmation, signedInOperator, type TestOperator } from '../support/operators.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { useService } from '../support/use.js';
import { auditOf } from '../support/audit.js';

const { database, service } = useService();
let operator: TestOperator;
let orgId: string;
let base: string;
beforeEach(async () => {
  operator = await signedInOperator(service);
  const organization = await createOrganization(database.db);
  orgId = organization.id;
  base = `/console/customers/${organization.slug}`;
});

type Form = Record<string, string>;
const html = { accept: 'text/html' };
const open = async (path: string) => (await operator.browser.get(path, html)).text;
const post = (path: string, form: Form, from: string) =>
  operator.browser.send('POST', path, { form, headers: { ...html, referer: service.url + from } });

/** Reads all changes made to the customer and the service so far. */
const readChanges = async () => [
  ...(await auditOf(database.db, orgId)),
  ...(await database.db.orm.select().from(operatorLog).orderBy(operatorLog.seq)).filter(({ action }) =>
    action.startsWith('trading'),
  ),
];

/** Submits a form long after the password was entered. @returns the redirect target */
async function sendLate(path: string, form: Form, from: string): Promise<string | null> {
  await forgetConfirmation(service, operator.browser);
  const { status, headers } = await post(path, form, from);
  expect(status).toBe(303);
  return headers.get('location');
}

/** Confirms with password and code on `/confirm`, then reopens the page. */
async function confirm(page: string): Promise<string> {
  // A code works only once, so this advances the clock to the next one.
  service.clock.advance(30_000);
  const form = { currentPassword: PASSWORD, code: operator.app.code(), next: page };
  const confirmed = await operator.browser.send('POST', '/confirm', { form, headers: html });
  expect(confirmed.headers.get('location')).toBe(page);
  return open(page);
}

interface Change {
  path: string;
  form: Form;
  page: string;
}

/**
 * Asserts that a form submitted late changes nothing, is shown again as filled in, and takes effect once the operator
 * has confirmed.
 */
async function expectProof({ path, form, page }: Change): Promise<void> {
  const before = await readChanges();
  expect(await sendLate(base + path, form, base + page)).toBe(
    `/confirm?next=${encodeURIComponent(base + page)}`,
  );
  expect(await readChanges()).toEqual(before);
  const again = await confirm(base + page);
  expect(again).toContain('Nothing has been changed yet.');
  for (const [name, value] of Object.entries(form)) {
    // Each button of a form with a preview has its own step.
    if (name === 'step') continue;
    const shown = new RegExp(`name="${name}"[^>]*value="${value}"[^>]*>|<option value="${value}" selected`);
    const [tag] = shown.exec(again) ?? [];
    const isChosen = /type="(radio|checkbox)"/.test(tag ?? '')
      ? tag!.includes(' checked')
      : tag !== undefined;
    expect([name, isChosen]).toEqual([name, true]);
  }
  const { status, headers } = await post(base + path, form, base + page);
  expect([status, headers.get('location')]).toEqual([303, expect.stringContaining('?done=')]);
  expect(await readChanges()).not.toEqual(before);
}

const set = async (path: string, form: Form) =>
  expect((await post(base + path, form, base)).status).toBe(303);

describe('trading limits', () => {
  const change = (form: Form) => ({ path: '/trading/limits', form, page: '/trading' });

  it('can be raised only with a fresh proof', async () => {
    await expectProof(change({ maxOpenOrders: '21', maxDailyLoss: '50' }));
  });

  it('can be raised by omitting or withdrawing them only with a fresh proof', async () => {
    await set('/trading/limits', { maxOpenOrders: '7', maxDailyLoss: '50' });
    await expectProof(change({ maxDailyLoss: '40' }));
    await expectProof({ path: '/trading/limits/withdraw', form: {}, page: '/trading' });
  });

  it('can be lowered at once, even by returning to lower defaults', async () => {
    const done = `${base}/trading?done=`;
    const lower = { maxOpenOrders: '7', maxDailyLoss: '50' };
    expect(await sendLate(`${base}/trading/limits`, lower, `${base}/trading`)).toBe(`${done}limits`);
    await confirm(`${base}/trading`);
    await set('/trading/limits', { maxOpenOrders: '21' });
    expect(await sendLate(`${base}/trading/limits/withdraw`, {}, `${base}/trading`)).toBe(`${done}defaults`);
  });

  it('survive the proof if the form was shown again because of a mistake', async () => {
    const wrong = await post(`${base}/trading/limits`, { maxOpenOrders: 'many' }, `${base}/trading`);
    expect(wrong.status).toBe(400);
    await expectProof({ ...change({ maxOpenOrders: '34' }), page: '/trading/limits' });
  });
});

describe.each([
  { whose: 'a customer', trading: () => `${base}/trading` },
  { whose: 'the whole service', trading: () => '/console/trading' },
])('the switch of $whose', ({ trading }) => {
  const page = (state: string) => `${trading()}/switch?state=${state}`;
  const path = () => `${trading()}/switch`;
  const late = (state: string, reason = `Now ${state}`) => sendLate(path(), { state, reason }, page(state));

  it('closes at once, but opens only with a fresh proof, even partly', async () => {
    const done = `${trading()}?done=switch`;
    expect([await late('reduce_only'), await late('halt'), await late('halt', 'Still')]).toEqual([
      done,
      done,
      done,
    ]);
    const before = await readChanges();
    for (const state of ['open', 'reduce_only'])
      expect(await late(state)).toBe(`/confirm?next=${encodeURIComponent(page(state))}`);
    expect(await readChanges()).toEqual(before);
    const again = await confirm(page('reduce_only'));
    expect(again).toMatch(/name="state" value="reduce_only"/);
    expect(again).toContain('value="Now reduce_only"');
    const opened = await post(path(), { state: 'open', reason: '' }, page('open'));
    expect(opened.headers.get('location')).toBe(done);
  });
});

describe('people', () => {
  it('are removed with a fresh proof, after a confirmation page', async () => {
    const { id, name } = await createUser(database.db);
    await addMember(database.db, orgId, id, 'billing');
    const page = `${base}/people/${id}`;
    expect(await open(page)).toContain(`href="${page}/remove"`);
    expect(await open(page)).not.toContain(`action="${page}/remove"`);
    expect(await open(`${page}/remove`)).toContain(name);
    await expectProof({ path: `/people/${id}/remove`, form: {}, page: `/people/${id}/remove` });
  });

  it('change roles with a fresh proof, and the choice survives it', async () => {
    const { id } = await createUser(database.db);
    await addMember(database.db, orgId, id, 'billing');
    await expectProof({ path: `/people/${id}/role`, form: { role: 'admin' }, page: `/people/${id}` });
  });
});

describe('webhook endpoints', () => {
  it('are created, changed and deleted with a fresh proof, and the form survives it', async () => {
    const id = uuid({ msecs: service.clock.now() });
    const form = {
      format: 'slack',
      url: 'https://example.com/hook',
      livemode: 'false',
      types: 'api_key.created',
    };
    await expectProof({ path: '/webhooks/new', form: { ...form, id }, page: '/webhooks/new' });
    const [edit, remove] = [`/webhooks/${id}/edit`, `/webhooks/${id}/delete`];
    await expectProof({ path: edit, form: { ...form, livemode: 'true' }, page: edit });
    await expectProof({ path: remove, form: {}, page: remove });
  });
});

describe('usage', () => {
  it('is corrected only with a fresh proof', async () => {
    const { db, clock } = service.context;
    const product = await createProduct(db);
    await grant(db, orgId, product.id);
    const { secret } = await createKey(db, orgId);
    const event = { ...usageEvent(product.slug, 'of acme'), occurredAt: new Date(clock.now()).toISOString() };
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
    const form = { quantity: '2.5', reason: 'Too many', correctionKey: uuid() };
    await expectProof({
      path: '/usage?event=of+acme',
      form: { ...form, step: 'save' },
      page: '/usage?event=of+acme&correct=amend',
    });
  });
});

describe('credits', () => {
  const credits = '/credits';
  const grantForm = { mode: 'live', amount: '12.5', priority: '50', grantKey: 'order-1', reason: 'Invoice' };
  const save = (form: Form) => ({ ...form, step: 'save' });

  it('are granted and voided only with a fresh proof, and what was typed survives it', async () => {
    const page = `${base}${credits}/grant`;
    const before = await readChanges();
    expect(await sendLate(page, save(grantForm), page)).toBe(`/confirm?next=${encodeURIComponent(page)}`);
    expect(await readChanges()).toEqual(before);
    const again = await confirm(page);
    for (const value of ['12.5', 'order-1', 'Invoice']) expect(again).toContain(`value="${value}"`);
    await set(`${credits}/grant`, save(grantForm));
    await expectProof({
      path: `${credits}/void`,
      form: { grant: 'order-1', mode: 'live', reason: 'Mistake' },
      page: `${credits}/void?grant=order-1&mode=live`,
    });
  });

  it('have overdrafts that are forgiven only with a fresh proof', async () => {
    const { db } = service.context;
    const product = await createProduct(db);
    await db.orm
      .update(products)
      .set({ creditPrice: '1', creditEnforcement: 'warn' })
      .where(eq(products.id, product.id));
    await grant(db, orgId, product.id);
    const { secret } = await createKey(db, orgId);
    expect(
      (await sendUsage(service.url, secret, [usageEvent(product.slug, 'owed', { quantity: 2 })])).status,
    ).toBe(202);
    await expectProof({
      path: `${credits}/forgive`,
      form: { product: product.slug, mode: 'live', reason: 'Outage' },
      page: `${credits}/forgive?product=${product.slug}&mode=live`,
    });
  });

  it('have prices that change only with a fresh proof', async () => {
    const { slug } = await createProduct(service.context.db);
    const page = `/console/products/${slug}/price`;
    const form = { price: '0.25', enforcement: 'block' };
    expect(await sendLate(page, save(form), page)).toBe(`/confirm?next=${encodeURIComponent(page)}`);
    expect(await confirm(page)).toContain('value="0.25"');
  });
});

describe('the requirements for a customer', () => {
  const change = (form: Form) => ({ path: '/settings', form: { name: 'Acme', ...form }, page: '/settings' });
  const late = (form: Form) => sendLate(`${base}/settings`, { name: 'Acme', ...form }, `${base}/settings`);

  it('can be tightened at once', async () => {
    expect(await late({ requireSecondFactor: 'yes', marketAccess: 'read' })).toBe(
      `${base}/settings?done=saved`,
    );
  });

  it('can be loosened only with a fresh proof: the second factor and the access to markets', async () => {
    await set('/settings', { name: 'Acme', requireSecondFactor: 'yes', marketAccess: 'none' });
    await expectProof(change({ requireSecondFactor: 'yes', marketAccess: 'read' }));
    expect(await late({ marketAccess: 'read' })).toContain('/confirm?');
    // A check box that was cleared is still cleared.
    expect(await confirm(`${base}/settings`)).not.toMatch(/name="requireSecondFactor"[^>]* checked/);
    await set('/settings', { name: 'Acme', marketAccess: 'read' });
  });

  it('include who pays: setting, changing and removing the Stripe customer needs a fresh proof', async () => {
    await expectProof(change({ stripeCustomerId: 'cus_one' }));
    await expectProof(change({ stripeCustomerId: 'cus_two' }));
    expect(await late({ stripeCustomerId: 'cus_two' })).toBe(`${base}/settings?done=saved`);
    await expectProof(change({ stripeCustomerId: '' }));
  });

  it('include the right to correct usage, which is withdrawn at once', async () => {
    expect(await late({})).toBe(`${base}/settings?done=saved`);
    await expectProof(change({ mayCorrect: 'yes' }));
    expect(await late({})).toBe(`${base}/settings?done=saved`);
    expect(await open(`${base}/audit-log`)).toContain('topped it from correcting its usage');
  });
});
