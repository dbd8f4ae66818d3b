import { z } from 'zod';
import { readHashedSecret } from '../../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../../accounts/api-keys/key-use.js';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { readJsonBody } from '../../../core/http/body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseQuery, queryError } from '../../../core/http/page.js';
import { parseInput, requireFew } from '../../../core/http/validate.js';
import { defineRoute, json, repeated } from '../../../core/reference/define-route.js';
import { exampleWorld } from '../../reference/example-world.js';
import { invalidExample, problemExample } from '../../../core/reference/problem-examples.js';
import { suggestSlugs } from '../../entitlements/nearest.js';
import { unknownDimension } from '../../entitlements/dimensions.js';
import { findProduct, type UsageProduct } from '../../events/page-queries.js';
import { MAX_EVENTS, usageEventSchema } from '../../ingestion/schema.js';
import { lookUpEvents, readEvent, readSeries, requireFewSteps } from './reading.js';
import {
  divideQuery,
  lookupAnswerSchema,
  lookupSchema,
  MAX_LOOKUP_BYTES,
  MAX_LOOKUP_CORRECTIONS,
  MAX_POINTS,
  recordedEventSchema,
  usageQuerySchema,
  usageSeriesSchema,
} from './schema.js';

type ReadingDeps = CallDeps & Pick<Context, 'db' | 'clock'>;

const scope = 'usage:read';
const common = { tag: 'Usage', credential: 'apiKey', scope, limit: 'usage' } as const;

const january = { productSlug: 'api-calls', from: '2026-01-01', to: '2026-02-01' };
const point = { quantity: 400, events: 1 };
const calls = { productSlug: 'api-calls', metric: 'calls', total: 400 };
const { id: apiKeyId } = exampleWorld.keys.liveKey;

const sums = defineRoute({
  ...common,
  method: 'get',
  path: '/api/usage',
  operationId: 'readUsage',
  python: [
    'print(gauge.usage({from}, {to}, product_slug={productSlug}, granularity={granularity}, group_by={groupBy}, subject={subject}))',
  ],
  summary: 'Read usage',
  description: `
Exact sums of the Organization's events in the key's mode, by the time at which they occurred. One series per product and metric, and with \`groupBy=apiKey\` also per API
key that reported them. They include every batch that got a 202.

**Parts.** \`groupBy\` divides the sums by API key, subject or a dimension. \`subject=\` and \`dimension.<name>=\`, like \`dimension.model=large\`, count only matching usage. Events without a subject are in no sum of subjects. Subjects cannot be combined with
dimensions or API keys, because such sums are not kept; the export of events on the dashboard has every field.

A range can have at most ${MAX_POINTS} steps, and all series of a response together 20,000 points.
`.trim(),
  query: usageQuerySchema,
  responses: { 200: json('The sums.', usageSeriesSchema) },
  good: { query: january },
  examples: [
    {
      name: 'days',
      summary: 'The days of a month',
      request: { query: january },
      answer: {
        granularity: 'day',
        series: [{ ...calls, points: [{ start: '2026-01-05T00:00:00.000Z', ...point }] }],
      },
    },
    {
      name: 'keys',
      summary: 'A month by API key, for all products',
      request: { query: { from: '2026-01-01', to: '2026-02-01', granularity: 'month', groupBy: 'apiKey' } },
      answer: {
        granularity: 'month',
        series: [{ ...calls, apiKeyId, points: [{ start: '2026-01-01T00:00:00.000Z', ...point }] }],
      },
    },
    {
      name: 'subject',
      summary: 'A subject without usage',
      request: {
        query: { productSlug: 'storage', from: '2026-01-01', to: '2026-02-01', subject: 'user-17' },
      },
      answer: { granularity: 'day', series: [] },
    },
    {
      name: 'testMode',
      summary: 'A test key, with no test usage yet',
      request: { credential: 'testKey', query: { ...january, granularity: 'hour', to: '2026-01-10' } },
      answer: { granularity: 'hour', series: [] },
    },
    problemExample('invalid_request', {
      summary: 'Too many points',
      detail: 'The query parameter to must be at most 400 hours after from. This range has 744.',
      request: { query: { ...january, granularity: 'hour' } },
    }),
    problemExample('not_found', {
      summary: 'A product that the Organization may not use and has never used',
      detail: 'Your Organization has no product reports.',
      request: { query: { ...january, productSlug: 'reports' } },
    }),
  ],
  handler: (deps: ReadingDeps) => async (req, res) => {
    const { orgId, livemode } = await authenticateCall(deps, readHashedSecret(req), scope);
    const { dimensions, rest } = divideQuery(req.query);
    const query = parseQuery(usageQuerySchema, rest);
    const { productSlug, granularity } = query;
    const steps = { from: new Date(query.from), to: new Date(query.to), granularity };
    const parts = readParts(query, dimensions);
    requireFewSteps({ ...steps, isDivided: parts.isDivided });
    const product = productSlug === undefined ? undefined : await findOwnProduct(deps, orgId, productSlug);
    const { dimension } = parts;
    const divided = {
      isByKey: parts.isByKey,
      subjects: parts.subjects,
      byDimension: dimension === undefined ? undefined : placeOf(product!, 'groupBy', dimension),
      where: Object.entries(dimensions).map(([key, value]) => ({
        place: placeOf(product!, `dimension.${key}`, key),
        value,
      })),
    };
    const range = { ...steps, ...divided, orgId, livemode, productId: product?.id };
    sendJson(res, 200, toJson({ granularity, series: await readSeries(deps.db, range, dimension) }));
  },
});

