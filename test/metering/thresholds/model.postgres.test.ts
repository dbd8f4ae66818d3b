import fc from 'fast-check';
import { expect, it } from 'vitest';
import { startOfWindow } from '../../../src/metering/entitlements/limits.js';
import type { UsageLimit } from '../../../src/metering/entitlements/table.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import '../../support/property-seed.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const { database, service } = useService();

const rolling: Record<string, number> = { PT1M: MINUTE, PT5H: 5 * HOUR, P2D: 2 * DAY };

interface Event {
  /** The quantity in thousandths. */
  quantity: number;
  at: number;
}

/** The service's guarantees as a plain in-memory model. */
interface Model {
  limits: Pick<UsageLimit, 'quantity' | 'window'>[];
  thresholds: number[];
  events: Event[];
  reported: Set<string>;
  lastTold: Map<string, number>;
}

const sum = (events: Event[]) => events.reduce((total, { quantity }) => total + quantity, 0);
const dayOf = (at: number) => Math.floor(at / DAY);

function evaluate(model: Model, sent: Event[], now: number): void {
  for (const { quantity, window } of model.limits)
    for (const threshold of model.thresholds) {
      const isReached = (events: Event[]) =>
        Number(quantity) > 0 && sum(events) * 100 >= Math.round(Number(quantity) * 1000) * threshold;
      const name = `${threshold}% of ${quantity} ${window}`;
      const lasts = rolling[window];
      if (lasts === undefined) {
        const windowOf = ({ at }: Event) => startOfWindow(window, at);
        for (const start of new Set(sent.map(windowOf)))
          if (isReached(model.events.filter((event) => windowOf(event) === start)))
            model.reported.add(`${name} from ${new Date(start).toISOString()}`);
        continue;
      }
      const latestOfDays = sent.map((event) =>
        Math.max(now, ...sent.filter(({ at }) => dayOf(at) === dayOf(event.at)).map(({ at }) => at)),
      );
      const end = [now, ...latestOfDays]
        .toSorted((a, b) => a - b)
        .find((moment) => isReached(model.events.filter(({ at }) => at > moment - lasts && at <= moment)));
      if (end === undefined || end < (model.lastTold.get(name) ?? -Infinity) + lasts) continue;
      model.lastTold.set(name, end);
      model.reported.add(`${name} from ${new Date(end - lasts).toISOString()}`);
    }
}

const windows = ['calendar_month', 'calendar_week', 'calendar_day', ...Object.keys(rolling)];
const limit = fc.record({
  quantity: fc.constantFrom('0', '2.5', '5', '10', '20'),
  window: fc.constantFrom(...windows),
  enforcement: fc.constantFrom('warn' as const, 'block' as const),
});

const terms = fc.record({
  limits: fc.array(limit, { maxLength: 4 }),
  unitCap: fc.constantFrom(null, '10', '12.5'),
  thresholds: fc.constantFrom<number[] | null>(null, [100], [1, 33, 250], []),
});

const event = fc.record({
  quantity: fc.constantFrom(0, 2, 500, 1_000, 2_250, 4_000, 9_998),
  ago: fc.constantFrom(0, 0, 0, 1, MINUTE, 90 * MINUTE, 5 * HOUR - 1, DAY, 7 * DAY - 1, -1, -4 * MINUTE),
});

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ send: fc.array(event, { minLength: 1, maxLength: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ wait: fc.constantFrom(1, MINUTE, HOUR, 5 * HOUR, DAY, 9 * DAY) }) },
);
const starts = ['2028-02-28T23:55:00.000Z', '2026-05-31T23:58:00.000Z', '2027-12-31T23:45:00.000Z'];

it('each threshold that a plain model reaches is reported once, and nothing else', async () => {
  const { db } = database;
  let n = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...starts),
      terms,
      fc.array(step, { minLength: 1, maxLength: 14 }),
      async (start, { limits, unitCap, thresholds }, steps) => {
        service.clock.set(start);
        const organization = await createOrganization(db);
        const product = await createProduct(db, { unitCap });
        await grant(db, organization.id, product.id, { limits, thresholds });
        const { secret } = await createKey(db, organization.id);
        await createListener(db, organization.id);
        const cap = unitCap === null ? [] : [{ quantity: unitCap, window: 'calendar_month' }];
        const model: Model = {
          limits: [...limits, ...cap],
          thresholds: thresholds ?? [50, 80, 100],
          events: [],
          reported: new Set(),
          lastTold: new Map(),
        };
        for (const one of steps) {
          if ('wait' in one) {
            service.clock.advance(one.wait);
            continue;
          }
          const now = service.clock.now();
          const sent = one.send.map(({ quantity, ago }) => ({ quantity, at: now - ago }));
          const { status } = await sendUsage(
            service.url,
            secret,
            sent.map(({ quantity, at }) =>
              usageEvent(product.slug, `m-${++n}`, {
                quantity: quantity / 1000,
                occurredAt: new Date(at).toISOString(),
              }),
            ),
          );
          expect(status).toBe(202);
          await service.services.thresholds.drain();
          model.events.push(...sent);
          evaluate(model, sent, now);
        }
        const reported = (await readWebhookMessages(db, organization.id)).map(
          ({ data }) =>
            `${data.threshold}% of ${data.limit.quantity} ${data.limit.window} from ${data.windowStart}`,
        );
        expect(reported.sort()).toEqual([...model.reported].sort());
      },
    ),
    { numRuns: 60 },
  );
});
