import { v7 as uuid } from 'uuid';
import { beforeAll, expect, it } from 'vitest';
import { createBackfillRunner } from '../../src/metering/backfills/runner.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let operator: TestOperator;
const api = operatorClient(() => service);
beforeAll(async () => {
  service.clock.set('2026-03-04T00:00:00.000Z');
  operator = await signedInOperator(service);
  const { db } = database;
  const calls = await createProduct(db, { slug: 'calls' });
  for (const slug of ['acme', 'initech']) {
    const { id } = await createOrganization(db, { slug });
    await grant(db, id, calls.id);
    const { secret } = await createKey(db, id);
    const event = { ...usageEvent('calls', `of ${slug}`), quantity: 12.5 };
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  }
});

const html = { accept: 'text/html' };
const page = (path: string) => operator.browser.get(`/console/customers/acme/usage${path}`, html);
const post = (path: string, form: Record<string, string> = {}) =>
  operator.browser.send('POST', `/console/customers/acme/usage${path}`, { headers: html, form });
const totalOf = async (month: string) => {
  const { body } = await api(
    'GET',
    `/usage?from=${month}-01&to=${month}-28&granularity=total&organization=acme`,
  );
  return body.usage.map(({ quantity }: { quantity: number }) => quantity);
};

it('corrects an event by its key, and reports errors beside their fields', async () => {
  const correction = {
    idempotencyKey: 'of acme',
    quantity: '2.5',
    why: 'Counted five times',
    correctionKey: uuid(),
  };
  for (const [field, value, problem] of [
    ['idempotencyKey', 'of initech', 'Not the key of an event of this customer'],
    ['quantity', '-1', 'Correct quantity'],
    ['quantity', '1e30', 'Correct quantity'],
    ['why', '', 'Reason'],
  ] as const) {
    const { status, text } = await post('/corrections', { ...correction, [field]: value });
    expect([field, status]).toEqual([field, 400]);
    expect(text).toContain(`href="#field-${field}"`);
    expect(text).toContain(problem);
  }
  expect(await totalOf('2026-03')).toEqual(['12.5']);
  for (let time = 0; time < 2; time++) {
    const { status, headers } = await post('/corrections', correction);
    expect([status, headers.get('location')]).toEqual([303, '/console/customers/acme/usage?done=corrected']);
  }
  expect(await totalOf('2026-03')).toEqual(['2.5']);
});

it('opens a backfill, shows the staged changes, applies and reverts it', async () => {
  expect((await page('')).text).toContain('No backfills');
  const range = { from: '2026-01-01', to: '2026-02-01', mode: 'live', reason: 'A collector was down' };
  const backwards = await post('/backfills', { ...range, to: '2025-12-01' });
  expect(backwards.status).toBe(400);
  expect(backwards.text).toContain('Must be later than the first day.');
  const opened = await post('/backfills', range);
  const path = /\/usage(\/backfills\/[^?]+)\?done=opened$/.exec(opened.headers.get('location')!)![1]!;
  const open = await page(path);
  expect(open.text).toContain(`npm run send -- FILE --backfill ${path.split('/').at(-1)}`);
  expect(open.text).toContain('No events are staged.');

  const event = { ...usageEvent('calls', 'lost'), quantity: 3, occurredAt: '2026-01-12T08:00:00Z' };
  expect((await api('POST', `/organizations/acme/usage${path}/events`, { events: [event] })).status).toBe(
    202,
  );
  expect((await page(path)).text).toMatch(/January 2026/);
  expect((await page('')).text).toContain('1 event');

  const run = createBackfillRunner({ db: database.db, clock: service.clock });
  const step = async (name: string) => {
    const { headers } = await post(`${path}/${name}`);
    expect(headers.get('location')).toBe(`/console/customers/acme/usage${path}?done=${name}`);
    await run();
    return (await page(path)).text;
  };
  expect(await step('apply')).toContain('Revert backfill');
  expect(await totalOf('2026-01')).toEqual(['3']);
  const discarded = await post(`${path}/discard`);
  expect(discarded.status).toBe(409);
  expect(discarded.text).toContain('cannot be discarded');
  expect(await step('revert')).toContain('Reverted');
  expect(await totalOf('2026-01')).toEqual(['0']);
});

it('shows nothing of another customer', async () => {
  const opened = await operator.browser.send('POST', '/console/customers/initech/usage/backfills', {
    headers: html,
    form: { from: '2026-01-01', to: '2026-02-01', mode: 'live', reason: 'Theirs' },
  });
  const path = /\/usage(\/backfills\/[^?]+)\?/.exec(opened.headers.get('location')!)![1]!;
  expect((await page(path)).status).toBe(404);
  for (const step of ['apply', 'revert', 'discard']) expect((await post(`${path}/${step}`)).status).toBe(404);
  expect((await page('')).text).not.toContain('Theirs');
});