/** @throws AppError invalid_request for a combination of parameters for which no sums are stored */
function readParts(
  { groupBy, subject, productSlug }: z.output<typeof usageQuerySchema>,
  dimensions: Record<string, string>,
) {
  const isByKey = groupBy === 'apiKey';
  const isBySubject = groupBy === 'subject';
  const subjects = isBySubject || subject !== undefined ? { only: subject } : undefined;
  const dimension = isByKey || isBySubject ? undefined : groupBy;
  const [condition] = Object.keys(dimensions);
  if (subjects && (dimension !== undefined || isByKey))
    throw queryError('groupBy', `cannot be ${groupBy} with subject, because such sums are not kept`);
  if (subjects && condition !== undefined)
    throw queryError(
      `dimension.${condition}`,
      'cannot be combined with subjects, because such sums are not kept',
    );
  if (productSlug === undefined && dimension !== undefined)
    throw queryError('groupBy', 'must be apiKey or subject, or a dimension of productSlug');
  if (productSlug === undefined && condition !== undefined)
    throw queryError('productSlug', `is required for dimension.${condition}`);
  const isDivided = groupBy !== undefined || subjects !== undefined || condition !== undefined;
  return { isByKey, subjects, dimension, isDivided };
}

/** The place of a product's dimension, counted from 1. @throws AppError unknown_dimension */
function placeOf({ slug, dimensions }: UsageProduct, parameter: string, key: string): number {
  const place = dimensions.indexOf(key) + 1;
  if (place > 0) return place;
  const detail = unknownDimension(slug, dimensions, { [key]: '' });
  throw new AppError('unknown_dimension', `The query parameter ${parameter} is wrong. ${detail}`);
}

/** @throws AppError not_found */
async function findOwnProduct(deps: ReadingDeps, orgId: string, slug: string): Promise<UsageProduct> {
  const product = await findProduct(deps.db.orm, orgId, slug);
  if (product) return product;
  const question = (await suggestSlugs(deps, orgId, [slug])).get(slug) ?? '';
  throw new AppError('not_found', `Your Organization has no product ${slug}.${question}`);
}

const first = {
  idempotencyKey: 'first',
  productSlug: 'api-calls',
  metric: 'calls',
  quantity: 400,
  occurredAt: '2026-01-05T09:00:00.000000Z',
  receivedAt: '2026-01-05T09:00:00.000000Z',
  livemode: true,
  apiKeyId,
  corrections: [],
};
const paramsSchema = z.object({ idempotencyKey: usageEventSchema.shape.idempotencyKey });

