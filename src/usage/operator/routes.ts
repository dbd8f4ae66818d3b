import type { Request } from 'express';
import { z } from 'zod';
import type { ReportedDatabase } from '../../core/db/shards.js';
import { ExactNumber } from '../../core/http/json.js';
import { pageSchema, parseQuery, queryError, readRange, sendPage } from '../../core/http/page.js';
import { timeField } from '../../core/http/fields.js';
import { timeInput } from '../../core/http/validate.js';
import { sendCsv, type CsvCell } from '../../core/pages/csv.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { DAY_MS, HOUR_MS, monthOf, monthRange } from '../../core/time.js';
import { getProduct } from '../../entitlements/products.js';
import { cursorOf, listParts, notFoundExample, operatorRoute } from '../../identity/operator/define-route.js';
import { slugSchema } from '../../identity/operator/schema.js';
import { getOrganization } from '../../identity/organizations/organizations.js';
import {
  granularities,
  listCustomerUsage,
  type CustomerUsage,
  type CustomerUsageRange,
  type Granularity,
  type UsagePosition,
} from './queries.js';

const instant = z.union(
  [z.iso.date().refine((date) => date >= '1970'), timeInput],
  'must be a date or an RFC 3339 time of the years 1970 to 9999, like 2026-01-31 or 2026-01-31T12:00:00Z',
);

const querySchema = pageSchema
  .extend({
    from: instant.describe('Inclusive: a date (UTC) or an RFC 3339 time, the start of a whole step.'),
    to: instant.describe('Exclusive, in the same form; later than `from`.'),
    granularity: z
      .enum(granularities, 'must be hour, day, month or total')
      .describe('The steps of time, in UTC. `total` is one step from `from` to `to`, which are whole hours.'),
    organization: slugSchema.optional().describe('The slug of the one Organization to read.'),
    product: slugSchema.optional().describe('The slug of the one product to read.'),
    livemode: z
      .enum(['true', 'false'], 'must be true or false')
      .default('true')
      .describe('`true`: what live keys reported; `false`: what test keys did.'),
    format: z
      .enum(['json', 'csv'], 'must be json or csv')
      .optional()
      .describe('Left out: as `Accept` prefers, JSON where it takes anything.'),
  })
  .strict();

const answerSchema = z
  .object({
    organization: z.string().describe('The slug of the Organization.'),
    product: z.string().describe('The slug of the product.'),
    metric: z
      .string()
      .describe('As the events named it: one that the product no longer counts is there, too.'),
    livemode: z.boolean(),
    start: timeField('Inclusive.'),
    end: timeField('Exclusive.'),
    quantity: z
      .string()
      .regex(/^\d+(\.\d+)?$/)
      .describe('The sum of the events: an exact decimal, as text, with all its digits.'),
    events: z.int().min(1).describe('How many events that is the sum of.'),
  })
  .meta({ id: 'CustomerUsage', description: 'What an Organization used of a product in a step of time.' });

const columns = Object.keys(answerSchema.shape) as (keyof z.output<typeof answerSchema>)[];

const maxDays: Record<Granularity, number> = { hour: 31, day: 366, month: 366, total: 366 };

type Steps = Pick<CustomerUsageRange, 'from' | 'to' | 'granularity' | 'livemode'>;

/** @throws AppError invalid_request that names the query parameter */
function readSteps(query: z.output<typeof querySchema>): Steps {
  const { granularity } = query;
  const [from, to] = [new Date(query.from), new Date(query.to)];
  for (const [name, at] of Object.entries({ from, to }))
    if (!isStart(at, granularity))
      throw queryError(name, `must be the start of ${startOf[granularity]} in UTC`);
  if (to <= from) throw queryError('to', 'must be later than from');
  const days = (to.getTime() - from.getTime()) / DAY_MS;
  const most = maxDays[granularity];
  if (days > most)
    throw queryError('to', `must be at most ${most} days after from where granularity is ${granularity}`);
  return { from, to, granularity, livemode: query.livemode === 'true' };
}

const startOf: Record<Granularity, string> = {
  hour: 'an hour',
  day: 'a day',
  month: 'a month',
  total: 'an hour',
};

function isStart(at: Date, granularity: Granularity): boolean {
  if (granularity === 'month' && at.getUTCDate() !== 1) return false;
  return at.getTime() % (granularity === 'day' || granularity === 'month' ? DAY_MS : HOUR_MS) === 0;
}

function endOf(start: string, { granularity, to }: Steps): string {
  const ms = Date.parse(start);
  if (granularity === 'total') return to.toISOString();
  if (granularity === 'month') return new Date(monthRange(monthOf(ms)).end).toISOString();
  return new Date(ms + (granularity === 'day' ? DAY_MS : HOUR_MS)).toISOString();
}

