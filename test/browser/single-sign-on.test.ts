import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { Provider } from 'oidc-provider';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { addMember, createUser } from '../support/accounts.js';
import { browserWorld, PHONE } from '../support/browser.js';
import { createOrganization } from '../support/fixtures.js';
import { findFreePort } from '../support/free-port.js';
import { oidcClient } from '../support/issuer.js';
import { findAllBarriers } from './barriers.js';
import { readMain, signIn, signOut } from './steps.js';

const port = await findFreePort();
const issuer = `http://127.0.0.1:${port}`;
const world = browserWorld({ issuer, env: { OIDC_ISSUER: issuer, OIDC_NAME: 'Test Login', ...oidcClient } });

let server: Server;
beforeAll(async () => {
  const provider = createProvider(`${world.service.url}/login/single-sign-on/callback`);
  const answer = provider.callback();
  server = createServer((req, res) => {
    if (req.url!.startsWith('/interaction/')) void interact(provider, req, res);
    else void answer(req, res);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** Creates an OpenID Connect provider with the certified `oidc-provider` package. Account names are email addresses. */
function createProvider(redirectUri: string): Provider {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return new Provider(issuer, {
    clients: [
      {
        client_id: oidcClient.OIDC_CLIENT_ID,
        client_secret: oidcClient.OIDC_CLIENT_SECRET,
        redirect_uris: [redirectUri],
      },
    ],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: '1', alg: 'RS256', use: 'sig' }] },
    ttl: { AccessToken: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
    cookies: { keys: ['key-of-the-provider'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    findAccount: (_ctx, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: id, email_verified: true, name: 'Sue' }),
    }),
    async loadExistingGrant({ oidc }) {
      const ids = { clientId: oidc.client!.clientId, accountId: oidc.session!.accountId! };
      const grant = new oidc.provider.Grant(ids);
      grant.addOIDCScope('openid email profile');
      await grant.save();
      return grant;
    },
  });
}

async function interact(provider: Provider, req: IncomingMessage, res: ServerResponse): Promise<void> {
  if (req.method === 'POST') {
    const accountId = new URLSearchParams(await text(req)).get('email')!;
    await provider.interactionFinished(req, res, { login: { accountId } });
    return;
  }
  res.setHeader('content-type', 'text/html; charset=utf-8').end(`<!doctype html><html lang="en">
    <head><title>Test Login</title><link rel="icon" href="data:,"></head>
    <body><form method="post"><label>Address <input name="email"></label> <button>Continue</button></form></body></html>`);
}

it('an owner signs in with it, requires it of all members, and must then use it after the password', async () => {
  const user = await createUser(world.db);
  const organization = await createOrganization(world.db);
  await addMember(world.db, organization.id, user.id, 'owner');
  const page = await world.visit();
  await page.goto('/login?next=/dashboard/members');
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('link', { name: 'Sign in with Test Login' }).click();
  await page.getByLabel('Address').fill(user.email);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL(`${world.service.url}/dashboard/members`);

  await page.getByRole('link', { name: 'Require single sign-on' }).click();
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Require single sign-on' }).click();
  await page.waitForURL('**/dashboard/members?done=sso-required');
  expect(await findAllBarriers(page)).toEqual([]);

  await signOut(page);
  await signIn(page, user.email);
  await page.waitForURL('**/dashboard/account/single-sign-on?next=%2Fdashboard');
  expect(await readMain(page)).toContain(
    `${organization.name} requires single sign-on. Sign in to continue.`,
  );
  expect(await findAllBarriers(page)).toEqual([]);
  await page.setViewportSize(PHONE);
  expect(await findAllBarriers(page)).toEqual([]);
  // The person is still signed in at the issuer.
  await page.getByRole('link', { name: 'Sign in with Test Login' }).click();
  await page.waitForURL(`${world.service.url}/dashboard`);
});

it('signing in again replaces the password as confirmation', async () => {
  const user = await createUser(world.db);
  const page = await world.visit();
  const signInThere = async () => {
    await page.getByLabel('Address').fill(user.email);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForURL('**/dashboard/account/second-factor');
  };
  await page.goto('/login/single-sign-on?next=/dashboard/account/second-factor');
  await signInThere();
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('link', { name: 'Sign in with Test Login again' }).click();
  await signInThere();
  expect(await readMain(page)).toContain('You have just confirmed that it’s you');
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.waitForURL('**/second-factor/setup');
});

it('works without JavaScript, and says if the person has no account', async () => {
  const page = await world.visit({ javaScript: false, viewport: PHONE, scheme: 'dark' });
  await page.goto('/login/single-sign-on');
  await page.getByLabel('Address').fill('nobody@example.com');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('you have no account here').waitFor();
  expect(await readMain(page)).toContain('Sign in with Test Login');
});
