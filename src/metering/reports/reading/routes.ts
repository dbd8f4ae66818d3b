import { z } from 'zod';
import { readHashedSecret } from '../../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../../accounts/api-keys/key-use.js';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { readJsonBody } from '../../../core/http/body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseQuery, queryError } from '../../../core/http/page.js';
import { parseInput, requireFew } from '../../../core/http/validate.js';
import { defineRoute, json } from '../../../core/reference/define-route.js';
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
  recordedEventSchema,
  usageQuerySchema,
  usageSeriesSchema,
} from './schema.js';

type ReadingDeps = CallDeps & Pick<Context, 'db' | 'clock'>;

const scope = 'usage:read';
const common = { tag: 'Usage', credential: 'apiKey', scope, limit: 'usage' } as const;

const sums = defineRoute({
  ...common,
  at: 'GET /api/usage',
  operationId: 'readUsage',
  query: usageQuerySchema,
  responses: { 200: json('The sums.', usageSeriesSchema) },
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

/** @throws AppError invalid_request for a combination without stored sums */
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

/** From 1. */
function placeOf({ slug, dimensions }: UsageProduct, parameter: string, key: string): number {
  const place = dimensions.indexOf(key) + 1;
  if (place > 0) return place;
  const detail = unknownDimension(slug, dimensions, { [key]: '' });
  throw new AppError('unknown_dimension', `The query parameter ${parameter} is wrong. ${detail}`);
}

async function findOwnProduct(deps: ReadingDeps, orgId: string, slug: string): Promise<UsageProduct> {
  const product = await findProduct(deps.db.orm, orgId, slug);
  if (product) return product;
  const question = (await suggestSlugs(deps, orgId, [slug])).get(slug) ?? '';
  throw new AppError('not_found', `Your Organization has no product ${slug}.${question}`);
}

const paramsSchema = z.object({ idempotencyKey: usageEventSchema.shape.idempotencyKey });

const event = defineRoute({
  ...common,
  at: 'GET /api/usage/events/{idempotencyKey}',
  operationId: 'getUsageEvent',
  params: z.object({
    idempotencyKey: z.string().meta({ description: 'Percent-encoded, with a slash as `%2F`.' }),
  }),
  responses: { 200: json('The event.', recordedEventSchema) },
  handler: (deps: ReadingDeps) => async (req, res) => {
    const reader = await authenticateCall(deps, readHashedSecret(req), scope);
    const { idempotencyKey } = parseInput(paramsSchema, req.params);
    sendJson(res, 200, toJson(await readEvent(deps.db.orm, reader, idempotencyKey)));
  },
});

const lookup = defineRoute({
  ...common,
  at: 'POST /api/usage/events/lookup',
  operationId: 'lookUpUsageEvents',
  body: { schema: lookupSchema, maxBytes: MAX_LOOKUP_BYTES },
  responses: { 200: json('The results.', lookupAnswerSchema) },
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
