import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { creditGrants } from '../../../src/metering/credits/table.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { hostileTexts } from '../../support/hostile-texts.js';
import { operatorClient } from '../../support/operator.js';
import { signedInOperator, type TestOperator } from '../../support/operators.js';
import { useService } from '../../support/use.js';
import { addGrant, burnCredits } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const DAY_MS = 86_400_000;
type Form = Record<string, string | string[]>;

const unescape = (text: string) =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
const api = operatorClient(() => service);

/** Returns a page's text without markup, with whitespace collapsed. */
const readText = (page: string) =>
  unescape(page.split('<main')[1]!.replaceAll(/<[^>]*>/g, ' ')).replaceAll(/\s+/g, ' ');

/** Creates a customer with a product that costs one credit a call. */
async function scene() {
  const { db } = database;
  const organization = await createOrganization(db);
  const product = await createProduct(db, { name: 'Tokens' });
  await db.orm
    .update(products)
    .set({ creditPrice: '1', creditEnforcement: 'block' })
    .where(eq(products.id, product.id));
  await grant(db, organization.id, product.id);
  const { secret } = await createKey(db, organization.id);
  const base = `/console/customers/${organization.slug}/credits`;
  const post = (path: string, form: Form) =>
    operator.browser.send('POST', base + path, { form: form as Record<string, string>, headers: html });
  let events = 0;
  return {
    orgId: organization.id,
    base,
    product,
    post,
    /** Submits the preview's form, as its button does. */
    give: async (form: Form) => {
      const { text } = await post('/grant', form);
      const fields = [...text.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)];
      const values = fields.map(([, name, value]) => [name!, unescape(value!)] as const);
      return post('/grant', { ...Object.fromEntries(values), step: 'save' });
    },
    open: async (path = '') => readText((await operator.browser.get(base + path, html)).text),
    burn: async (quantity: number) =>
      expect(
        (await sendUsage(service.url, secret, [usageEvent(product.slug, `e${events++}`, { quantity })]))
          .status,
      ).toBe(202),
    correct: async (idempotencyKey: string, quantity: number) => {
      const correction = {
        idempotencyKey,
        quantity,
        reason: 'Wrong',
        correctionKey: `${idempotencyKey} once`,
      };
      const path = `/organizations/${organization.slug}/usage/corrections`;
      expect((await api('POST', path, { corrections: [correction] })).status).toBe(200);
    },
    grants: () => db.orm.select().from(creditGrants).where(eq(creditGrants.orgId, organization.id)),
    audit: async () =>
      (await auditOf(db, organization.id))
        .filter(({ action }) => action.startsWith('credits.'))
        .map(({ action, target, actor }) => ({ action, target, actor })),
  };
}

const form = { mode: 'live', amount: '1,000.5', priority: '50', grantKey: 'order-1', reason: 'Invoice 1' };

it.each(['void', 'forgive'])('%s without a grant or a product returns to the credits', async (path) => {
  const { base } = await scene();
  const { status, headers } = await operator.browser.get(`${base}/${path}?mode=test`, html);
  expect([status, headers.get('location')]).toEqual([303, `${base}?mode=test`]);
});

