import { repeated, type Example } from '../../core/reference/define-route.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { cloudEventBatchType, cloudEventType } from './cloud-events.js';
import { MAX_EVENTS, type UsageEvent } from './schema.js';

const january = { start: '2026-01-01T00:00:00Z', end: '2026-02-01T00:00:00Z' };

const call = (idempotencyKey: string, more: Partial<UsageEvent> = {}): UsageEvent => ({
  productSlug: 'api-calls',
  metric: 'calls',
  idempotencyKey,
  ...more,
});
export const good = { events: [call('req-7f3a', { quantity: 3, occurredAt: '2026-01-31T11:59:58.250Z' })] };
const mixed = {
  events: [call('req-7f3a'), call('req-7f3b', { productSlug: 'archive', metric: 'documents' })],
};

export const successes: Example[] = [
  {
    name: 'accepted',
    summary: 'Two events, recorded',
    request: {
      body: {
        events: [
          ...good.events,
          {
            productSlug: 'storage',
            metric: 'bytes',
            quantity: 4096,
            idempotencyKey: 'batch-2026-01-31T12',
          },
        ],
      },
    },
    answer: { accepted: 2, deduped: 0, warnings: [] },
  },
  {
    name: 'first',
    summary: 'One event, recorded',
    request: { body: good },
    answer: { accepted: 1, deduped: 0, warnings: [] },
  },
  {
    name: 'subject',
    summary: 'With the end user that caused it, and dimensions of the product',
    request: {
      body: {
        events: [
          {
            productSlug: 'storage',
            metric: 'bytes',
            quantity: 4096,
            idempotencyKey: 'upload-81',
            subject: 'user-17',
            dimensions: { region: 'eu' },
          },
        ],
      },
    },
    answer: { accepted: 1, deduped: 0, warnings: [] },
  },
  {
    name: 'repeated',
    summary: 'The same batch again: counted once',
    before: [{ body: good }],
    request: { body: good },
    answer: { accepted: 0, deduped: 1, warnings: [] },
  },
  {
    name: 'duplicateMismatch',
    summary: 'An idempotency key of another event',
    before: [{ body: good }],
    request: { body: { events: [call('req-7f3a', { quantity: 30 })] } },
    answer: { accepted: 0, deduped: 1, warnings: [{ code: 'duplicate_mismatch', index: 0 }] },
  },
  {
    name: 'otherMode',
    summary: 'The idempotency key of a test event: the live event is not counted',
    before: [{ credential: 'testKey', body: good }],
    request: { body: good },
    answer: {
      accepted: 0,
      deduped: 1,
      warnings: [{ code: 'duplicate_mismatch', index: 0, differs: ['livemode'] }],
    },
  },
  {
    name: 'unitCapExceeded',
    summary: 'Above the cap: recorded, with a warning',
    request: { body: { events: [call('req-9c01', { quantity: 600.5 })] } },
    answer: {
      accepted: 1,
      deduped: 0,
      warnings: [
        {
          code: 'unit_cap_exceeded',
          productSlug: 'api-calls',
          metric: 'calls',
          unitCap: 1000,
          used: 1000.5,
          period: january,
        },
      ],
    },
  },
  {
    name: 'lenient',
    summary: 'Lenient: the good event is recorded, the other reported',
    request: { headers: { prefer: 'handling=lenient' }, body: mixed },
    answerHeaders: { 'preference-applied': 'handling=lenient' },
    answer: {
      accepted: 1,
      deduped: 0,
      warnings: [],
      rejected: [
        {
          index: 1,
          code: 'entitlement_read_only',
          detail: 'The entitlement for the product archive is read-only.',
        },
      ],
    },
  },
  {
    name: 'dryRun',
    summary: 'A dry run: the same response, nothing recorded',
    request: { credential: 'testKey', query: { dryRun: 'true' }, body: good },
    answer: { accepted: 1, deduped: 0, warnings: [] },
  },
];

const cloudEvent = {
  specversion: '1.0',
  id: 'A234-1234-1234',
  source: '/gateway/eu',
  type: 'calls',
  subject: 'api-calls',
  time: '2026-01-31T11:59:58.250Z',
  datacontenttype: 'application/json',
  data: { quantity: 3 },
};

