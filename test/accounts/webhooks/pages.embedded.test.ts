import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { afterEach, expect, it } from 'vitest';
import { createDispatcher } from '../../../src/accounts/webhooks/dispatcher.js';
import { webhookAttempts, webhookDeliveries } from '../../../src/accounts/webhooks/table.js';
import { signedIn } from '../../support/accounts.js';
import { until } from '../../support/until.js';
import { useService } from '../../support/use.js';
import { startReceiver, chat } from '../../support/webhooks.js';
import { getPage, postForm, textOf } from '../api-keys/html.js';

const { database, service } = useService();

const PATH = '/dashboard/webhooks';

let stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  stops = [];
});

async function arrive() {
  const receiver = await startReceiver((_req, res) => void res.writeHead(204).end());
  stops.push(receiver.stop);
  const { browser } = await signedIn(database.db, service.url);
  const create = (fields: [string, string][]) =>
    postForm(browser, PATH, [
      ['id', uuid({ msecs: service.clock.now() })],
      ['url', receiver.url],
      ['livemode', 'true'],
      ...fields,
    ]);
  const listed = async () => (await browser.get(PATH)).body.webhooks as { id: string; types: string[] }[];
  return { browser, receiver, create, listed };
}

it('an endpoint for all types gets each current type, and its pages say so', async () => {
  const { browser, create, listed } = await arrive();
  expect((await create([['allTypes', 'true']])).status).toBe(201);
  const [endpoint] = await listed();
  expect(endpoint!.types).toContain('api_key.created');
  expect(endpoint!.types.length).toBeGreaterThan(5);
  for (const path of [PATH, `${PATH}/${endpoint!.id}`])
    expect(textOf(await getPage(browser, path))).toMatch(/All current types \(\d+\)/);
  expect(textOf(await getPage(browser, `${PATH}/new`))).toMatch(
    /API key api_key\.created: .* usage usage\.\w+: .* credits credits\.\w+: /,
  );
  expect((await getPage(browser, `${PATH}/${endpoint!.id}/edit`)).text).toMatch(
    /name="allTypes"\s+value="true"\s+checked/,
  );
});

it('before the first endpoint, the page shows all types and a message', async () => {
  const { browser } = await arrive();
  const page = await getPage(browser, PATH);
  expect(textOf(page)).toMatch(
    /Example message .*"timestamp": "2026.* Every endpoint also receives the last 2, .* api_key\.created An API key was created\. /,
  );
  const choice = textOf(await getPage(browser, `${PATH}/new`));
  const count = /All current event types (\(\d+\))/.exec(choice)![1]!;
  expect(textOf(page)).toContain(`Event types ${count} `);
  expect(page.text).toContain('<span class="hl-attr">"type"</span>');
});

it('without a type, the form names the field', async () => {
  const { create, listed } = await arrive();
  const answer = await create([['allTypes', 'no']]);
  expect(answer.status).toBe(400);
  expect(textOf(answer)).toContain('Must have at least one type');
  expect(await listed()).toEqual([]);
});

it('the page after a test message shows its result, and no other message', async () => {
  const { browser, create, listed } = await arrive();
  await create([['types', 'api_key.created']]);
  expect(textOf(await getPage(browser, PATH))).toMatch(/Last delivery Failed, 7 days .* None None sent $/);
  const [endpoint] = await listed();
  const href = `${PATH}/${endpoint!.id}`;
  const dispatcher = createDispatcher(service.context, chat);
  stops.push(() => dispatcher.stop());
  dispatcher.start();
  const answer = await postForm(browser, `${href}/test`, []);
  expect(answer.status).toBe(303);
  const place = answer.headers.get('location')!;
  let page = '';
  await until(async () => {
    page = textOf(await getPage(browser, place));
    return page.includes('Test message delivered.');
  });
  expect(page).toMatch(/The receiver responded with 204 in [\d,]+ ms/);
  expect(textOf(await getPage(browser, PATH))).toContain('Delivered just now 0 of 1');
  for (let i = 0; i < 5; i++) await postForm(browser, `${href}/test`, []);
  await until(async () => textOf(await getPage(browser, href)).split(' 204 ').length > 6);
  await database.db.orm
    .update(webhookAttempts)
    .set({ error: 'The connection was refused.' })
    .where(eq(webhookAttempts.endpointId, endpoint!.id));
  expect(textOf(await getPage(browser, href))).toMatch(
    /Resend failed deliveries .*(?:The connection was refused\. .*){6}Show all 6 with this response/,
  );
  await database.db.orm
    .update(webhookDeliveries)
    .set({ status: 'failed', failures: 8 })
    .where(eq(webhookDeliveries.endpointId, endpoint!.id));
  expect(textOf(await getPage(browser, PATH))).toContain('All 6 100%');

  const stranger = await arrive();
  await stranger.create([['types', 'api_key.created']]);
  const [theirs] = await stranger.listed();
  const tested = new URL(place, service.url).searchParams.get('tested')!;
  for (const id of [tested, 'x', "' or 1=1", uuid()]) {
    const other = await getPage(stranger.browser, `${PATH}/${theirs!.id}?tested=${encodeURIComponent(id)}`);
    expect(other.status).toBe(200);
    expect(textOf(other)).not.toContain('est message delivered');
  }
  expect((await getPage(stranger.browser, place)).status).toBe(404);
});
