import { eq } from 'drizzle-orm';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { DAY_MS } from '../../../src/core/time.js';
import { entitlements, products, type UsageLimit } from '../../../src/metering/entitlements/table.js';
import { deleteOldWebhooks } from '../../../src/accounts/webhooks/upkeep.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { operatorClient } from '../../support/operator.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';

const START = '2026-05-14T10:00:00.000Z';

const { database, service } = useService();

const operator = operatorClient(() => service);
beforeEach(() => service.clock.set(START));
interface TenantOptions {
  unitCap?: string | null;
  terms?: Partial<typeof entitlements.$inferInsert>;
  isListening?: boolean;
}

const limit = (
  quantity: string,
  window: string,
  enforcement: UsageLimit['enforcement'] = 'warn',
): UsageLimit => ({ quantity, window, enforcement });

async function tenant({ unitCap = null, terms = {}, isListening = true }: TenantOptions) {
  const { db } = database;
  const organization = await createOrganization(db);
  const product = await createProduct(db, { unitCap });
  await grant(db, organization.id, product.id, terms);
  const [live, test] = await Promise.all(
    [true, false].map((livemode) => createKey(db, organization.id, { livemode })),
  );
  if (isListening) await createListener(db, organization.id, { types: ['usage.threshold_reached'] });
  let n = 0;
  return {
    organization,
    product,
    live: live!,
    test: test!,
    async send(
      quantity: number,
      more: { secret?: string; idempotencyKey?: string; occurredAt?: string } = {},
    ) {
      const { secret = live!.secret, idempotencyKey = `e-${++n}`, ...fields } = more;
      const event = usageEvent(product.slug, idempotencyKey, { quantity, ...fields });
      const { status } = await sendUsage(service.url, secret, [event]);
      expect(status).toBe(202);
      await service.services.thresholds.evaluateAll();
    },
    async reported() {
      const messages = await readWebhookMessages(db, organization.id, 'usage.threshold_reached');
      return messages.map(({ data }) => `${data.threshold}% of ${data.limit.quantity} ${data.limit.window}`);
    },
    messages: () => readWebhookMessages(db, organization.id, 'usage.threshold_reached'),
  };
}

