import { afterEach, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { hostileTexts } from '../support/hostile-texts.js';
import { startReceiver, verifyBySpecification, chat } from '../support/webhooks.js';
import { createDispatcher } from '../../src/accounts/webhooks/dispatcher.js';
import { countInjected, findAllBarriers } from './barriers.js';
import { follow, readMain } from './steps.js';

const world = browserWorld();

let stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  stops = [];
});

async function sweep() {
  const dispatcher = createDispatcher(world.service.context, chat);
  await dispatcher.sweep();
  await dispatcher.stop();
}

it.each([{ javaScript: true }, { javaScript: false }])(
  'an endpoint is created, tested, resent to, rotated, disabled and deleted (scripts: $javaScript)',
  async ({ javaScript }) => {
    const answer = hostileTexts.join(' ');
    let status = 503;
    const receiver = await startReceiver((_req, res) => void res.writeHead(status).end(answer));
    stops.push(receiver.stop);
    const { browser } = await signedIn(world.db, world.service.url);
    const page = await world.visit({ javaScript, as: browser });
    await page.goto('/dashboard');
    await follow(page, 'Webhooks');
    await page.getByRole('link', { name: 'Create the first endpoint' }).click();
    await page.getByLabel('URL').fill('https://10.0.0.1/');
    await page.getByRole('radio', { name: 'Only these types' }).check();
    await page.getByRole('checkbox', { name: /api_key\.created/ }).check();
    await page.getByRole('button', { name: 'Create endpoint' }).click();
    await page.getByText('Must not be a private or reserved address.').first().waitFor();
    expect(await page.getByRole('checkbox', { name: /api_key\.created/ }).isChecked()).toBe(true);
    await page.getByRole('radio', { name: /^All current event types/ }).check();
    expect(await page.getByRole('checkbox', { name: /api_key\.created/ }).isVisible()).toBe(false);
    await page.getByLabel('URL').fill(receiver.url);
    await page.getByRole('button', { name: 'Create endpoint' }).click();
    const secret = await page.locator('#secret').innerText();
    expect(secret).toMatch(/^whsec_/);
    await page.getByRole('link', { name: 'I have stored it: view the endpoint' }).click();
    expect(await page.content()).not.toContain(secret);

    await page.getByRole('button', { name: 'Send a test message' }).click();
    await page.getByText('waiting for its first attempt').waitFor();
    await page.evaluate(`document.body.dataset.same = 'yes'`);
    await sweep();
    expect(verifyBySpecification(secret, receiver.received[0]!, Date.now())).toMatchObject({
      type: 'webhook.test',
    });
    // With JavaScript, the result appears without a reload.
    if (!javaScript) await page.getByRole('link', { name: 'Check again' }).click();
    await page.getByText('The receiver responded with 503').waitFor();
    expect(await page.locator('body[data-same]').count()).toBe(javaScript ? 1 : 0);
    const endpoint = await readMain(page);
    expect(endpoint).toContain('The test message failed.');
    // A test message says nothing about the health of the endpoint.
    expect(endpoint).not.toContain('Failing');
    expect(endpoint).toMatch(/webhook\.test Will be retried 1 503/);
    await page.getByRole('link', { name: 'webhook.test' }).click();
    expect(await readMain(page)).toContain('<script>alert(1)</script>');
    expect(await countInjected(page)).toBe(0);
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);

    status = 200;
    await page.getByRole('button', { name: 'Resend' }).click();
    await page.getByText('The delivery is being resent').waitFor();
    await sweep();
    await page.reload();
    expect(await readMain(page)).toContain('Delivered');
    await page.getByRole('link', { name: receiver.url }).click();

    await page.getByRole('link', { name: 'Rotate secret' }).click();
    await page.getByRole('button', { name: 'Rotate secret' }).click();
    expect(await page.locator('#secret').innerText()).not.toBe(secret);
    await page.getByRole('link', { name: 'I have stored it: view the endpoint' }).click();
    expect(await readMain(page)).toContain('Old secret valid until');

    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByRole('checkbox', { name: /^Enabled/ }).uncheck();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The endpoint is saved.').waitFor();
    expect(await readMain(page)).toContain('Disabled');
    expect(await page.getByRole('button', { name: 'Send a test message' }).count()).toBe(0);

    await page.getByRole('link', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete endpoint' }).click();
    await page.getByText('The endpoint is deleted.').waitFor();
    await page.getByText('No endpoints yet').waitFor();
  },
);

it('the overview shows a disabled endpoint to those who manage endpoints', async () => {
  const receiver = await startReceiver((_req, res) => void res.writeHead(410).end());
  stops.push(receiver.stop);
  const { browser } = await signedIn(world.db, world.service.url);
  const json = { url: receiver.url, types: ['api_key.created'], livemode: true };
  const { body } = await browser.send('POST', '/dashboard/webhooks', { json });
  await browser.send('POST', `/dashboard/webhooks/${body.webhook.id}/test`);
  await sweep();
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard');
  await page.getByText('no longer receives messages. It responded with 410 Gone').waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('link', { name: receiver.url }).first().click();
  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByRole('checkbox', { name: /^Enabled/ }).check();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.goto('/dashboard');
  expect(await readMain(page)).not.toContain('no longer receives messages');
});
