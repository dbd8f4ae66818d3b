import { v7 as uuid } from 'uuid';
import { beforeAll, expect, it } from 'vitest';
import { textOf } from '../accounts/api-keys/html.js';
import { createOrganization } from '../support/fixtures.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { useService } from '../support/use.js';
import { auditOf } from '../support/audit.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

type Form = Record<string, string>;
const html = { accept: 'text/html' };
const open = (path: string, browser = operator.browser) => browser.get(path, html);
const post = (path: string, form: Form = {}, browser = operator.browser) =>
  browser.send('POST', path, { form, headers: html });

const url = 'https://hooks.example.com/?a=<b>';
const fields = { format: 'standard', url, livemode: 'true', types: 'api_key.created' };
const newFields = () => ({ ...fields, id: uuid({ msecs: service.clock.now() }) });

/** Creates a customer with one endpoint. */
async function customer() {
  const { id: orgId, slug } = await createOrganization(database.db);
  const list = `/console/customers/${slug}/webhooks`;
  const form = newFields();
  const created = await post(`${list}/new`, form);
  expect(created.status).toBe(201);
  return { orgId, slug, list, form, created, own: `${list}/${form.id}` };
}

const readChanges = (orgId: string) => auditOf(database.db, orgId);

it('an operator creates, changes and deletes an endpoint, and the audit log names them', async () => {
  const { orgId, slug, list, own } = await customer();
  expect((await open(list)).text).toContain('?a=&lt;b&gt;');
  const edit = (await open(`${own}/edit`)).text;
  expect(edit).toMatch(/value="api_key.created"\s+checked/);
  expect(edit).toMatch(/name="isEnabled"\s+value="true"\s+checked/);
  const changed = await post(`${own}/edit`, { ...fields, allTypes: 'true' });
  expect([changed.status, changed.headers.get('location')]).toEqual([303, `${own}?done=saved`]);
  expect(textOf(await open(own))).toMatch(
    /State Disabled Live Format Signed JSON Event types All current types \(\d+\)/,
  );
  expect((await open(`${own}/delete`)).text).toContain(`action="${own}/delete"`);
  const deleted = await post(`${own}/delete`);
  expect([deleted.status, deleted.headers.get('location')]).toEqual([303, `${list}?done=deleted`]);
  expect((await open(own)).status).toBe(404);
  const rows = await readChanges(orgId);
  expect(rows.map(({ action, actor }) => [action, actor])).toEqual(
    ['created', 'updated', 'deleted'].map((word) => [`webhook.${word}`, `operator:${operator.email}`]),
  );
  const log = (await open(`/console/customers/${slug}/audit-log`)).text;
  expect([log.includes(operator.email), log.includes('<b>')]).toEqual([true, false]);
});

it('the form says which types are included and how a URL begins', async () => {
  const { list } = await customer();
  const refused = await post(`${list}/new`, { ...newFields(), url: 'http://example.com' });
  expect(textOf(refused)).toContain('Must begin with “https://” or be http://localhost.');
  expect(textOf(refused)).toMatch(
    /All current event types \(\d+\): Types that Gauge adds later are not included\./,
  );
});

it('a secret is shown once, and a form sent twice creates one endpoint', async () => {
  const { orgId, list, form, created, own } = await customer();
  const secret = /whsec_[\w+/]{43}=/.exec(textOf(created))![0];
  expect(created.headers.get('cache-control')).toBe('no-store, no-transform');
  const again = await post(`${list}/new`, form);
  expect([again.status, again.headers.get('location')]).toEqual([303, `${own}?done=exists`]);
  expect(await readChanges(orgId)).toHaveLength(1);
  for (const path of [list, own, `${own}/edit`, `${own}/delete`]) {
    const { status, text } = await open(path);
    expect([path, status, text.includes(secret)]).toEqual([path, 200, false]);
  }
});

