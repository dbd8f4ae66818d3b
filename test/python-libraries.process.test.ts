import { execFile, spawn } from 'node:child_process';
import { exampleOf } from './support/webhook-examples.js';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { byService, change } from '../src/accounts/audit/audit.js';
import { createDispatcher } from '../src/accounts/webhooks/dispatcher.js';
import { queueWebhook } from '../src/accounts/webhooks/outbox.js';
import { systemClock } from '../src/core/time.js';
import { createTenant, readUsage } from './metering/support/usage.js';
import { Browser, createUser } from './support/accounts.js';
import { createOrganization } from './support/fixtures.js';
import { oidcClient } from './support/issuer.js';
import { hasPython, providePackages } from './support/python.js';
import { use, useService } from './support/use.js';
import { chat, listen, startReceiver } from './support/webhooks.js';

const python = hasPython ? await providePackages('outside-packages.txt') : undefined;

/** @returns what the program prints, as JSON */
async function play(program: string, ...args: string[]): Promise<unknown> {
  const { stdout } = await promisify(execFile)(python!, ['-c', program, ...args]);
  return JSON.parse(stdout);
}

describe.skipIf(python === undefined)('the official library for Python', () => {
  const { database, service } = useService({ context: { clock: systemClock } });
  const receiver = use(
    () => startReceiver(),
    ({ stop }) => stop(),
  );

  it('of Standard Webhooks verifies a message, and refuses it with another secret or body', async () => {
    const { id: orgId } = await createOrganization(database.db);
    const { secret } = await listen(service.context, orgId, { url: receiver.url });
    const { secret: other } = await listen(service.context, orgId, { url: receiver.url, isEnabled: false });
    const data = exampleOf('api_key.created');
    const at = new Date(service.context.clock.now());
    await change(service.context, byService, (tx) =>
      queueWebhook(tx, { orgId, livemode: true, type: 'api_key.created', data, at }),
    );
    const dispatcher = createDispatcher(service.context, chat);
    await dispatcher.sweep();
    await dispatcher.stop();
    const [{ headers, body }] = receiver.received as [(typeof receiver.received)[0]];
    const program = `
import json, sys
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError
secret, other, body, headers = sys.argv[1:4] + [json.loads(sys.argv[4])]
def refuses(secret, body):
    try: Webhook(secret).verify(body, headers)
    except WebhookVerificationError: return True
    return False
print(json.dumps([Webhook(secret).verify(body, headers), refuses(other, body), refuses(secret, body + " ")]))`;
    expect(await play(program, secret, other, body, JSON.stringify(headers))).toEqual([
      { type: 'api_key.created', timestamp: at.toISOString(), data },
      true,
      true,
    ]);
  });

  it('of CloudEvents sends one event and a repeat, which counts once', async () => {
    const { organization, product, key } = await createTenant(database.db);
    const program = `
import json, sys
import requests
from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent
url, key, product = sys.argv[1:4]
event = CloudEvent({"id": "a", "source": "https://gateway.example.com/eu", "type": "calls", "subject": product, "specversion": "1.0"}, {"quantity": 2.5})
message = to_structured_event(event)
send = lambda: requests.post(url, headers={**message.headers, "authorization": f"Bearer {key}"}, data=message.body)
print(json.dumps([[answer.status_code, answer.json()] for answer in (send(), send())]))`;
    const url = `${service.url}/api/usage/events`;
    expect(await play(program, url, key.secret, product.slug)).toEqual([
      [202, { accepted: 1, deduped: 0, warnings: [] }],
      [202, { accepted: 0, deduped: 1, warnings: [] }],
    ]);
    const { events } = await readUsage(database.db, organization.id);
    expect(events.map(({ key, quantity }) => [key, quantity])).toEqual([
      ['https://gateway.example.com/eu/a', '2.5'],
    ]);
  });
});

const EMAIL = 'person@issuer.example';
const issuerProgram = fileURLToPath(new URL('support/issuer.py', import.meta.url));

describe.skipIf(python === undefined)('an issuer of OpenID Connect made with Authlib', () => {
  const issuer = use(
    async () => {
      const args = [issuerProgram, EMAIL, oidcClient.OIDC_CLIENT_ID, oidcClient.OIDC_CLIENT_SECRET];
      const env = { ...process.env, AUTHLIB_INSECURE_TRANSPORT: '1' };
      const child = spawn(python!, args, { env, stdio: ['pipe', 'pipe', 'ignore'] });
      const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
      return { url, child };
    },
    async ({ child }) => {
      const end = once(child, 'close');
      child.stdin.end();
      await end;
    },
  );
  const { database, service } = useService(() => ({
    context: { clock: systemClock },
    env: { OIDC_ISSUER: issuer.url, ...oidcClient },
  }));

  it('signs a person in, whose tokens it signs', async () => {
    const user = await createUser(database.db, { email: EMAIL });
    const browser = new Browser(service.url);
    const begun = await browser.get('/login/single-sign-on?next=/dashboard/account');
    const there = await fetch(begun.headers.get('location')!, { redirect: 'manual' });
    const back = there.headers.get('location')!.replace(browser.url, '');
    const signedIn = await browser.get(back, { accept: 'text/html' });
    expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, '/dashboard/account']);
    expect((await browser.get('/dashboard/account', { accept: 'text/html' })).text).toContain(user.name);
  });
});