describe('a grant', () => {
  it('is granted after a preview of what it will do', async () => {
    const { post, give, grants, open, burn, product, audit } = await scene();
    await burn(25);
    const day = new Date(service.clock.now() + 30 * DAY_MS).toISOString().slice(0, 10);
    const typed = { ...form, expiresAt: `${day}T10:20`, percent: '50', days: '30', products: product.slug };
    const page = readText((await post('/grant', typed)).text);
    expect(page).toContain('Nothing has changed yet.');
    expect(page).toContain('Grant 1,000.5 live credits Balance −25 → 975.5 at once');
    expect(page).toContain('11:00 UTC');
    expect(page).toContain('50% of what is left rolls over for 30 days');
    expect(page).toContain('Burns First Priority 50');
    expect(page).toContain(`It pays 25 of ${product.slug} at once.`);
    expect((await post('/grant', { ...typed, step: 'edit' })).text).toMatch(/value="1,000\.5"[\s\S]*checked/);
    expect(await grants()).toEqual([]);
    const { status, headers } = await give(typed);
    expect([status, headers.get('location')]).toEqual([
      303,
      expect.stringMatching(/\/credits\?done=granted$/),
    ]);
    expect(await grants()).toMatchObject([
      {
        grantKey: 'order-1',
        amount: '1000.5',
        livemode: true,
        priority: 50,
        rolloverPercent: 50,
        rolloverDays: 30,
        productIds: [product.id],
        expiresAt: new Date(`${day}T11:00Z`),
        reason: 'Invoice 1',
      },
    ]);
    expect(await open()).toMatch(/Balance 975\.50 live credits/);
    expect(await audit()).toMatchObject([
      { action: 'credits.granted', target: 'order-1', actor: `operator:${operator.email}` },
    ]);
  });

  it('says when the credits run out without and with it, and how many would expire unused', async () => {
    const { orgId, post, product } = await scene();
    const nowMs = service.clock.now();
    const id = { orgId, livemode: true };
    await addGrant(database.db, orgId, { amount: '200' }, new Date(nowMs - 20 * DAY_MS));
    for (const days of [9, 1])
      await burnCredits(database.db, id, '70', new Date(nowMs - days * DAY_MS), product.id);
    const expiresAt = `${new Date(nowMs + 4 * DAY_MS).toISOString().slice(0, 10)} 00:00`;
    const page = readText((await post('/grant', { ...form, amount: '100', expiresAt })).text);
    // 10 a day: 6 days without it; it burns first, for at most 4.
    expect(page).toMatch(
      /Credits run out (\d+ \w+ \d{4}) → (?!\1)\d+ \w+ \d{4} At the pace of the last 7 days\. About 6\d would expire unused\./,
    );
    const startsAt = `${new Date(nowMs + 40 * DAY_MS).toISOString().slice(0, 10)} 00:00`;
    const later = readText((await post('/grant', { ...form, startsAt })).text);
    expect(later).toMatch(/Credits run out \d+ \w+ \d{4} \(unchanged\) At the pace/);
  });

  it('is granted and counted once, even if its button is pressed twice', async () => {
    const { give, grants } = await scene();
    const readGranted = async () => {
      const { values } = await service.context.metrics.creditsGranted.get();
      return values.find(({ labels }) => labels.mode === 'live')!.value;
    };
    const before = await readGranted();
    expect((await give(form)).status).toBe(303);
    expect((await give({ ...form, step: 'save' })).status).toBe(400);
    const again = { ...form, step: 'save' };
    const { post } = await scene();
    expect([(await post('/grant', again)).status, (await post('/grant', again)).status]).toEqual([303, 303]);
    expect((await post('/grant', { ...again, amount: '2' })).status).toBe(409);
    expect(await grants()).toHaveLength(1);
    expect((await readGranted()) - before).toBe(2 * 1000.5);
  });

  it('is listed among the others by priority, then end', async () => {
    const { give, post } = await scene();
    await give({ ...form, grantKey: 'first', priority: '10' });
    await give({ ...form, grantKey: 'never ends' });
    const soon = { ...form, expiresAt: '2126-01-01T00:00' };
    expect(readText((await post('/grant', soon)).text)).toContain('Burns After Invoice 1 Priority 50');
    const last = readText(
      (await post('/grant', { ...form, priority: '60', startsAt: '2126-01-01 00:00' })).text,
    );
    expect(last).toContain('Burns After Invoice 1 , Invoice 1 Priority 60');
    await give({
      ...form,
      grantKey: 'later',
      priority: '5',
      startsAt: '2125-01-01 00:00',
      reason: 'January',
    });
    const first = readText((await post('/grant', { ...form, priority: '6' })).text);
    expect(first).toMatch(/Burns First, until January begins on 1 Jan 2125/);
    expect(last).toMatch(/Balance 2,001 → 2,001 until it begins/);
  });

  it('is for test credits if that is chosen', async () => {
    const { give, open } = await scene();
    await give({ ...form, mode: 'test' });
    expect(await open('?mode=test')).toContain('Balance 1,000.50 test credits');
    expect(await open()).toContain('Balance 0 live credits');
  });

  it.each([
    [{ amount: '' }, 'amount', 'Required.'],
    [{ amount: '0' }, 'amount', 'Must be above 0.'],
    [{ amount: '0.1234567890123' }, 'amount', 'Must have at most 12 decimal places.'],
    [{ startsAt: '2020-01-01T00:00' }, 'startsAt', 'Must not be before now'],
    [{ expiresAt: '1 Jan 2020' }, 'expiresAt', 'Must not be in the past.'],
    [{ expiresAt: 'tomorrow' }, 'expiresAt', 'Must be a time, like 29 Nov 2026 12:00.'],
    [{ percent: '50' }, 'days', 'Required for a rollover.'],
    [
      { percent: '101', days: '3', expiresAt: '2126-01-01T00:00' },
      'percent',
      'Must be a whole number from 1 to 100.',
    ],
    [
      { percent: '50', days: '367', expiresAt: '2126-01-01T00:00' },
      'days',
      'Must be a whole number from 1 to 366.',
    ],
    [{ percent: '50', days: '3' }, 'expiresAt', 'Required for a rollover.'],
    [{ priority: '101' }, 'priority', 'Must be a whole number from 0 to 100.'],
    [{ reason: '' }, 'reason', 'Required.'],
    [{ reason: 'x'.repeat(201) }, 'reason', 'Must be 1 to 200 characters'],
    [{ grantKey: '' }, 'grantKey', 'Required.'],
    [{ grantKey: 'x'.repeat(129) }, 'grantKey', 'Must be 1 to 128 characters'],
  ])('with %o is refused beside its field, and what was typed stays', async (wrong, name, message) => {
    const { post, grants } = await scene();
    const { status, text } = await post('/grant', { ...form, ...wrong });
    expect(status).toBe(400);
    expect(text).toContain(`id="field-${name}-error">${message}`);
    if (name !== 'reason') expect(text).toContain('value="Invoice 1"');
    expect(await grants()).toEqual([]);
  });

  it('reports all mistakes at once, with times as the page writes them', async () => {
    const { post } = await scene();
    const times = { startsAt: '2126-12-05T00:00', expiresAt: '2126-12-01T00:00' };
    const { text } = await post('/grant', { ...form, ...times, amount: 'abc', percent: '50' });
    for (const [name, message] of [
      ['amount', 'Must be a number'],
      ['expiresAt', 'Must be later than the start'],
      ['days', 'Required for a rollover'],
    ])
      expect(text).toContain(`id="field-${name}-error">${message}`);
    const past = (await post('/grant', { ...form, startsAt: '1 Jan 2020' })).text;
    expect(past).toMatch(/before now, \d{1,2} \w{3,4} \d{4}, \d\d:\d\d UTC/);
  });

  it('for a product that does not exist is refused', async () => {
    const { post, grants } = await scene();
    expect((await post('/grant', { ...form, products: 'nothing-here', step: 'save' })).status).toBe(422);
    expect(await grants()).toEqual([]);
  });

  it('may have any text as its key and reason', async () => {
    const { give, open } = await scene();
    for (const [i, text] of hostileTexts.entries()) {
      const reason = text.slice(0, 200);
      expect(
        (await give({ ...form, grantKey: text.slice(0, 128), reason, amount: String(i + 1) })).status,
      ).toBe(303);
    }
    const page = (await operator.browser.get((await scene()).base, html)).text;
    expect(page).not.toContain('<script>alert');
    expect(await open()).toContain(hostileTexts[0]!.slice(0, 20));
  });
});