describe('usage.threshold_reached', () => {
  it('reports what a correction reaches, but not what was reached before', async () => {
    const t = await tenant({ unitCap: '100', terms: { limits: [limit('1000', 'PT5H')] } });
    await t.send(10, { idempotencyKey: 'first' });
    const { secret } = await createKey(database.db, t.organization.id, { scopes: ['usage:correct'] });
    const correct = async (quantity: number) => {
      const correction = {
        idempotencyKey: 'first',
        quantity,
        reason: 'counted wrong',
        correctionKey: `to ${quantity}`,
      };
      const response = await fetch(`${service.url}/api/usage/corrections`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ corrections: [correction] }),
      });
      expect(response.status).toBe(200);
      await service.services.thresholds.evaluateAll();
    };
    await correct(60);
    expect(await t.reported()).toEqual(['50% of 100 calendar_month']);
    await correct(5);
    await correct(55);
    expect(await t.reported()).toEqual(['50% of 100 calendar_month']);
    await correct(500);
    expect((await t.reported()).sort()).toEqual([
      '100% of 100 calendar_month',
      '50% of 100 calendar_month',
      '50% of 1000 PT5H',
      '80% of 100 calendar_month',
    ]);
  });

  it('reports nothing twice per window, however late its events are corrected, and nothing new once the record is gone', async () => {
    const limits = [limit('100', 'calendar_week'), limit('100', 'P30D')];
    const t = await tenant({ unitCap: '100', terms: { thresholds: [50, 80], limits } });
    const correct = async (idempotencyKey: string, quantity: number) => {
      const correction = {
        idempotencyKey,
        quantity,
        reason: 'counted wrong',
        correctionKey: `to ${quantity}`,
      };
      const path = `/organizations/${t.organization.slug}/usage/corrections`;
      const { status } = await operator('POST', path, { corrections: [correction] });
      expect(status).toBe(200);
      await service.services.thresholds.evaluateAll();
    };
    service.clock.set('2026-05-01T10:00:00.000Z');
    await t.send(60, { idempotencyKey: 'first' });
    const reported = ['50% of 100 P30D', '50% of 100 calendar_month', '50% of 100 calendar_week'];
    expect((await t.reported()).sort()).toEqual(reported);
    // 95 days after the start of May, and 99 days after the start of the week of 1 May.
    service.clock.set('2026-08-04T10:00:00.000Z');
    await correct('first', 61);
    expect((await t.reported()).sort()).toEqual(reported);
    await correct('first', 80);
    expect((await t.reported()).sort()).toEqual([...reported, '80% of 100 calendar_month']);
    service.clock.advance(6 * DAY_MS);
    await deleteOldWebhooks(service.context);
    expect(await t.reported()).toEqual(['80% of 100 calendar_month']);
    await correct('first', 81);
    expect(await t.reported()).toEqual(['80% of 100 calendar_month']);
  });

  it('reports each threshold of a cap once, in the month of the events', async () => {
    const t = await tenant({ unitCap: '100.5' });
    await t.send(50);
    expect(await t.reported()).toEqual([]);
    await t.send(0.25);
    expect(await t.messages()).toMatchObject([
      {
        livemode: true,
        createdAt: new Date(START),
        data: {
          productSlug: t.product.slug,
          metric: 'calls',
          livemode: true,
          threshold: 50,
          limit: { quantity: 100.5, window: 'calendar_month', enforcement: 'warn' },
          used: 50.25,
          windowStart: '2026-05-01T00:00:00.000Z',
          windowEnd: '2026-06-01T00:00:00.000Z',
        },
      },
    ]);
    await t.send(60);
    await t.send(500);
    expect((await t.reported()).sort()).toEqual(
      [100, 50, 80].map((share) => `${share}% of 100.5 calendar_month`),
    );
    service.clock.set('2026-06-01T10:00:00.000Z');
    await t.send(81, { occurredAt: '2026-05-31T23:59:59.999Z' });
    expect(await t.reported()).toHaveLength(3);
    await t.send(81);
    expect(await t.reported()).toHaveLength(5);
  });

  it('counts a repeat once, and ignores dry runs', async () => {
    const t = await tenant({ unitCap: '10', terms: { thresholds: [100] } });
    const dry = await sendUsage(
      service.url,
      t.live.secret,
      [usageEvent(t.product.slug, 'd', { quantity: 10 })],
      {
        dryRun: true,
      },
    );
    expect(dry.status).toBe(202);
    await service.services.thresholds.evaluateAll();
    await t.send(9, { idempotencyKey: 'a' });
    await t.send(9, { idempotencyKey: 'a' });
    expect(await t.reported()).toEqual([]);
    await t.send(1, { idempotencyKey: 'b' });
    await t.send(1, { idempotencyKey: 'b' });
    expect(await t.reported()).toEqual(['100% of 10 calendar_month']);
  });

  it('keeps live and test separate', async () => {
    const t = await tenant({ unitCap: '10', terms: { thresholds: [100] } });
    await t.send(9, { secret: t.test.secret });
    await createListener(database.db, t.organization.id, { livemode: false });
    await t.send(9);
    expect(await t.reported()).toEqual([]);
    await t.send(2, { secret: t.test.secret });
    expect(await t.messages()).toMatchObject([{ livemode: false, data: { livemode: false, used: 11 } }]);
    await t.send(10);
    expect((await t.messages()).map(({ livemode }) => `${livemode}`).sort()).toEqual(['false', 'true']);
  });

  it('assigns events to calendar windows by their times', async () => {
    const t = await tenant({
      terms: {
        thresholds: [100],
        limits: [limit('10', 'calendar_day'), limit('15', 'calendar_week', 'block')],
      },
    });
    await t.send(10, { occurredAt: '2026-05-13T23:59:59.999Z' });
    expect(await t.reported()).toEqual(['100% of 10 calendar_day']);
    await t.send(4);
    // The previous Sunday belongs to another week.
    await t.send(9, { occurredAt: '2026-05-10T12:00:00.000Z' });
    expect(await t.reported()).toHaveLength(1);
    await t.send(1, { occurredAt: '2026-05-11T00:00:00.000Z' });
    const weeks = (await t.messages()).filter(({ data }) => data.limit.window === 'calendar_week');
    expect(weeks).toMatchObject([
      {
        data: {
          limit: { quantity: 15, window: 'calendar_week', enforcement: 'block' },
          used: 15,
          windowStart: '2026-05-11T00:00:00.000Z',
          windowEnd: '2026-05-18T00:00:00.000Z',
        },
      },
    ]);
    await t.send(1, { occurredAt: '2026-05-10T12:00:00.000Z' });
    expect((await t.reported()).filter((text) => text.endsWith('day'))).toHaveLength(2);
  });

  it('reports a rolling window again after a full window length', async () => {
    const t = await tenant({ terms: { thresholds: [100], limits: [limit('10', 'PT1H')] } });
    await t.send(9);
    await t.send(1);
    expect(await t.messages()).toMatchObject([
      { data: { used: 10, windowStart: '2026-05-14T09:00:00.000Z', windowEnd: START } },
    ]);
    service.clock.advance(30 * 60_000);
    await t.send(10);
    service.clock.advance(29 * 60_000 + 59_999);
    await t.send(10);
    expect(await t.reported()).toHaveLength(1);
    service.clock.advance(1);
    await t.send(1);
    expect(await t.reported()).toHaveLength(2);
    // This event is ahead of the service's clock, so it counts in a window that ends at its own time, not in the
    // current window.
    service.clock.advance(3_600_000);
    await t.send(6);
    await t.send(4, { occurredAt: new Date(service.clock.now() + 60_000).toISOString() });
    expect((await t.messages()).at(-1)).toMatchObject({
      data: { used: 10, windowEnd: new Date(service.clock.now() + 60_000).toISOString() },
    });
  });

  it('reports what a settlement records', async () => {
    const t = await tenant({ terms: { thresholds: [80], limits: [limit('10', 'calendar_day', 'block')] } });
    const headers = { authorization: `Bearer ${t.live.secret}`, 'content-type': 'application/json' };
    const post = async (path: string, body: object) => {
      const url = `${service.url}/api/usage/reservations${path}`;
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
      return (await response.json()) as { reservation: { id: string } };
    };
    const asked = { productSlug: t.product.slug, metric: 'calls', quantity: 8, idempotencyKey: 'r' };
    const { reservation } = await post('', asked);
    expect(await t.reported()).toEqual([]);
    await post(`/${reservation.id}/settle`, { quantity: 8 });
    await service.services.thresholds.evaluateAll();
    expect(await t.reported()).toEqual(['80% of 10 calendar_day']);
  });

  it('follows the thresholds that an entitlement declares, including those above a limit', async () => {
    const none = await tenant({ unitCap: '10', terms: { thresholds: [] } });
    await none.send(20);
    expect(await none.reported()).toEqual([]);
    const own = await tenant({ unitCap: '10', terms: { thresholds: [30, 150] } });
    await own.send(15);
    expect((await own.reported()).sort()).toEqual(['150% of 10 calendar_month', '30% of 10 calendar_month']);
  });

  it('reports an identical cap and limit once', async () => {
    const limits = [limit('10.0', 'calendar_month', 'block'), limit('10', 'calendar_month')];
    const t = await tenant({ unitCap: '10', terms: { thresholds: [100], limits } });
    await t.send(10);
    expect(await t.messages()).toMatchObject([{ data: { limit: { quantity: 10, enforcement: 'block' } } }]);
  });

  it('evaluates a rolling window again only if the month grew by the remainder, or the terms changed', async () => {
    const noted = vi.spyOn(service.services.thresholds, 'noted');
    const t = await tenant({ terms: { thresholds: [50, 100], limits: [limit('100', 'PT5H')] } });
    const send = async (quantity: number, more = {}) => {
      noted.mockClear();
      await t.send(quantity, more);
      return noted.mock.calls.length;
    };
    service.clock.set('2026-05-01T00:30:00.000Z');
    expect([await send(10), await send(10)]).toEqual([1, 0]);
    // This event is in another month and does not count toward this month's total.
    expect(await send(5, { occurredAt: '2026-04-30T23:50:00.000Z' })).toBe(1);
    expect([await send(24), await t.reported()]).toEqual([0, []]);
    expect([await send(1), await t.reported()]).toEqual([1, ['50% of 100 PT5H']]);
    // A window that is above its threshold is evaluated again at the next event.
    expect(await send(1)).toBe(1);
    service.clock.advance(6 * 3_600_000);
    expect([await send(1), await send(1)]).toEqual([1, 0]);
    const own = eq(entitlements.orgId, t.organization.id);
    await database.db.orm
      .update(entitlements)
      .set({ limits: [limit('200', 'PT5H')] })
      .where(own);
    expect([await send(1), await send(1)]).toEqual([1, 0]);
    await database.db.orm
      .update(entitlements)
      .set({ thresholds: [2, 50, 100] })
      .where(own);
    expect([await send(1), await t.reported()]).toEqual([1, ['50% of 100 PT5H', '2% of 200 PT5H']]);
    noted.mockRestore();
  });

  it('notes nothing if no endpoint listens, and a cap again only at the next threshold or if the cap changed', async () => {
    const noted = vi.spyOn(service.services.thresholds, 'noted');
    const send = async (t: Awaited<ReturnType<typeof tenant>>, quantity: number, more = {}) => {
      noted.mockClear();
      await t.send(quantity, more);
      return noted.mock.calls.length;
    };
    const quiet = await tenant({ unitCap: '10', isListening: false });
    expect([await send(quiet, 1), await send(quiet, 499)]).toEqual([0, 0]);
    const unlimited = await tenant({});
    expect([await send(unlimited, 1), await send(unlimited, 1e9)]).toEqual([1, 0]);
    const t = await tenant({ unitCap: '1000' });
    expect([await send(t, 1), await send(t, 498)]).toEqual([1, 0]);
    expect([await send(t, 1), await send(t, 1), await t.reported()]).toEqual([
      1,
      0,
      ['50% of 1000 calendar_month'],
    ]);
    // Each month has its own bound for the next evaluation.
    const late = { occurredAt: '2026-05-31T23:59:59.999Z' };
    service.clock.set('2026-06-01T10:00:00.000Z');
    expect([await send(t, 298, late), await send(t, 1), await send(t, 0.5, late)]).toEqual([0, 1, 0]);
    expect(await send(t, 0.5, late)).toBe(1);
    expect((await t.reported()).sort()).toEqual(['50% of 1000 calendar_month', '80% of 1000 calendar_month']);
    // Thresholds already reached when the cap is lowered are reported with the next event.
    await database.db.orm.update(products).set({ unitCap: '2' }).where(eq(products.id, t.product.id));
    expect([await send(t, 0.5), await send(t, 0.05)]).toEqual([1, 0]);
    expect((await t.reported()).sort()).toEqual([
      '50% of 1000 calendar_month',
      '50% of 2 calendar_month',
      '80% of 1000 calendar_month',
    ]);
    noted.mockRestore();
  });
});
