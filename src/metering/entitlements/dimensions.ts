import { z } from 'zod';
import { columnArrays } from '../../core/db/sql.js';
import type { Names, Run, Template } from '../../core/db/client.js';
import { describeText, textPattern } from '../../core/http/validate.js';

export const MAX_DIMENSIONS = 4;
/** With sums of their own, per Organization, product, mode and month. */
export const MAX_COMBINATIONS = 500;
export const MAX_SUBJECT_LENGTH = 128;
export const MAX_VALUE_LENGTH = 64;

/** Values contain no control characters. */
const SEPARATOR = '\u001f';
/** All combinations beyond the limit. */
export const OTHER = '\u001e';
export const SEPARATOR_SQL = `E'\\x1f'`;
export const OTHER_SQL = `E'\\x1e'`;

export type Dimensions = Readonly<Record<string, string>>;

const valuePattern = textPattern(MAX_VALUE_LENGTH);

/** By hand, because it runs for each event, and a zod record would silently drop a key named `__proto__`. */
export function isDimensions(input: unknown): boolean {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return false;
  const keys = Object.keys(input);
  if (keys.length > MAX_DIMENSIONS) return false;
  return keys.every((key) => {
    const value = (input as Record<string, unknown>)[key];
    return valuePattern.test(key) && typeof value === 'string' && valuePattern.test(value);
  });
}

export const dimensionsSchema = z
  .unknown()
  .refine(
    isDimensions,
    `must be an object of at most ${MAX_DIMENSIONS} texts of 1 to ${MAX_VALUE_LENGTH} characters without control characters`,
  )
  .meta({
    type: 'object',
    maxProperties: MAX_DIMENSIONS,
    propertyNames: describeText(MAX_VALUE_LENGTH),
    additionalProperties: { type: 'string', ...describeText(MAX_VALUE_LENGTH) },
  }) as unknown as z.ZodType<Dimensions>;

/** With sorted keys; undefined without values. */
export function dimensionsJson(dimensions: Dimensions | undefined): string | undefined {
  if (dimensions === undefined || Object.keys(dimensions).length === 0) return undefined;
  return JSON.stringify(Object.fromEntries(Object.entries(dimensions).sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The values that were sent, by key; undefined if there were none. */
export function decodeDimensions(keys: readonly string[], encoded: string): Dimensions | undefined {
  if (encoded === '') return undefined;
  const values = encoded.split(SEPARATOR);
  return Object.fromEntries(
    keys.flatMap((key, i) => (values[i] === undefined || values[i] === '' ? [] : [[key, values[i]]])),
  );
}

export const findUnknownKey = (keys: readonly string[], dimensions: Dimensions): string | undefined =>
  Object.keys(dimensions).find((key) => !keys.includes(key));

export function unknownDimension(slug: string, keys: readonly string[], dimensions: Dimensions): string {
  const own = keys.length === 0 ? 'It has none.' : `It has ${keys.join(', ')}.`;
  return `The product ${slug} has no dimension ${findUnknownKey(keys, dimensions)}. ${own}`;
}

/** `d (dimensions)` encodes the jsonb `asked` for the product `pr`. */
export const joinEncoded = (asked: string): string => {
  const values = Array.from({ length: MAX_DIMENSIONS }, (_, i) => `${asked} ->> pr.dimensions[${i + 1}]`);
  return `
  cross join lateral (
    select rtrim(concat(${values.join(`, ${SEPARATOR_SQL}, `)}), ${SEPARATOR_SQL}) collate "C" as dimensions
  ) d`;
};

export const hasUnknownKey = (asked: string): string => `${asked} - pr.dimensions <> '{}'`;

// A plan for "exists" could read the whole table.
const findListed = (t: Names, row: string, month: string, which: string): string => `(
      select c.dimensions from ${t('usage_combinations')} c
      where c.org_id = ${row}.org_id and c.product_id = ${row}.product_id and c.livemode = ${row}.livemode
        and c.period = ${month} and c.${which} limit 1)`;

/** For a row with org_id, product_id, livemode and dimensions. */
export const countedDimensions = (t: Names, row: string, month: string): string =>
  `case when ${row}.dimensions = '' then '' else coalesce(${findListed(t, row, month, `dimensions = ${row}.dimensions`)}, ${OTHER_SQL}) end`;

export const hasRoom = (t: Names, row: string, month: string): string =>
  `${findListed(t, row, month, `number = ${MAX_COMBINATIONS}`)} is null`;

/** A combination must be listed before it can count. */
export const needsListing = (t: Names, row: string, month: string): string =>
  `${countedDimensions(t, row, month)} = ${OTHER_SQL} and ${hasRoom(t, row, month)}`;

export interface Combination {
  orgId: string;
  productId: string;
  livemode: boolean;
  /** First day of the month. */
  period: string;
  dimensions: string;
}

/**
 * A separate commit. If two statements choose the same number, the second lists fewer than requested and the caller
 * tries again.
 * $1 org, $2 product, $3 livemode, $4 period, $5 dimensions, per combination
 */
const listCombinations: Template = {
  name: 'usage_combinations_list',
  text: (t) => `
${t.with} asked as materialized (
  select a.*, row_number() over (partition by org_id, product_id, livemode, period order by dimensions) as place
  from (
    select distinct a.* from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::date[], $5::text[])
      as a (org_id, product_id, livemode, period, dimensions)${t.held}
  ) a
  where ${findListed(t, 'a', 'a.period', 'dimensions = a.dimensions')} is null
)
insert into ${t('usage_combinations')} (org_id, product_id, livemode, period, number, dimensions)
select a.org_id, a.product_id, a.livemode, a.period, coalesce(l.number, 0) + a.place, a.dimensions
from asked a
left join lateral (
  select number from ${t('usage_combinations')}
  where org_id = a.org_id and product_id = a.product_id and livemode = a.livemode and period = a.period
  order by number desc limit 1
) l on true
where coalesce(l.number, 0) + a.place <= ${MAX_COMBINATIONS}
order by 1, 2, 3, 4, 5
on conflict do nothing
returning 1::text as listed`,
};

export async function addCombinations(run: Run, combinations: readonly Combination[]): Promise<void> {
  if (combinations.length === 0) return;
  const columns = ['orgId', 'productId', 'livemode', 'period', 'dimensions'] as const;
  await run(listCombinations, columnArrays(combinations, ...columns));
}

/** '' if the event was received before the product counted subjects. */
export const countedSubject = (event: string, product: string): string =>
  `case when ${event}.received_at >= ${product}.subjects_since then ${event}.subject else '' end`;
