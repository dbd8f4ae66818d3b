import { beforeAll, expect, it } from 'vitest';
import { isEmbedded } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { useOtherConnections, useService, useServiceOn } from '../../support/use.js';

const START = '2026-04-30T12:00:00.000Z';

const { database, service } = useService();
const services = [service];
if (!isEmbedded) {
  const otherConnections = useOtherConnections(database);
  services.push(useServiceOn(() => otherConnections));
}
beforeAll(() => {
  for (const { clock } of services) clock.set(START);
});

const instance = (i: number) => services[i % services.length]!;

it('events of two months that reach thresholds of one week together, on every instance and repeated, are reported once', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  await createListener(db, orgId);
  const { secret } = await createKey(db, orgId);
  const thresholds = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
  const limits = ['calendar_week', 'PT24H'].map((window) => ({
    quantity: '60',
    window,
    enforcement: 'warn' as const,
  }));
  for (const { clock } of services) clock.set('2026-05-01T00:00:30.000Z');
  for (let round = 0; round < (isEmbedded ? 1 : 5); round++) {
    const product = await createProduct(db);
    await grant(db, orgId, product.id, { limits, thresholds });
    const sent = Array.from({ length: 60 }, (_, i) => {
      const occurredAt = i % 2 === 0 ? '2026-04-30T23:59:59.000Z' : '2026-05-01T00:00:01.000Z';
      const events = [usageEvent(product.slug, `${round}-${i}`, { occurredAt })];
      return [0, 1].map((repeat) => sendUsage(instance(i + repeat).url, secret, events));
    });
    for (const { status } of await Promise.all(sent.flat())) expect(status).toBe(202);
    await Promise.all(services.map((service) => service.services.thresholds.evaluateAll()));
    await Promise.all(services.map((service) => service.services.thresholds.drain()));
    const reported = (await readWebhookMessages(db, orgId)).filter(
      ({ data }) => data.productSlug === product.slug,
    );
    const expected = limits.flatMap(({ window }) => thresholds.map((threshold) => `${threshold} ${window}`));
    expect(reported.map(({ data }) => `${data.threshold} ${data.limit.window}`).sort()).toEqual(
      expected.sort(),
    );
  }
});

it('the event that reaches the threshold of an already evaluated window is reported once, whatever evaluates meanwhile', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  await createListener(db, orgId);
  const { secret } = await createKey(db, orgId);
  for (const { clock } of services) clock.set('2026-05-01T00:00:30.000Z');
  const evaluateAll = () => Promise.all(services.map((service) => service.services.thresholds.evaluateAll()));
  for (let round = 0; round < (isEmbedded ? 2 : 10); round++) {
    const product = await createProduct(db);
    const limits = [{ quantity: '60', window: 'PT24H', enforcement: 'warn' as const }];
    await grant(db, orgId, product.id, { limits, thresholds: [100] });
    const send = (i: number) => {
      // Every sixth event is in the previous month, whose total does not affect this month's headroom.
      const occurredAt = i % 6 === 5 ? '2026-04-30T23:59:59.000Z' : '2026-05-01T00:00:01.000Z';
      const events = [usageEvent(product.slug, `quiet-${round}-${i}`, { occurredAt })];
      return [sendUsage(instance(i).url, secret, events), ...(i % 8 === 0 ? [evaluateAll()] : [])];
    };
    await Promise.all(send(0));
    await evaluateAll();
    await Promise.all(Array.from({ length: 59 }, (_, i) => send(i + 1)).flat());
    await evaluateAll();
    await Promise.all(services.map((service) => service.services.thresholds.drain()));
    const reported = (await readWebhookMessages(db, orgId)).filter(
      ({ data }) => data.productSlug === product.slug,
    );
    expect(reported.map(({ data }) => data.threshold)).toEqual([100]);
  }
});

it('refused reservations are reported at most once a minute per limit', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  await createListener(db, orgId);
  const { secret } = await createKey(db, orgId);
  const product = await createProduct(db);
  const block = (quantity: string, window: string) => ({ quantity, window, enforcement: 'block' as const });
  const limits = [block('5', 'PT5H'), block('8.5', 'calendar_day'), block('1000', 'calendar_month')];
  await grant(db, orgId, product.id, { limits });
  let n = 0;
  const reserve = async (quantity: number) => {
    const { url } = instance(n);
    const response = await fetch(`${url}/api/usage/reservations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        productSlug: product.slug,
        metric: 'calls',
        quantity,
        idempotencyKey: `r-${n++}`,
      }),
    });
    return response.status;
  };
  const reported = async () =>
    (await readWebhookMessages(db, orgId, 'usage.limit_reached'))
      .map(({ data }) => [data.limit.quantity, data.held, data.remaining, data.requested])
      .toSorted(([a], [b]) => a - b);
  expect(await reserve(4)).toBe(201);
  expect(await reported()).toEqual([]);
  expect(await Promise.all([2, 2, 2, 2, 2, 2].map(reserve))).toEqual([409, 409, 409, 409, 409, 409]);
  expect(await reported()).toEqual([[5, 4, 1, 2]]);
  expect(await reserve(6)).toBe(409);
  expect(await reserve(6)).toBe(409);
  expect(await reported()).toEqual([
    [5, 4, 1, 2],
    [8.5, 4, 4.5, 6],
  ]);
  for (const { clock } of services) clock.advance(60_000);
  expect(await reserve(2)).toBe(409);
  expect(await reserve(2)).toBe(409);
  expect(await reported()).toHaveLength(3);
});