it('the URL of a chat is masked, and an unchanged form keeps it', async () => {
  const { orgId, list } = await customer();
  const chat = { ...newFields(), format: 'slack', url: 'https://hooks.slack.example/services/T0ACME/x4bXyZ' };
  const created = await post(`${list}/new`, chat);
  const own = `${list}/${chat.id}`;
  expect([created.status, created.headers.get('location')]).toEqual([303, `${own}?done=created`]);
  const { text } = await open(`${own}/edit`);
  expect([text.includes('T0ACME'), (await open(list)).text.includes('T0ACME')]).toEqual([false, false]);
  const shown = 'https://hooks.slack.example/…bXyZ';
  expect(text).toContain(`value="${shown}"`);
  const before = await readChanges(orgId);
  expect((await post(`${own}/edit`, { ...chat, url: shown, isEnabled: 'true' })).status).toBe(303);
  expect(await readChanges(orgId)).toEqual(before);
});

it('an endpoint is found only in its own Organization', async () => {
  const one = await customer();
  const other = await customer();
  const before = await readChanges(one.orgId);
  for (const id of [one.form.id, uuid(), 'x', '%01', "'"]) {
    const path = `${other.list}/${id}`;
    const answers = [
      await open(path),
      await open(`${path}/edit`),
      await open(`${path}/delete`),
      await post(`${path}/edit`, fields),
      await post(`${path}/delete`),
    ];
    expect([id, answers.map(({ status }) => status)]).toEqual([id, [404, 404, 404, 404, 404]]);
  }
  expect(await readChanges(one.orgId)).toEqual(before);
});

it('wrong input is refused beside its field and stays in the form', async () => {
  const { orgId, list, own } = await customer();
  const wrong: [name: string, value: string, label: string][] = [
    ['url', 'http://user:word@example.com/', 'URL'],
    ['url', 'javascript:alert(1)', 'URL'],
    ['url', '"><script>alert(1)</script>', 'URL'],
    ['url', `https://example.com/${'x'.repeat(2_000)}`, 'URL'],
    ['livemode', 'maybe', 'Mode'],
    ['types', '<i>', 'Event types'],
    ['types', '', 'Event types'],
    ['format', '__proto__', 'Format'],
  ];
  const before = await readChanges(orgId);
  for (const path of [`${list}/new`, `${own}/edit`])
    for (const [name, value, label] of wrong) {
      const answer = await post(path, { ...newFields(), [name]: value });
      expect([name, value, answer.status]).toEqual([name, value, 400]);
      expect(textOf(answer)).toContain(`${label}: `);
      expect(answer.text).not.toMatch(/<script>alert|<i>/);
      if (name !== 'url') expect(answer.text).toContain('value="https://hooks.example.com/?a=&lt;b&gt;"');
    }
  const old = await post(`${list}/new`, { ...fields, id: 'not an id' });
  expect([old.status, textOf(old).includes('expired and was renewed')]).toEqual([400, true]);
  expect(await readChanges(orgId)).toEqual(before);
});

it('an operator sees how deliveries went, without their contents, and sends a test message', async () => {
  const { orgId, own } = await customer();
  expect(textOf(await open(own))).toContain('No deliveries in the last 30 days.');
  const sent = await post(`${own}/test`);
  expect([sent.status, sent.headers.get('location')]).toEqual([303, `${own}?done=tested`]);
  const page = await open(own);
  expect(textOf(page)).toMatch(/Latest deliveries .*webhook\.test/);
  expect((await open(`${own}?done=tested`)).text).toMatch(/data-tone="info"[^]*The test message is queued/);
  expect(page.text).not.toContain('/deliveries/');
  expect((await readChanges(orgId)).at(-1)?.actor).toBe(`operator:${operator.email}`);
  await post(`${own}/edit`, fields);
  expect((await post(`${own}/test`)).status).toBe(400);
});

it('the form of an endpoint reports a refused URL together with missing types', async () => {
  const { list } = await customer();
  const form = { ...newFields(), types: '', url: 'http://hooks.example.com' };
  const refused = await post(`${list}/new`, form);
  expect(refused.status).toBe(400);
  expect(textOf(refused)).toMatch(
    /URL: Must begin with “https:\/\/” or be http:\/\/localhost\. Event types: Must have at least one type/,
  );
});