const event = defineRoute({
  ...common,
  method: 'get',
  path: '/api/usage/events/{idempotencyKey}',
  operationId: 'getUsageEvent',
  python: ['print(gauge.event({idempotencyKey}))'],
  summary: 'Read one event',
  description: `
The event as recorded, with its corrections. Only events in the key's mode are found. \`.\` and \`..\` cannot be path segments of a URL; use the lookup for such keys.
`.trim(),
  params: z.object({
    idempotencyKey: z.string().meta({ description: 'Percent-encoded, with a slash as `%2F`.' }),
  }),
  responses: { 200: json('The event.', recordedEventSchema) },
  examples: [
    {
      name: 'event',
      summary: 'An event',
      request: { params: { idempotencyKey: 'first' } },
      answer: first,
    },
    problemExample('event_not_found', {
      summary: 'An event that was not recorded',
      detail: 'No event 2026-01-31/7 was recorded.',
      request: { params: { idempotencyKey: '2026-01-31/7' } },
    }),
    problemExample('invalid_request', {
      summary: 'An invalid idempotency key',
      at: '/idempotencyKey',
      detail: 'must be 1 to 255 characters without control characters',
      request: { params: { idempotencyKey: 'a\nb' } },
    }),
  ],
  handler: (deps: ReadingDeps) => async (req, res) => {
    const reader = await authenticateCall(deps, readHashedSecret(req), scope);
    const { idempotencyKey } = parseInput(paramsSchema, req.params);
    sendJson(res, 200, toJson(await readEvent(deps.db.orm, reader, idempotencyKey)));
  },
});

const lookup = defineRoute({
  ...common,
  method: 'post',
  path: '/api/usage/events/lookup',
  operationId: 'lookUpUsageEvents',
  python: ['print(gauge.look_up({idempotencyKeys}))'],
  summary: 'Look up recorded events',
  description: `
Shows which of 1 to ${MAX_EVENTS} idempotency keys were recorded in the key's mode, for a sender that is unsure. One result per key, in the order of the request. A batch in flight can still be
recorded afterwards; sending an event again is always safe. A response has at most ${MAX_LOOKUP_CORRECTIONS.toLocaleString('en')} corrections. If the events have more in total, the response is \`batch_too_large\`:
request fewer events at once.
`.trim(),
  body: { schema: lookupSchema, maxBytes: MAX_LOOKUP_BYTES },
  responses: { 200: json('The results.', lookupAnswerSchema) },
  examples: [
    {
      name: 'lookup',
      summary: 'A recorded key and an unknown key',
      request: { body: { idempotencyKeys: ['first', 'req-7f3a'] } },
      answer: {
        results: [
          { idempotencyKey: 'first', recorded: true, event: first },
          { idempotencyKey: 'req-7f3a', recorded: false },
        ],
      },
    },
    invalidExample('An empty key', { body: { idempotencyKeys: ['first', ''] } }),
    problemExample('batch_too_large', {
      summary: '501 keys (one is shown)',
      detail: `A lookup can have at most ${MAX_EVENTS} idempotency keys. This one has ${MAX_EVENTS + 1}.`,
      request: { body: { idempotencyKeys: repeated(MAX_EVENTS + 1, (i) => `req-${i}`) } },
    }),
  ],
  handler: (deps: ReadingDeps) => async (req, res) => {
    const reader = await authenticateCall(deps, readHashedSecret(req), scope);
    const { value } = await readJsonBody(req, res, MAX_LOOKUP_BYTES);
    const sent = (value as { idempotencyKeys?: unknown } | null)?.idempotencyKeys;
    requireFew(sent, 'A lookup can have', MAX_EVENTS, 'idempotency keys');
    const { idempotencyKeys } = parseInput(lookupSchema, value);
    sendJson(res, 200, toJson({ results: await lookUpEvents(deps.db.orm, reader, idempotencyKeys) }));
  },
});

export const usageReadRoutes = [sums, event, lookup];
