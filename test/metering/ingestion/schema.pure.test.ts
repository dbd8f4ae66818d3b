import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isUsageEvent, usageEventSchema } from '../../../src/metering/ingestion/schema.js';

const event = { productSlug: 'chat', metric: 'tokens', idempotencyKey: 'key-1' };

const texts = ['', ' ', 'chat', 'é\u{1F600}', 'a\nb', '\u0000', '\ud800', 'x'.repeat(64), 'x'.repeat(65)];
const longTexts = [128, 129, 255, 256].flatMap((length) => ['x'.repeat(length), '\u{1F600}'.repeat(length)]);
const times = [
  '2026-01-31T12:00:00Z',
  '2026-01-31T12:00:00.123456789+02:00',
  '2026-02-30T12:00:00Z',
  '2026-01-31T12:00:00',
  '2026-01-31T12:00Z',
  '2026-01-31T12:00:00z',
  '2026-01-31',
];
const numbers = [0, -0, 1, 0.5, -1, 1e308, Infinity, -Infinity];
const others = [null, true, [], {}, ['chat'], { model: 'large' }, { model: 1 }, { model: '' }];
const value = fc.constantFrom<unknown>(...texts, ...longTexts, ...times, ...numbers, ...others);
const name = fc.constantFrom(
  'quantity',
  'occurredAt',
  'subject',
  'dimensions',
  'productSlug',
  'metric',
  'idempotencyKey',
  'productslug',
  '__proto__',
  'constructor',
);
const changes = fc.array(fc.tuple(name, value), { maxLength: 3 });

function withFields(fields: [string, unknown][]): Record<string, unknown> {
  const changed: Record<string, unknown> = { ...event };
  for (const [key, value] of fields)
    Object.defineProperty(changed, key, { value, enumerable: true, configurable: true, writable: true });
  return changed;
}

it('the short check of an event accepts exactly what the schema accepts', () => {
  let accepted = 0;
  const compare = (sent: unknown) => {
    const { success, data } = usageEventSchema.safeParse(sent);
    expect(isUsageEvent(sent)).toBe(success);
    if (!success) return;
    // The schema must not change an event, because the service uses it as sent.
    expect(data).toEqual(sent);
    accepted++;
  };
  fc.assert(
    fc.property(changes, (fields) => compare(withFields(fields))),
    { numRuns: 3_000, seed: Number(process.env.PROPERTY_SEED ?? 1) },
  );
  for (const key of Object.keys(event)) compare({ ...event, [key]: undefined });
  for (const sent of [...texts, ...numbers, ...others, event]) compare(sent);
  expect(accepted).toBeGreaterThan(300);
});
