import { repeated } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { notFoundExample, now } from '../../accounts/identity/operator/define-route.js';

export const acme = { slug: 'acme' };
const { id, appliedId, revertedId, reason } = exampleWorld.backfill;
export const one = { slug: 'acme', id };
export const body = {
  reason: 'A collector was down',
  from: '2026-01-01T00:00:00Z',
  to: '2026-01-20T00:00:00Z',
};
export const shown = {
  id,
  state: 'open',
  reason,
  from: '2026-01-01T00:00:00.000Z',
  to: '2026-01-20T00:00:00.000Z',
  livemode: true,
  credits: 'burn',
  progress: { done: 0, of: 0 },
  createdAt: now,
  changedAt: now,
};
const event = {
  productSlug: 'api-calls',
  metric: 'calls',
  quantity: 3,
  occurredAt: '2026-01-12T08:00:00Z',
  idempotencyKey: 'lost-1',
};
export const batch = { events: [event] };
export const missing = notFoundExample('The Organization has no such backfill.', {
  params: { slug: 'acme', id: exampleWorld.unknownId },
});
export const staged = { ...missing.request, body: batch };

/**
 * For each step: an example backfill that can take it, the state that follows, and a backfill for which the step is
 * refused.
 */
export const stepExamples = {
  apply: {
    good: id,
    becomes: 'applying',
    bad: revertedId,
    detail: 'The backfill is reverted. It cannot be applied.',
  },
  revert: {
    good: appliedId,
    becomes: 'reverting',
    bad: id,
    detail: 'The backfill is open. It cannot be reverted.',
  },
  discard: {
    good: id,
    becomes: 'discarding',
    bad: appliedId,
    detail: 'The backfill is applied. It cannot be discarded.',
  },
} as const;

export function stagingProblems() {
  const range =
    'occurredAt must be from 2026-01-01T00:00:00.000Z on, before 2026-01-20T00:00:00.000Z, and more than 7 days ago.';
  const wrong = [
    ['unknown_metric', 'metric', 'requests', 'The product api-calls counts calls, not requests.'],
    ['timestamp_out_of_range', 'occurredAt', '2026-01-30T08:00:00Z', range],
    [
      'quantity_out_of_range',
      'quantity',
      1e18,
      'An event of the product api-calls can count at most 1000000000000000.',
    ],
  ] as const;
  return [
    ...wrong.map(([code, field, value, detail]) =>
      problemExample(code, {
        summary: `An event with a different ${field}`,
        at: `/events/0/${field}`,
        index: 0,
        lead: 'Nothing was staged.',
        detail,
        request: { params: one, body: { events: [{ ...event, [field]: value }] } },
      }),
    ),
    problemExample('backfill_state', {
      summary: 'A backfill that is not open',
      detail: 'The backfill is reverted. It accepts no events.',
      request: { params: { slug: 'acme', id: revertedId }, body: batch },
    }),
    problemExample('batch_too_large', {
      summary: '501 events (one is shown)',
      detail: 'A batch can have at most 500 events. This one has 501.',
      request: { params: one, body: { events: repeated(501, () => event) } },
    }),
    invalidExample('An event without an idempotency key', {
      params: one,
      body: { events: [{ ...event, idempotencyKey: undefined }] },
    }),
  ];
}