describe('voiding a grant', () => {
  it('says what is forfeited, needs a reason, and happens once', async () => {
    const { give, burn, post, open, audit } = await scene();
    await give(form);
    await burn(0.5);
    const page = await open('/void?grant=order-1');
    expect(page).toContain(
      '1,000 of 1,000.5 live credits are left and will be forfeited. The balance goes from 1,000 to 0 .',
    );
    const startsAt = new Date(service.clock.now() + 5 * DAY_MS).toISOString().slice(0, 16);
    await give({ ...form, grantKey: 'order-2', startsAt });
    expect(await open('/void?grant=order-2')).toMatch(
      /The balance stays 1,000 and does not grow on \d+ \w+ \d{4}/,
    );
    expect((await post('/void', { grant: 'order-1', mode: 'live' })).status).toBe(400);
    const voided = await post('/void', { grant: 'order-1', mode: 'live', reason: 'Entered twice' });
    expect([voided.status, voided.headers.get('location')]).toEqual([
      303,
      expect.stringContaining('done=voided'),
    ]);
    expect(await open()).toMatch(/Balance 0 live credits .*Void Invoice 1 Key order-1 , .*Entered twice/);
    expect(await open('/void?grant=order-1')).toContain('nothing is left to void');
    expect(await audit()).toMatchObject([
      { action: 'credits.granted' },
      { action: 'credits.granted' },
      { action: 'credits.voided', target: 'order-1' },
    ]);
  });

  it('of a spent grant is refused, and of an unknown one as well', async () => {
    const { give, burn, post, base } = await scene();
    await give({ ...form, amount: '1' });
    await burn(2);
    expect((await post('/void', { grant: 'order-1', mode: 'live', reason: 'Late' })).status).toBe(409);
    for (const grant of ['nothing', '<b>', 'x'.repeat(129)])
      expect(
        (await operator.browser.get(`${base}/void?grant=${encodeURIComponent(grant)}`, html)).status,
      ).toBeOneOf([400, 404]);
    // The grant belongs to another customer.
    const other = await scene();
    expect((await other.post('/void', { grant: 'order-1', mode: 'live', reason: 'Mine' })).status).toBe(404);
  });
});

