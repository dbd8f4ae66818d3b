import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { follow, readMain } from './steps.js';

const world = browserWorld();
const run = promisify(execFile);

/** Creates an owner whose Organization is entitled to a product and has no usage yet. */
async function newcomer() {
  const { browser, organization } = await signedIn(world.db, world.service.url);
  const product = await createProduct(world.db, { unitCap: '1000' });
  await grant(world.db, organization.id, product.id);
  return { browser, organization, product };
}

const callWith = async (secret: string) =>
  (await fetch(`${world.service.url}/api/key`, { headers: { authorization: `Bearer ${secret}` } })).status;

describe.each([{ javaScript: true }, { javaScript: false }])(
  'with scripts: $javaScript',
  ({ javaScript }) => {
    it('the line beside a new key, pasted into a shell, sends the first event, and the pages show it', async () => {
      const { browser, product } = await newcomer();
      const overview = await world.visit({ javaScript, as: browser });
      await overview.goto('/dashboard');
      expect(await readMain(overview)).toContain('Waiting for the first event');

      const page = await world.visit({ javaScript, as: browser });
      await page.goto('/dashboard');
      await page.getByRole('link', { name: 'Create an API key' }).click();
      await page.getByLabel('Name').fill('billing worker, Frankfurt');
      await page.getByRole('button', { name: 'Create key' }).click();
      const secret = await page.locator('#secret').innerText();
      expect(secret).toMatch(/^org_live_[0-9A-Za-z]{32}$/);
      const line = await page.locator('#snippet-curl').innerText();
      const { stdout, stderr } = await run('bash', ['--norc', '-c', line], {
        env: { PATH: process.env.PATH },
      });
      expect([JSON.parse(stdout), stderr]).toEqual([{ accepted: 1, deduped: 0, warnings: [] }, '']);

      // With JavaScript, the overview refreshes itself.
      if (!javaScript) await overview.reload();
      await overview.getByText('Your first event has arrived and is counted.').waitFor();

      await page.getByRole('link', { name: 'I have stored it: view the key' }).click();
      expect(await page.content()).not.toContain(secret);
      await follow(page, 'Usage');
      const usage = await readMain(page);
      expect(usage).toContain(product.name);
      expect(usage).toMatch(/Used 1 call in 1 event Left 999 of 1,000/);
      const key = /"idempotencyKey":\s*"([^"]+)"/.exec(line)![1]!;
      await page.getByLabel('Idempotency key starts with').fill(key);
      await page.getByRole('button', { name: 'Find', exact: true }).click();
      await page.getByText('Recorded once').waitFor();
      expect(await readMain(page)).toMatch(/Recorded once Live .*billing worker, Frankfurt/);
    });

    it('a rotated key works beside the new one until the cut-over is finished', async () => {
      const { browser, organization } = await newcomer();
      const old = await createKey(world.db, organization.id, { name: 'nightly <b>import</b>' });
      const page = await world.visit({ javaScript, as: browser });
      await page.goto('/dashboard/api-keys');
      await page.getByRole('link', { name: 'nightly <b>import</b>' }).first().click();
      await page.getByRole('link', { name: 'Rotate', exact: true }).click();
      await page.getByRole('radio', { name: /^1 day/ }).check();
      await page.getByRole('button', { name: 'Rotate key' }).click();
      const secret = await page.locator('#secret').innerText();
      expect([await callWith(old.secret), await callWith(old.secret), await callWith(secret)]).toEqual([
        200, 200, 200,
      ]);
      await world.service.services.keyUse.flush();

      await page.getByRole('link', { name: 'I have stored it: watch the cut-over' }).click();
      expect(await readMain(page)).toMatch(
        /Grace period left (1 day|23 h \d+ min) .*Calls with the old key 2 .*Calls with the new key 1 /,
      );
      await page.getByRole('link', { name: /^Revoke the old key/ }).click();
      expect(await readMain(page)).toMatch(/Revoke nightly <b>import<\/b>\? .*It is in use: 2 calls/);
      await page.getByRole('button', { name: 'Revoke key' }).click();
      expect(await readMain(page)).toContain('The old key was revoked');
      expect([await callWith(old.secret), await callWith(secret)]).toEqual([401, 200]);
    });

    it('a form with mistakes keeps the input and shows an error beside each field', async () => {
      const { browser } = await newcomer();
      const page = await world.visit({ javaScript, as: browser });
      await page.goto('/dashboard/api-keys/new');
      await page.getByLabel('Name').fill('keeps its name');
      await page.getByRole('radio', { name: /^Test/ }).check();
      const dateField = page.getByLabel('Date and time, in UTC', { exact: true });
      const box = page.getByRole('checkbox', { name: /^entitlements:read/ });
      expect([await box.isVisible(), await dateField.isVisible()]).toEqual([false, false]);
      await page.getByRole('radio', { name: /^Choose scopes/ }).check();
      await page.getByRole('radio', { name: /^At a date/ }).check();
      expect([await box.isVisible(), await dateField.isVisible()]).toEqual([true, true]);
      await page.getByLabel('Date and time, in UTC', { exact: true }).fill('2020-01-31T12:00');
      await page.getByRole('button', { name: 'Create key' }).click();
      expect(await page.getByRole('alert').innerText()).toContain('Please correct these 2 fields:');
      expect(await page.getByLabel('Name').inputValue()).toBe('keeps its name');
      expect(await page.getByRole('radio', { name: /^Test/ }).isChecked()).toBe(true);
      expect(await page.locator('#scopes-error').innerText()).not.toBe('');
      expect(await page.locator('#field-expiresAt-error').innerText()).toContain('future');
      await box.check();
      await dateField.fill('');
      await page.getByRole('radio', { name: 'Never' }).check();
      await page.getByRole('button', { name: 'Create key' }).click();
      expect(await page.locator('#secret').innerText()).toMatch(/^org_test_/);
    });
  },
);

it('a key for paper trading becomes a test key, and boxes of another option are unticked', async () => {
  const { browser } = await newcomer();
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/api-keys/new');
  await page.getByLabel('Name').fill('paper');
  await page.getByRole('radio', { name: /^Choose scopes/ }).check();
  await page.getByRole('checkbox', { name: /^usage:correct/ }).check();
  await page.getByRole('radio', { name: /^Trade on paper/ }).check();
  await page.getByRole('button', { name: 'Create key' }).click();
  expect(await page.locator('#secret').innerText()).toMatch(/^org_test_/);
});

it('the TypeScript beside a new key runs unchanged', async () => {
  const { browser } = await newcomer();
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/api-keys/new');
  await page.getByLabel('Name').fill('a worker');
  await page.getByRole('button', { name: 'Create key' }).click();
  const folder = await mkdtemp(join(tmpdir(), 'gauge-snippet-'));
  try {
    const file = join(folder, 'snippet.mts');
    await writeFile(file, await page.locator('#snippet-typescript').innerText());
    const { stdout } = await run(process.execPath, ['--import', import.meta.resolve('tsx'), file]);
    expect(stdout).toMatch(/accepted: 1/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

it('the copy button copies the secret, and says so', async () => {
  const { browser } = await newcomer();
  const page = await world.visit({ as: browser });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto('/dashboard/api-keys/new');
  await page.getByLabel('Name').fill('a worker');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.locator('button[data-copy="secret"]').click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
    await page.locator('#secret').innerText(),
  );
});
