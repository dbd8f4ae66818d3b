import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { sendUsage } from '../metering/support/usage.js';
import { findAllBarriers } from './barriers.js';
import { readMain } from './steps.js';

const world = browserWorld();
const put = operatorClient(() => world.service);

let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(world.service);
});

/** Creates a customer with a product whose tokens cost credits, at a price that depends on the model. */
async function scene() {
  const { browser, organization } = await signedIn(world.db, world.service.url, 'billing');
  const slug = `tokens-${organization.slug}`;
  const by = { dimension: 'model', prices: { large: 0.015, small: 0.0005 } };
  const credits = { price: 0.002, by, enforcement: 'block' };
  await put('PUT', `/products/${slug}`, {
    name: 'Tokens',
    usageMetric: 'tokens',
    dimensions: ['model'],
    countsSubjects: true,
    credits,
  });
  await put('PUT', `/organizations/${organization.slug}/entitlements/${slug}`, {
    kind: 'live',
    startsAt: '2020-01-01T00:00:00Z',
  });
  const { secret } = await createKey(world.db, organization.id);
  const send = async (quantity: number, model: string, subject: string) => {
    const event = {
      productSlug: slug,
      metric: 'tokens',
      quantity,
      idempotencyKey: `${model} ${subject} ${quantity}`,
      dimensions: { model },
      subject,
    };
    expect((await sendUsage(world.service.url, secret, [event])).status).toBe(202);
  };
  const give = async (key: string, reason = 'Plan') => {
    const body = {
      amount: 1_000,
      expiresAt: '2126-01-01T00:00:00Z',
      rollover: { percent: 50, for: 'P30D' },
      reason,
    };
    expect((await put('PUT', `/organizations/${organization.slug}/credits/grants/${key}`, body)).status).toBe(
      201,
    );
  };
  return { browser, slug, send, give, base: `/console/customers/${organization.slug}/credits` };
}

const type = async (page: Page, label: string, text: string) => {
  await page.getByLabel(label, { exact: true }).focus();
  await page.keyboard.type(text);
};

const scripts = [{ javaScript: true }, { javaScript: false }];

it.each(scripts)(
  'an operator grants credits with the keyboard, after a preview (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { base, send } = await scene();
    await send(2_000, 'large', 'ada');
    const page = await world.visit({ as: operator.browser, javaScript });
    await page.goto(base);
    await page.getByRole('link', { name: 'Grant credits…' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Grant credits' }).waitFor();
    await type(page, 'Amount', '1,000');
    await type(page, 'Reason', 'Invoice 1042');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Check this grant' }).waitFor();
    expect(await readMain(page)).toContain('−30 → 970');
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    await page.getByRole('button', { name: 'Grant 1,000 credits' }).focus();
    await page.keyboard.press('Enter');
    await page.getByText('The credits are granted.').waitFor();
    expect(await readMain(page)).toMatch(/970 of 1,000 left/);
  },
);

it.each(scripts)(
  'an operator voids a grant and forgives an overdraft with the keyboard (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { base, send, give } = await scene();
    await give('order-1');
    const page = await world.visit({ as: operator.browser, javaScript });
    await page.goto(base);
    await page.getByRole('link', { name: /^Void/ }).focus();
    await page.keyboard.press('Enter');
    await type(page, 'Reason', 'Entered twice');
    await page.keyboard.press('Enter');
    await page.getByText('The grant is void.').waitFor();
    await send(100, 'large', 'ben');
    await page.goto(base);
    await page.getByRole('link', { name: /^Forgive/ }).focus();
    await page.keyboard.press('Enter');
    await type(page, 'Reason', 'Outage');
    await page.keyboard.press('Enter');
    await page.getByText('The overdraft is forgiven.').waitFor();
  },
);

it('the customer’s credits page is accessible, and the usage has costs by subject', async () => {
  const { browser, slug, send, give } = await scene();
  await give('order-1');
  await send(2_000, 'large', 'ada');
  await send(100_000, 'large', 'ben');
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/credits');
  expect(await readMain(page)).toMatch(/Balance\s+−530/);
  expect(await findAllBarriers(page)).toEqual([]);
  await page.goto(`/dashboard/usage?product=${slug}`);
  expect(await readMain(page)).toMatch(/ben\s.*1,500/);
});

it.each(scripts)(
  'an operator sets prices by value with the keyboard, after a preview (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { slug } = await scene();
    const page = await world.visit({ as: operator.browser, javaScript });
    await page.goto(`/console/products/${slug}`);
    await page.getByRole('link', { name: 'Change the price…' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Add a value' }).focus();
    await page.keyboard.press('Enter');
    const row = page.getByRole('group', { name: 'Value 3', exact: true });
    await row.getByLabel('Value', { exact: true }).focus();
    await page.keyboard.type('medium');
    await row.getByLabel('Credits', { exact: true }).focus();
    await page.keyboard.type('0.004');
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    await page.getByRole('button', { name: 'Preview' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Check the new price' }).waitFor();
    expect(await readMain(page)).toMatch(/medium\s+0\.004/);
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    await page.getByRole('button', { name: 'Save this price' }).focus();
    await page.keyboard.press('Enter');
    await page.getByText('The price is set.').waitFor();
    expect(await readMain(page)).toMatch(/medium\s+0\.004/);
  },
);

it('the ledger and the page without credits are accessible', async () => {
  const { browser, send, give } = await scene();
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/credits');
  await page.getByText('No live credits yet').waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
  await give('plan');
  await send(50_000, 'small', 'ada');
  await page.goto('/dashboard/credits/ledger');
  await page.getByRole('table', { name: 'Entries' }).waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
  await give('team', 'Team plan: credits, November 2026');
  await page.goto('/dashboard/credits/ledger');
  const name = page.getByText('Team plan: credits, November 2026');
  expect((await name.boundingBox())!.height).toBeLessThan(30);
});
