import type { Request } from 'express';
import { z } from 'zod';
import {
  pageSchema,
  parseQuery,
  queryError,
  readRange,
  sendPage,
  toCursor,
} from '../../../core/http/page.js';
import { sendCsv } from '../../../core/pages/csv.js';
import { problemExample } from '../../../core/reference/problem-examples.js';
import { getProduct } from '../../entitlements/products.js';
import {
  listParts,
  notFoundExample,
  operatorRoute,
} from '../../../accounts/identity/operator/define-route.js';
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

/** @throws AppError invalid_request for `limit` or `cursor` with CSV, because a CSV file has all rows */
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
const january = { from: '2026-01-01', to: '2026-02-01' };
const used = {
  organization: 'acme',
  product: 'api-calls',
  metric: 'calls',
  livemode: true,
  start: '2026-01-01T00:00:00.000Z',
  end: '2026-02-01T00:00:00.000Z',
  quantity: '400',
  events: 1,
  credits: '50',
};

export const customerUsageRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/usage',
    operationId: 'listCustomerUsage',
    summary: 'Read the usage of all customers',
    description: `
For billing systems: the usage of each Organization and product, as exact sums of events by the time at which they occurred. Periods without events have no row.

At most 366 days, or 31 days by hour. With \`Accept: text/csv\` or \`format=csv\`, the response is one file with all rows; its columns are the fields in their order. New columns are only added at the end.

An event can be reported up to seven days after it occurred, so the sums of a month are final on the eighth of the next month, unless the operator sends older events or corrects.
`.trim(),
    query: querySchema,
    responses: {
      200: { ...responses[200], content: { ...responses[200].content, 'text/csv': null } },
    },
    good: { query: { ...january, granularity: 'month' } },
    examples: [
      {
        name: 'month',
        summary: 'The invoices for January',
        request: { query: { ...january, granularity: 'month' } },
        answer: { usage: [used], nextCursor: null },
      },
      {
        name: 'hours',
        summary: 'A morning by hour, for one Organization and product',
        request: {
          query: {
            from: '2026-01-05T06:00:00Z',
            to: '2026-01-05T12:00:00Z',
            granularity: 'hour',
            organization: 'acme',
            product: 'api-calls',
          },
        },
        answer: {
          usage: [{ ...used, start: '2026-01-05T09:00:00.000Z', end: '2026-01-05T10:00:00.000Z' }],
          nextCursor: null,
        },
      },
      {
        name: 'nextPage',
        summary: 'A page after the last row',
        request: {
          query: { ...january, granularity: 'total', cursor: toCursor(keyOf(used)) },
        },
        answer: { usage: [], nextCursor: null },
      },
      {
        name: 'csv',
        summary: 'A file',
        request: { query: { ...january, granularity: 'day', format: 'csv' } },
        answer:
          'organization,product,metric,livemode,start,end,quantity,events,credits\r\n"acme","api-calls","calls","true","2026-01-05T00:00:00.000Z","2026-01-06T00:00:00.000Z",400,1,50\r\n',
      },
      problemExample('invalid_request', {
        summary: 'Months that do not start at a month',
        detail: 'The query parameter from must be the start of a month in UTC.',
        request: { query: { from: '2026-01-15', to: '2026-02-15', granularity: 'month' } },
      }),
      notFoundExample('There is no Organization "initech".', {
        query: { ...january, granularity: 'month', organization: 'initech' },
      }),
    ],
    handler:
      ({ db, log }) =>
      async (req, res) => {
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
