import { z } from 'zod';
import type { ReportedDatabase } from '../../../core/db/shards.js';
import type { AppError } from '../../../core/errors.js';
import { ExactNumber } from '../../../core/http/json.js';
import { timeField } from '../../../core/http/fields.js';
import { timeInput } from '../../../core/http/validate.js';
import type { CsvCell, CsvFile } from '../../../core/pages/csv.js';
import { DAY_MS, HOUR_MS, monthOf, monthRange } from '../../../core/time.js';
import {
  listCustomerUsage,
  type CustomerUsage,
  type CustomerUsageRange,
  type Granularity,
  type UsagePosition,
} from './queries.js';

export const usageSchema = z
  .object({
    organization: z.string().describe('The slug of the Organization.'),
    product: z.string().describe('The slug of the product.'),
    metric: z.string().describe('The metric of the events, even if the product no longer counts it.'),
    livemode: z.boolean(),
    start: timeField('Inclusive.'),
    end: timeField('Exclusive.'),
    quantity: z
      .string()
      .regex(/^\d+(\.\d+)?$/)
      .describe('The sum of the events, an exact decimal as text with all its digits.'),
    events: z.int().min(1).describe('The number of events in the sum.'),
    credits: z
      .string()
      .regex(/^-?\d+(\.\d+)?$/)
      .describe(
        "Credits that the product's usage of the step burned, less what corrections gave back: an exact decimal as text. If a product has several metrics in a step, its first row has the credits of all, and the others have 0.",
      ),
  })
  .meta({ id: 'CustomerUsage', description: "An Organization's usage of a product in one step." });

export const instant = z.union(
  [z.iso.date().refine((date) => date >= '1970', { abort: true }), timeInput],
  'must be a date or an RFC 3339 time in the years 1970 to 9999, like 2026-01-31 or 2026-01-31T12:00:00Z',
);

const starts: Record<Granularity, { ms: number; name: string; maxDays: number }> = {
  hour: { ms: HOUR_MS, name: 'an hour', maxDays: 31 },
  day: { ms: DAY_MS, name: 'a day', maxDays: 366 },
  month: { ms: DAY_MS, name: 'a month', maxDays: 366 },
  total: { ms: HOUR_MS, name: 'an hour', maxDays: 366 },
};

type Steps = Pick<CustomerUsageRange, 'from' | 'to' | 'granularity' | 'livemode'>;

type Fail = (name: string, detail: string) => AppError;

export function requireWholeSteps({ from, to, granularity }: Omit<Steps, 'livemode'>, fail: Fail): void {
  for (const [name, at] of Object.entries({ from, to }))
    if (!isStart(at, granularity))
      throw fail(name, `must be the start of ${starts[granularity].name} in UTC`);
  if (to <= from) throw fail('to', 'must be later than from');
}

/** @throws the error that `fail` creates from a field name and a message */
export function readSteps(steps: Steps, fail: Fail): Steps {
  requireWholeSteps(steps, fail);
  const { from, to, granularity } = steps;
  const days = (to.getTime() - from.getTime()) / DAY_MS;
  const most = starts[granularity].maxDays;
  if (days > most)
    throw fail('to', `must be at most ${most} days after from with granularity ${granularity}`);
  return steps;
}

const isStart = (at: Date, granularity: Granularity): boolean =>
  at.getTime() % starts[granularity].ms === 0 && (granularity !== 'month' || at.getUTCDate() === 1);

function endOf(start: string, { granularity, to }: Steps): string {
  const ms = Date.parse(start);
  if (granularity === 'total') return to.toISOString();
  if (granularity === 'month') return new Date(monthRange(monthOf(ms)).end).toISOString();
  return new Date(ms + starts[granularity].ms).toISOString();
}

export const present = ({ events, ...row }: CustomerUsage, steps: Steps): z.output<typeof usageSchema> => ({
  ...row,
  livemode: steps.livemode,
  end: endOf(row.start, steps),
  events: Number(events),
});

const position = /^(\S{1,64}) (\S{1,64}) (\S{24}) ([^\p{Cc}\p{Cs}]{1,255})$/u;

export const keyOf = ({ organization, product, start, metric }: UsagePosition): string =>
  `${organization} ${product} ${start} ${metric}`;

export const positionSchema = z
  .string()
  .refine((key) => timeInput.safeParse(position.exec(key)?.[3]).success);

export function toPosition(key: string): UsagePosition {
  const [, organization = '', product = '', start = '', metric = ''] = position.exec(key)!;
  return { organization, product, start, metric };
}

const columns = Object.keys(usageSchema.shape) as (keyof z.output<typeof usageSchema>)[];

/** Each statement starts after the last row of the previous one, so memory does not grow with the file. */
const BATCH_SIZE = 2_000;

type FileRange = Omit<CustomerUsageRange, 'after' | 'limit'>;

/** Named like `usage-month-20260101T00Z-to-20260201T00Z.csv`. */
export function toUsageCsv(db: ReportedDatabase, range: FileRange): CsvFile {
  const hour = (at: Date) => `${at.toISOString().slice(0, 13).replaceAll('-', '')}Z`;
  const filename = `usage-${range.granularity}-${hour(range.from)}-to-${hour(range.to)}.csv`;
  return { filename, columns, pieces: exportUsage(db, range) };
}

async function* exportUsage(db: ReportedDatabase, range: FileRange): AsyncGenerator<CsvCell[][]> {
  let after: UsagePosition | undefined;
  do {
    const rows = await listCustomerUsage(db, { ...range, after, limit: BATCH_SIZE });
    yield rows.map((row) => toCells(present(row, range)));
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1);
  } while (after);
}

const toCells = (row: z.output<typeof usageSchema>): CsvCell[] =>
  columns.map((name) => {
    if (name === 'quantity' || name === 'credits') return new ExactNumber(row[name]);
    return name === 'livemode' ? String(row.livemode) : row[name];
  });
