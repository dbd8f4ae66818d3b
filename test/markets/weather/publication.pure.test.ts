import { expect, it } from 'vitest';
import { createPublication } from '../../../src/markets/weather/publication.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const noon = Date.parse('2026-08-29T12:00:00Z');
/** Receipts of the minutes from `from` to `to`, counted from noon, each `delay(minute)` seconds after it. */
const receipts = (from: number, to: number, delay: (minute: number) => number) =>
  Array.from({ length: to - from + 1 }, (_, i) => {
    const minuteMs = noon + (from + i) * MINUTE;
    return { minuteMs, receivedMs: minuteMs + delay(from + i) * SECOND };
  });
/** Seconds of the minute. */
const nextSecond = (publication: ReturnType<typeof createPublication>, minute = 0) =>
  (publication.nextAfter(noon + minute * MINUTE) / SECOND) % 60;

it('asks after the latest time at which batches appear until it has seen some', () => {
  const publication = createPublication();
  publication.learn([], noon);
  expect(publication.nextAfter(noon)).toBe(noon + 42 * SECOND);
});

it('asks two seconds after the second-latest batch of the last 15 minutes', () => {
  const publication = createPublication();
  publication.learn(
    receipts(-30, -3, (minute) => (minute === -5 ? 200 : minute < -17 ? 158 : 140 + (minute % 3))),
    noon,
  );
  expect(nextSecond(publication)).toBe(22);
  expect(publication.nextAfter(noon + 22 * SECOND)).toBe(noon + 82 * SECOND);
});

it.each<[string, (minuteMs: number) => { minuteMs: number; receivedMs: number }[]]>([
  ['before its minute', (minuteMs) => [{ minuteMs, receivedMs: minuteMs - SECOND }]],
  ['20 minutes late', (minuteMs) => [{ minuteMs, receivedMs: minuteMs + 20 * MINUTE }]],
  [
    'of one station after its batch',
    (minuteMs) => [138, 138, 230].map((delay) => ({ minuteMs, receivedMs: minuteMs + delay * SECOND })),
  ],
])('learns nothing from a receipt %s', (_, odd) => {
  const publication = createPublication();
  publication.learn(
    [...receipts(-20, -6, () => 138), ...odd(noon - 5 * MINUTE), ...odd(noon - 4 * MINUTE)],
    noon,
  );
  expect(nextSecond(publication)).toBe(20);
});

it('asks a second later after each minute that was not there yet, but not while the feed is silent', () => {
  const publication = createPublication();
  publication.learn(
    receipts(-20, -3, () => 138),
    noon,
  );
  for (let minute = 1; minute <= 5; minute++) {
    const asked = publication.nextAfter(noon + (minute - 2) * MINUTE + 21 * SECOND);
    publication.learn(
      receipts(minute - 20, minute - 4, () => 138),
      asked,
    );
  }
  const waited = nextSecond(publication, 9);
  expect(waited).toBe(25);
  for (let minute = 6; minute < 30; minute++)
    publication.learn(
      receipts(-20, 1, () => 138),
      noon + minute * MINUTE,
    );
  expect(nextSecond(publication, 40) - waited).toBeLessThanOrEqual(1);
  for (let minute = 30; minute < 400; minute++)
    publication.learn(
      receipts(minute - 20, minute - 3, () => 138),
      noon + minute * MINUTE,
    );
  expect(nextSecond(publication, 400)).toBe(20);
});