export const asCloudEvents: Example[] = [
  {
    name: 'cloudEvent',
    summary: 'A CloudEvent',
    request: { headers: { 'content-type': cloudEventType }, body: cloudEvent },
    answer: { accepted: 1, deduped: 0, warnings: [] },
  },
  {
    name: 'cloudEvents',
    summary: 'A batch of CloudEvents, whose product is in the data',
    request: {
      headers: { 'content-type': cloudEventBatchType },
      body: [
        cloudEvent,
        {
          ...cloudEvent,
          id: 'A234-1234-1235',
          type: 'bytes',
          subject: '/disks/7',
          data: { productSlug: 'storage', quantity: 1048576.5 },
        },
      ],
    },
    answer: { accepted: 2, deduped: 0, warnings: [] },
  },
  problemExample('invalid_request', {
    name: 'invalidCloudEvent',
    summary: 'A batch of CloudEvents, one with an invalid time',
    at: '/0/time',
    index: 0,
    detail: 'must be an RFC 3339 time with an offset, like 2026-01-31T12:00:00Z',
    request: {
      headers: { 'content-type': cloudEventBatchType },
      body: [{ ...cloudEvent, time: 'yesterday' }],
    },
  }),
  problemExample('entitlement_required', {
    name: 'cloudEventOfUnknownProduct',
    summary: 'A CloudEvent for a product without a live entitlement',
    detail: 'Nothing was recorded. Event 0: There is no live entitlement for the product reports.',
    errors: [
      {
        index: 0,
        code: 'entitlement_required',
        detail: 'There is no live entitlement for the product reports.',
        pointer: '/subject',
      },
    ],
    request: {
      headers: { 'content-type': cloudEventType },
      body: { ...cloudEvent, subject: 'reports' },
    },
  }),
];

export const brokenRule = (
  code:
    | 'entitlement_required'
    | 'entitlement_read_only'
    | 'unknown_metric'
    | 'unknown_dimension'
    | 'timestamp_out_of_range'
    | 'quantity_out_of_range',
  summary: string,
  event: UsageEvent,
  field: keyof UsageEvent,
  detail: string,
): Example =>
  problemExample(code, {
    summary,
    detail: `Nothing was recorded. Event 0: ${detail}`,
    errors: [{ index: 0, code, detail, pointer: `/events/0/${field}` }],
    request: { body: { events: [event] } },
  });

export const problems: Example[] = [
  invalidExample('Every invalid place is listed', {
    body: {
      events: [{ productSlug: 'api-calls', quantity: -1, idempotencyKey: 'req-7f3a', color: 'red' }],
    },
  }),
  brokenRule(
    'entitlement_required',
    'No live entitlement for the product',
    call('req-7f3a', { productSlug: 'reports', metric: 'pages' }),
    'productSlug',
    'There is no live entitlement for the product reports.',
  ),
  brokenRule(
    'entitlement_read_only',
    'The entitlement is read-only',
    call('req-7f3a', { productSlug: 'archive', metric: 'documents' }),
    'productSlug',
    'The entitlement for the product archive is read-only.',
  ),
  brokenRule(
    'unknown_metric',
    'The product counts another metric',
    call('req-7f3a', { metric: 'bytes' }),
    'metric',
    'The product api-calls counts calls, not bytes.',
  ),
  brokenRule(
    'unknown_dimension',
    'A dimension that the product does not declare',
    call('req-7f3a', { dimensions: { model: 'large' } }),
    'dimensions',
    'The product api-calls has no dimension model. It has none.',
  ),
  brokenRule(
    'timestamp_out_of_range',
    'More than 7 days ago',
    call('req-7f3a', { occurredAt: '2026-01-24T11:59:59Z' }),
    'occurredAt',
    'occurredAt must be from 7 days before to 5 minutes after the receipt.',
  ),
  brokenRule(
    'quantity_out_of_range',
    'More than one event of the product can count',
    call('req-7f3a', { quantity: 1e16 }),
    'quantity',
    'An event of the product api-calls can count at most 1000000000000000.',
  ),
  problemExample('batch_too_large', {
    summary: '501 events (one is shown)',
    detail: `A batch can have at most ${MAX_EVENTS} events. This one has ${MAX_EVENTS + 1}.`,
    request: { body: { events: repeated(MAX_EVENTS + 1, (i) => call(`req-${i}`)) } },
  }),
];
