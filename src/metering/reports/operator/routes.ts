import type { Request } from 'express';
import { z } from 'zod';
import { pageSchema, parseQuery, queryError, readRange, sendPage } from '../../../core/http/page.js';
import { sendCsv } from '../../../core/pages/csv.js';
import { getProduct } from '../../entitlements/products.js';
import { listParts, operatorRoute } from '../../../accounts/identity/operator/define-route.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';
import { granularities, listCustomerUsage } from './queries.js';
import {
  instant,
  keyOf,
  positionSchema,
  present,
  readSteps,
  toPosition,
  toUsageCsv,
  usageSchema,
} from './steps.js';

const querySchema = pageSchema
  .extend({
    from: instant.describe('Inclusive. A date (UTC) or an RFC 3339 time, at the start of a step.'),
    to: instant.describe('Exclusive, in the same form; later than `from`.'),
    granularity: z
      .enum(granularities, 'must be hour, day, month or total')
      .describe('The step size, in UTC. `total` is one step from `from` to `to`, which must be whole hours.'),
    organization: slugSchema.optional().describe('Only the Organization with this slug.'),
    product: slugSchema.optional().describe('Only the product with this slug.'),
    livemode: z
      .enum(['true', 'false'], 'must be true or false')
      .default('true')
      .describe('`true`: usage reported with live keys; `false`: with test keys.'),
    format: z
      .enum(['json', 'csv'], 'must be json or csv')
      .optional()
      .describe('Default: the format that `Accept` prefers, or JSON.'),
  })
  .strict();

/** A CSV file has all rows, so it refuses `limit` and `cursor`. */
function wantsCsv(req: Request, format: 'json' | 'csv' | undefined): boolean {
  const isCsv = format === undefined ? req.accepts(['json', 'csv']) === 'csv' : format === 'csv';
  const part = ['limit', 'cursor'].find((name) => name in req.query);
  if (isCsv && part !== undefined) throw queryError(part, 'is only for JSON. CSV returns all rows');
  return isCsv;
}

const { query: _page, responses } = listParts(
  'usage',
  usageSchema,
  'Ordered by `organization`, `product`, `start` and `metric`.',
);

export const customerUsageRoutes = [
  operatorRoute({
    at: 'GET /operator/usage',
    operationId: 'listCustomerUsage',
    query: querySchema,
    responses: {
      200: { ...responses[200], content: { ...responses[200].content, 'text/csv': null } },
    },
    handler: (deps) => async (req, res) => {
      const { db, log } = deps;
      const { after, limit } = readRange(req, positionSchema);
      const query = parseQuery(querySchema, req.query);
      const { livemode, from, to } = query;
      const given = { from: new Date(from), to: new Date(to), granularity: query.granularity };
      const steps = readSteps({ ...given, livemode: livemode === 'true' }, queryError);
      res.vary('Accept');
      const isCsv = wantsCsv(req, query.format);
      const { organization, product } = query;
      const orgId = organization && (await getOrganization(db.orm, organization)).id;
      const productId = product && (await getProduct(db.orm, product)).id;
      const range = { ...steps, orgId, productId };
      if (isCsv) return sendCsv(log, req, res, toUsageCsv(db, range));
      const page = { after: after === undefined ? undefined : toPosition(after), limit: limit + 1 };
      const rows = await listCustomerUsage(db, { ...range, ...page });
      sendPage(res, 'usage', { rows, limit, keyOf, present: (row) => present(row, steps) });
    },
  }),
];
