import { afterAll, beforeAll, expect, it } from 'vitest';
import { answerPasswordRequests } from '../../src/accounts/identity/account/reset.js';
import { createMailSender } from '../../src/accounts/mail/sender.js';
import { PASSWORD, signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { mailEnv, startMailServer, type MailServer } from '../support/mail.js';
import { findAllBarriers } from './barriers.js';
import { signIn } from './steps.js';

const env: Record<string, string> = {};
let server: MailServer;
// Runs before the service starts, because the service is configured to use this mail server.
beforeAll(async () => {
  server = await startMailServer();
  Object.assign(env, mailEnv(server.port));
});
const world = browserWorld({ env });
afterAll(() => server.stop());

it.each([{ javaScript: true }, { javaScript: false }])(
  'a forgotten password is replaced through a mailed link; with scripts: $javaScript',
  async ({ javaScript }) => {
    const { user } = await signedIn(world.db, world.service.url);
    const page = await world.visit({ javaScript });
    await page.goto('/login');
    await page.getByRole('link', { name: 'Forgot your password?' }).click();
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    await page.getByLabel('E-mail address').fill(user.email);
    await page.getByRole('button', { name: 'Send link' }).click();
    await page.getByRole('status').getByText('a link is on its way').waitFor();

    await answerPasswordRequests(world.service.context);
    await createMailSender(world.service.context)();
    const mail = server.received.find(({ recipients }) => recipients.includes(user.email));
    const link = /https:\S+\/reset#\S+/.exec(mail!.text!)![0];
    if (javaScript) await page.goto(`/reset${new URL(link).hash}`);
    else {
      await page.goto('/reset');
      await page.getByLabel('Link').fill(link);
      await page.getByRole('button', { name: 'Open link' }).click();
    }
    const phrase = 'four unrelated words here';
    await page.getByLabel('New password', { exact: true }).fill(phrase);
    await page.getByLabel('Repeat the new password').fill(phrase);
    await page.getByRole('button', { name: 'Change password' }).click();
    await page.waitForURL('**/dashboard');

    const elsewhere = await world.visit({ javaScript });
    await signIn(elsewhere, user.email, PASSWORD);
    await elsewhere.getByRole('alert').waitFor();
    await signIn(elsewhere, user.email, phrase);
    await elsewhere.waitForURL('**/dashboard');
  },
);

it('an owner turns off e-mails about caps and keys', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/account');
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('button', { name: /^Turn off/ }).click();
  await page.getByRole('status').getByText('Your choice is saved').waitFor();
  await page.getByRole('button', { name: /^Turn on/ }).waitFor();
});
