import { excerpt, generated, type Example, type ExampleRequest } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';

const { id, blocked, held } = exampleWorld.reservation;
const shown = {
  id,
  status: 'held',
  productSlug: 'storage',
  metric: 'bytes',
  quantity: held,
  idempotencyKey: 'chat-51',
  expiresAt: '2026-01-31T12:04:00.000Z',
  settledQuantity: null,
  createdAt: '2026-01-31T11:59:00.000Z',
};
const window = { window: 'PT5H', enforcement: 'block' };
const chat = { productSlug: 'storage', metric: 'bytes', quantity: 2500.5, idempotencyKey: 'chat-52' };
const made = {
  ...shown,
  ...chat,
  id: generated('019c0f3c-1800-7000-8000-0000000000a1'),
  expiresAt: '2026-01-31T12:05:00.000Z',
  createdAt: exampleWorld.now,
};
const storageLimit = (reserved: number) => ({
  quantity: blocked,
  ...window,
  used: 0,
  held: reserved,
  remaining: blocked - reserved,
  resetsAt: null,
});
const withChanges = (body: object): ExampleRequest => ({ body: { ...chat, ...body } });

const used = { params: { id }, body: { quantity: 3120 } };
const settledShown = { ...shown, status: 'settled', settledQuantity: 3120 };
const notFound = (request: ExampleRequest) =>
  problemExample('not_found', {
    summary: 'No such reservation, or one of another mode or Organization',
    detail: 'There is no such reservation.',
    request: { ...request, params: { id: exampleWorld.unknownId } },
  });

export const examples = {
  good: { reserve: { body: chat }, settle: used },
  reserve: [
    {
      name: 'reserved',
      summary: 'Held for five minutes',
      request: { body: chat },
      status: 201,
      answer: { reservation: made, limits: [storageLimit(held + chat.quantity)] },
    },
    {
      name: 'repeated',
      summary: 'The same request again: the same reservation',
      before: [{ body: chat }],
      request: { body: chat },
      status: 200,
      answer: { reservation: made, limits: [storageLimit(held + chat.quantity)] },
    },
    problemExample('limit_reached', {
      summary: 'More than remains',
      detail: `The limit of ${blocked} bytes (PT5H) leaves ${blocked - held}, but ${blocked - held + 0.5} were requested. Nothing is held.`,
      members: { limit: storageLimit(held) },
      request: withChanges({ quantity: blocked - held + 0.5 }),
    }),
    problemExample('credits_exhausted', {
      summary: 'It costs more credits than are left',
      detail:
        'The product storage has 60 credits available, but 1500000.5 bytes cost 75.000025. Nothing is held.',
      members: { required: 75.000025, available: 60 },
      request: withChanges({ quantity: 1_500_000.5 }),
    }),
    problemExample('idempotency_conflict', {
      summary: 'The idempotency key of another reservation',
      detail: 'This idempotency key was used for another reservation. Use a new key for each reservation.',
      before: [{ body: chat }],
      request: withChanges({ quantity: 10 }),
    }),
    invalidExample('Held for more than a day', withChanges({ ttlSeconds: 86_401 })),
    problemExample('entitlement_required', {
      summary: 'No live entitlement for the product',
      at: '/productSlug',
      detail: 'There is no live entitlement for the product reports.',
      request: withChanges({ productSlug: 'reports', metric: 'pages' }),
    }),
    problemExample('entitlement_read_only', {
      summary: 'The entitlement is read-only',
      at: '/productSlug',
      detail: 'The entitlement for the product archive is read-only.',
      request: withChanges({ productSlug: 'archive', metric: 'documents' }),
    }),
    problemExample('unknown_metric', {
      summary: 'The product counts another metric',
      at: '/metric',
      detail: 'The product storage counts bytes, not calls.',
      request: withChanges({ metric: 'calls' }),
    }),
    problemExample('quantity_out_of_range', {
      summary: 'More than one event of the product can count',
      at: '/quantity',
      detail:
        'An event of the product storage can count at most 1000000000000000, but 10000000000000000 were requested.',
      request: withChanges({ quantity: 1e16 }),
    }),
  ] satisfies Example[],
  settle: [
    {
      name: 'settled',
      summary: 'Less than was held',
      request: used,
      answer: { reservation: settledShown, accepted: 1, deduped: 0, warnings: [] },
    },
    {
      name: 'exceeded',
      summary: 'More than was held',
      request: { params: { id }, body: { quantity: 4100.5, occurredAt: '2026-01-31T11:59:30Z' } },
      answer: {
        reservation: { ...settledShown, settledQuantity: 4100.5 },
        accepted: 1,
        deduped: 0,
        warnings: [{ code: 'reservation_exceeded', reserved: held, used: 4100.5 }],
      },
    },
    {
      name: 'whole',
      summary: 'The whole quantity held',
      request: { params: { id }, body: {} },
      answer: excerpt({ accepted: 1, deduped: 0, warnings: [] }),
    },
    notFound(used),
    problemExample('idempotency_conflict', {
      summary: 'Already settled with another quantity',
      detail: 'This reservation was already settled with another quantity or time.',
      before: [used],
      request: { params: { id }, body: { quantity: 3121 } },
    }),
    invalidExample('A negative quantity', { params: { id }, body: { quantity: -1 } }),
    problemExample('timestamp_out_of_range', {
      summary: 'More than 7 days ago',
      at: '/occurredAt',
      detail: 'must be from 7 days before to 5 minutes after the receipt.',
      request: { params: { id }, body: { occurredAt: '2026-01-24T11:59:59Z' } },
    }),
    problemExample('quantity_out_of_range', {
      summary: 'More than one event of the product can count',
      at: '/quantity',
      lead: 'Nothing was recorded.',
      detail: 'An event of the product storage can count at most 1000000000000000.',
      request: { params: { id }, body: { quantity: 1e16 } },
    }),
  ] satisfies Example[],
  release: [
    {
      name: 'released',
      summary: 'Nothing used',
      request: { params: { id } },
      answer: { reservation: { ...shown, status: 'released' } },
    },
    notFound({}),
  ] satisfies Example[],
  find: [
    {
      name: 'found',
      summary: 'A held reservation',
      request: { params: { id } },
      answer: { reservation: shown },
    },
    notFound({}),
  ] satisfies Example[],
  list: [
    {
      name: 'held',
      summary: 'Held reservations',
      request: { query: { status: 'held' } },
      answer: { reservations: [shown], nextCursor: null },
    },
    {
      name: 'testMode',
      summary: 'A test key, with no test reservations yet',
      request: { credential: 'testKey' },
      answer: { reservations: [], nextCursor: null },
    },
    problemExample('invalid_request', {
      summary: 'An unknown status',
      detail: 'The query parameter status must be one of held, settled, released, expired.',
      request: { query: { status: 'open' } },
    }),
  ] satisfies Example[],
};