const present = ({ events, ...row }: CustomerUsage, steps: Steps): z.output<typeof answerSchema> => ({
  ...row,
  livemode: steps.livemode,
  end: endOf(row.start, steps),
  events: Number(events),
});

const position = /^(\S{1,64}) (\S{1,64}) (\S{24}) ([^\p{Cc}\p{Cs}]{1,255})$/u;

const keyOf = ({ organization, product, start, metric }: UsagePosition): string =>
  `${organization} ${product} ${start} ${metric}`;

const positionSchema = z.string().refine((key) => timeInput.safeParse(position.exec(key)?.[3]).success);

function toPosition(key: string): UsagePosition {
  const [, organization = '', product = '', start = '', metric = ''] = position.exec(key)!;
  return { organization, product, start, metric };
}

/** Rows of a statement of the file. Each begins behind the last row before, so that memory does not grow with the file. */
const BATCH_SIZE = 2_000;

async function* exportUsage(
  db: ReportedDatabase,
  range: Omit<CustomerUsageRange, 'after' | 'limit'>,
): AsyncGenerator<CsvCell[][]> {
  let after: UsagePosition | undefined;
  do {
    const rows = await listCustomerUsage(db, { ...range, after, limit: BATCH_SIZE });
    yield rows.map((row) => toCells(present(row, range)));
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1);
  } while (after);
}

const toCells = (row: z.output<typeof answerSchema>): CsvCell[] =>
  columns.map((name) => {
    if (name === 'quantity') return new ExactNumber(row.quantity);
    return name === 'livemode' ? String(row.livemode) : row[name];
  });

/** `usage-month-20260101T00Z-to-20260201T00Z.csv`. */
function toFilename({ granularity, from, to }: Steps): string {
  const hour = (at: Date) => `${at.toISOString().slice(0, 13).replaceAll('-', '')}Z`;
  return `usage-${granularity}-${hour(from)}-to-${hour(to)}.csv`;
}

/** @throws AppError invalid_request for part of a list: a file has all rows */
function wantsCsv(req: Request, format: 'json' | 'csv' | undefined): boolean {
  const isCsv = format === undefined ? req.accepts(['json', 'csv']) === 'csv' : format === 'csv';
  const part = ['limit', 'cursor'].find((name) => name in req.query);
  if (isCsv && part !== undefined) throw queryError(part, 'is for JSON alone: CSV has all rows');
  return isCsv;
}

const { query: _page, responses } = listParts(
  'usage',
  answerSchema,
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
};

export const customerUsageRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/usage',
    operationId: 'listCustomerUsage',
    summary: 'Read the usage of all customers',
    description: `
For a billing system: what each Organization used of each product, as exact sums of its events by the time at which they occurred. Steps without an event have no row.

At most 366 days, of hours 31. With \`Accept: text/csv\` or \`format=csv\` the answer is one file with all rows, whose columns are the fields in their order.

An event may be reported up to seven days after it occurred: the sums of a month are final on the eighth of the next.
`.trim(),
    query: querySchema,
    responses: {
      200: { ...responses[200], content: { ...responses[200].content, 'text/csv': null } },
    },
    errors: ['not_found'],
    good: { query: { ...january, granularity: 'month' } },
    examples: [
      {
        name: 'month',
        summary: 'What to put on the invoices of January',
        request: { query: { ...january, granularity: 'month' } },
        answer: { usage: [used], nextCursor: null },
      },
      {
        name: 'hours',
        summary: 'The hours of a morning, of one Organization and product',
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
          query: { ...january, granularity: 'total', cursor: cursorOf(keyOf(used)) },
        },
        answer: { usage: [], nextCursor: null },
      },
      {
        name: 'csv',
        summary: 'A file',
        request: { query: { ...january, granularity: 'day', format: 'csv' } },
        answer:
          'organization,product,metric,livemode,start,end,quantity,events\r\nacme,api-calls,calls,true,2026-01-05T00:00:00.000Z,2026-01-06T00:00:00.000Z,400,1\r\n',
      },
      problemExample('invalid_request', {
        summary: 'Months that do not begin with one',
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
        const steps = readSteps(query);
        res.vary('Accept');
        const isCsv = wantsCsv(req, query.format);
        const { organization, product } = query;
        const orgId = organization && (await getOrganization(db.orm, organization)).id;
        const productId = product && (await getProduct(db.orm, product)).id;
        const range = { ...steps, orgId, productId };
        if (isCsv) {
          const pieces = exportUsage(db, range);
          return sendCsv(log, req, res, { filename: toFilename(steps), columns, pieces });
        }
        const page = { after: after === undefined ? undefined : toPosition(after), limit: limit + 1 };
        const rows = await listCustomerUsage(db, { ...range, ...page });
        sendPage(res, 'usage', { rows, limit, keyOf, present: (row) => present(row, steps) });
      },
  }),
];