it('forgiving an overdraft says what is forgiven, needs a reason, and leaves an entry', async () => {
  const { burn, post, open, product, audit } = await scene();
  await burn(12.5);
  expect(await open()).toMatch(/Tokens is overdrawn by 12\.5 credits/);
  expect(await open(`/forgive?product=${product.slug}`)).toMatch(
    /12\.5 live credits that usage burned without a grant will be forgiven\. .* goes from −12\.5 to 0 /,
  );
  expect((await post('/forgive', { product: product.slug, mode: 'live' })).status).toBe(400);
  const { status, headers } = await post('/forgive', {
    product: product.slug,
    mode: 'live',
    reason: 'Outage',
  });
  expect([status, headers.get('location')]).toEqual([303, expect.stringContaining('done=forgiven')]);
  expect(await open()).toMatch(/Balance 0 live credits .*Overdraft forgiven \S+ \+12\.5/);
  expect(await open(`/forgive?product=${product.slug}`)).toContain('This product has no overdraft.');
  expect(await audit()).toMatchObject([{ action: 'credits.forgiven', target: product.slug }]);
});

it('the ledger has the customer’s filters, days and file, and leads to the events of a correction', async () => {
  const { base, burn, give, open, product, correct } = await scene();
  await give({ ...form, amount: '2' });
  await burn(0.75);
  service.clock.advance(2_000);
  await burn(1.25);
  const day = new Date(service.clock.now()).toISOString().slice(0, 10);
  const chosen = `?product=${product.slug}&from=${day}&to=${day}`;
  expect(await open()).toMatch(
    /Days \(UTC\) .* 0 0 2 entries Burned Tokens Invoice 1 −2 \S+ Granted Invoice 1 \+2/,
  );
  expect(await open(`?from=${day}&to=${day}`)).toMatch(
    /Burned Tokens Invoice 1 −1\.25 0 .*Burned Tokens Invoice 1 −0\.75 1\.25 .*Granted Invoice 1 \+2/,
  );
  const { text } = await operator.browser.get(base + chosen, html);
  expect(readText(text)).toMatch(/Burned Tokens Invoice 1 −1\.25 .*−0\.75/);
  expect(unescape(text)).toContain(`${base.replace('credits', 'usage')}?product=${product.slug}&from=${day}`);
  expect(await open('?product=other')).toContain('No entries match.');
  expect((await operator.browser.get(`${base}?from=${day}&to=2020-01-01`, html)).status).toBe(400);
  const file = (await operator.browser.get(`${base}.csv${chosen}`)).text.trim().split(/\r?\n/);
  expect(file).toHaveLength(3);
  expect(file[0]).toMatch(/^\W?at,hour,kind,product,grant_key,amount,mode$/);
  const corrected = async () => {
    const page = unescape((await operator.browser.get(base + chosen, html)).text);
    return [...page.matchAll(/<a href="([^"]*)">(?:(?!<\/tr>).)*>Corrected</gs)].map(([, href]) => href);
  };
  const place = `${base.replace('credits', 'usage')}?product=${product.slug}&from=${day}&to=${day}`;
  await correct('e1', 1);
  expect(await corrected()).toEqual([`${place}&event=e1&mode=live`]);
});
