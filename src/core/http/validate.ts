import { z } from 'zod';
import { AppError, type ErrorPlace } from '../errors.js';
import { DAY_MS } from '../time.js';

/** Excludes control characters, and surrogate halves because UTF-8 cannot encode them. */
export const textPattern = (maxLength: number, minLength = 1) =>
  new RegExp(`^[^\\p{Cc}\\p{Cs}]{${minLength},${maxLength}}$`, 'u');

/** The OpenAPI document writes the classes out, because few languages know their names and some refuse surrogate halves. */
export const describeText = (maxLength: number, minLength = 1) => ({
  minLength,
  maxLength,
  pattern: `^[^\\u0000-\\u001f\\u007f-\\u009f]{${minLength},${maxLength}}$`,
});

export const text = (maxLength: number, minLength = 1) =>
  z
    .string()
    .regex(textPattern(maxLength, minLength), {
      error: ({ input }) =>
        /\p{Cs}/u.test(String(input))
          ? 'contains half of a surrogate pair, which UTF-8 cannot encode'
          : `must be ${minLength === 0 ? 'at most' : `${minLength} to`} ${maxLength} characters without control characters`,
    })
    .meta(describeText(maxLength, minLength));

export const withoutRepeats = <T extends z.ZodType>(list: z.ZodArray<T>, item: string) =>
  list
    .refine((values) => new Set(values).size === values.length, `must not name a ${item} twice`)
    .meta({ uniqueItems: true });

export const nameField = text(200).refine((name) => !/^\s+$/.test(name), 'must not be blank');

const plainNumber = /^\d{1,30}(?:\.\d{1,30})?$/;
/** `1,000`, `1 000`, `1_000.5`. */
const groupedNumber = /^[1-9]\d{0,2}([,_'’\s])\d{3}(?:\1\d{3})*(?:\.\d{1,30})?$/;
/** In many countries `1.000` and `12.500` mean thousands. */
const ambiguousNumber = /^[1-9]\d{0,2}\.\d\d0$/;

/** Keeps every digit. */
export const decimalField = z.string().transform((typed, context) => {
  const trimmed = typed.trim();
  const number = groupedNumber.test(trimmed) ? trimmed.replaceAll(/[^\d.]/g, '') : trimmed;
  if (ambiguousNumber.test(number)) {
    const [thousands, decimals] = [number.replace('.', ''), number.replace(/\.?0+$/, '')];
    context.addIssue(`could mean ${thousands} or ${decimals}: enter one of these`);
  } else if (!plainNumber.test(number))
    context.addIssue(`must be a number from 0, like ${typed.includes(',') ? '1,000.5' : '12 or 0.5'}`);
  return number;
});

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

const namedDay = /^(?:[a-z]{3,9},?\s+)?(\d\d?)\s+([a-z]+)(?:\s+(\d{4}))?$/i;

/** `2026-11-31`, from `31 Nov 2026`; other text is only trimmed. */
function toIsoDay(typed: string, latestYear: number): string {
  const [, day = '', month = '', year = String(latestYear)] = namedDay.exec(typed.trim()) ?? [];
  const place = months.indexOf(month.slice(0, 3).toLowerCase()) + 1;
  return place === 0 ? typed.trim() : [year, pad(String(place)), pad(day)].join('-');
}

/**
 * `2026-11-29`, from what pages write or people type: `Sun 29 Nov 2026`, `29 Nov`, `today`. A day without a year is the
 * latest one. Other text, and a day that does not exist, is only trimmed.
 */
export function readDay(typed: string, nowMs: number): string {
  const dayBefore = (days: number) => new Date(nowMs - days * DAY_MS).toISOString().slice(0, 10);
  const named = ['today', 'yesterday'].indexOf(typed.trim().toLowerCase());
  if (named !== -1) return dayBefore(named);
  const year = new Date(nowMs).getUTCFullYear();
  const day = toIsoDay(typed, year);
  const read = day <= dayBefore(0) ? day : toIsoDay(typed, year - 1);
  return isDay(read) ? read : typed.trim();
}

const isDay = (typed: string): boolean => z.iso.date().safeParse(typed).success;

/** Undefined unless the text names a day that its month lacks. Without a year, February has 29 days. */
function refuseDay(typed: string): string | undefined {
  const [, year, month, day] = /^(\d{4})-(0[1-9]|1[0-2])-(\d\d)$/.exec(toIsoDay(typed, 2000)) ?? [];
  const last = new Date(Date.UTC(Number(year), Number(month), 0));
  return Number(day) > last.getUTCDate()
    ? `${last.toLocaleString('en', { month: 'long', timeZone: 'UTC' })} has only ${last.getUTCDate()} days`
    : undefined;
}

/** A day from `readDay`. The message names the format that the fields show. */
export const dayField = z
  .string()
  .refine(isDay, { error: ({ input }) => refuseDay(String(input)) ?? 'must be a date like 29 Nov 2026' })
  .refine((typed) => typed.startsWith('20') || !isDay(typed), 'must be in the years 2000 to 2099');

const minute = /^(.*\d{4}.*?)(?:,?[T\s]+(\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(?:\s*UTC|Z)?)?$/i;

/** In UTC, as pages write it or in ISO 8601. A day begins at 00:00. */
export const minuteField = z.string().transform((typed, context) => {
  const [, day = '', time = '00:00'] = minute.exec(typed.trim()) ?? [];
  const date = z.iso.date().safeParse(readDay(day, 0));
  const at = new Date(`${date.data}T${time}Z`);
  if (Number.isNaN(at.getTime()))
    context.addIssue(refuseDay(day) ?? 'must be a time, like 29 Nov 2026 12:00');
  return at;
});

const pad = (digits: string): string => digits.padStart(2, '0');

/** Times outside this range cannot be written as RFC 3339 in UTC or are obvious mistakes. */
const earliest = Date.parse('1970-01-01T00:00:00Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

/** A `Date` would drop digits beyond milliseconds. */
export const timeInput = z.iso
  .datetime({
    offset: true,
    abort: true,
    error: 'must be an RFC 3339 time with an offset, like 2026-01-31T12:00:00Z',
  })
  .refine((value) => {
    const ms = Date.parse(value);
    return ms >= earliest && ms <= latest;
  }, 'must be in the years 1970 to 9999');

/** Input with more errors usually repeats the same mistake. */
export const MAX_PLACES = 100;
/** All known fields have shorter names. */
const MAX_NAME_LENGTH = 255;

const typeNames: Record<string, string> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
};

const formats: Record<string, string> = {
  email: 'an e-mail address',
  uuid: 'a UUID',
  url: 'a web address',
  date: 'a date like 2026-01-31',
  datetime: 'an RFC 3339 time like 2026-01-31T12:00:00Z',
};

const units: Record<string, string> = { string: ' characters', array: ' items', set: ' items' };

/** The text follows the field name. The validator's own messages are written for programmers. */
const describeIssue: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? 'is required'
        : `must be ${typeNames[issue.expected] ?? 'another type'}`;
    case 'invalid_format':
      return formats[issue.format] ? `must be ${formats[issue.format]}` : 'has the wrong format';
    case 'invalid_value':
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'too_small':
      return issue.inclusive === false
        ? `must be above ${issue.minimum}${units[issue.origin] ?? ''}`
        : `must be at least ${issue.minimum}${units[issue.origin] ?? ''}`;
    case 'too_big':
      return issue.inclusive === false
        ? `must be below ${issue.maximum}${units[issue.origin] ?? ''}`
        : `must be at most ${issue.maximum}${units[issue.origin] ?? ''}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'unrecognized_keys':
      return 'is not a known field';
    case 'invalid_key':
      return issue.issues[0]?.message ?? 'is not an allowed key';
    default:
      return 'is not an allowed value';
  }
};

/** `reportInput` lets `describeIssue` distinguish a missing value from one of the wrong type. */
export const parseOptions = { reportInput: true, error: describeIssue };

/**
 * Null for an optional field means that the field is left out.
 * @throws AppError invalid_request whose `errors` name every invalid field, up to `MAX_PLACES`
 */
export const parseInput = <T extends z.ZodType>(schema: T, input: unknown): z.output<T> =>
  orRefuse(parseLoosely(schema, input));

/** For a declaration, in which null and a field that is left out may differ. */
export const parseExactly = <T extends z.ZodType>(schema: T, input: unknown): z.output<T> =>
  orRefuse(schema.safeParse(input, parseOptions));

function orRefuse<T>(parsed: z.ZodSafeParseResult<T>): T {
  if (parsed.success) return parsed.data;
  const places: ErrorPlace[] = [];
  for (const issue of parsed.error.issues) {
    places.push(...toPlaces(issue));
    if (places.length > MAX_PLACES) break;
  }
  throw refuse(places);
}

/** Parses once more without the fields whose null was refused; a required one is then refused as before. */
function parseLoosely<T extends z.ZodType>(schema: T, input: unknown) {
  const parsed = schema.safeParse(input, parseOptions);
  const nulls = parsed.error?.issues.filter((issue) => issue.input === null && issue.path.length > 0) ?? [];
  if (nulls.length === 0 || nulls.length > MAX_PLACES) return parsed;
  const copy: unknown = structuredClone(input);
  for (const { path } of nulls) {
    const parent = path.slice(0, -1).reduce<any>((value, part) => value[part], copy);
    if (!Array.isArray(parent)) delete parent[path.at(-1)!];
  }
  const again = schema.safeParse(copy, parseOptions);
  return again.success ? again : parsed;
}

/** Parsing 500 events in one call takes a fifth of the time of 500 calls; chunks of 25 take a quarter. */
const ITEMS_AT_ONCE = 25;

/** @param path path of the list in the body */
export function parseItems<T extends z.ZodType>(schema: z.ZodArray<T>, items: unknown[], path: string[]) {
  const { values, places } = readItems(schema, items, path);
  if (places.length > 0) throw refuse(places);
  return values;
}

/**
 * Stops when there are too many errors to report, because an invalid value costs a hundred times as much as a valid
 * one.
 * @returns the valid items, their indexes, and the places of all errors
 */
export function readItems<T extends z.ZodType>(schema: z.ZodArray<T>, items: unknown[], path: string[]) {
  const values: z.output<T>[] = [];
  const indexes: number[] = [];
  const places: ErrorPlace[] = [];
  const take = (from: number, parsed: readonly z.output<T>[]) => {
    for (const [i, value] of parsed.entries()) {
      values.push(value);
      indexes.push(from + i);
    }
  };
  for (let from = 0; from < items.length && places.length <= MAX_PLACES; from += ITEMS_AT_ONCE) {
    const chunk = items.slice(from, from + ITEMS_AT_ONCE);
    const parsed = parseLoosely(schema, chunk);
    if (parsed.success) {
      take(from, parsed.data);
      continue;
    }
    const wrong = new Set(parsed.error.issues.map((issue) => Number(issue.path[0])));
    for (const [i, item] of chunk.entries()) {
      const one = wrong.has(i) ? parseLoosely(schema, [item]) : schema.safeParse([item], parseOptions);
      if (one.success) take(from + i, one.data);
      else
        for (const issue of one.error.issues)
          places.push(...toPlaces({ ...issue, path: [...path, from + i, ...issue.path.slice(1)] }));
    }
  }
  if (values.length === 0 || places.length > MAX_PLACES) throw refuse(places);
  return { values, indexes, places };
}

function refuse(places: ErrorPlace[]): AppError {
  const errors = places.slice(0, MAX_PLACES);
  const first = errors[0]!;
  const more =
    places.length > MAX_PLACES
      ? ` (and at least ${MAX_PLACES} more; errors lists the first ${MAX_PLACES})`
      : places.length > 1
        ? ` (and ${places.length - 1} more, see errors)`
        : '';
  const detail = `${first.pointer === '' ? 'The body' : first.pointer} ${first.detail}${more}`;
  return new AppError('invalid_request', detail, { errors });
}

function toPlaces(issue: z.core.$ZodIssue): ErrorPlace[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => place([...issue.path, key], 'is not a known field'));
  const isMissing = issue.code === 'invalid_type' && issue.input === undefined;
  return [place(issue.path, isMissing ? 'is required' : issue.message)];
}

function place(path: PropertyKey[], detail: string): ErrorPlace {
  const index = path.find((part) => typeof part === 'number');
  const pointer = path.map((part) => `/${toPointerPart(String(part))}`).join('');
  return { ...(index === undefined ? {} : { index }), pointer, code: 'invalid_request', detail };
}

function toPointerPart(name: string): string {
  const shown = name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}…` : name;
  return escapePointer(shown);
}

/** RFC 6901. */
export const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** The detail is like `A batch holds at most 500 events`. */
export function requireFew(sent: unknown, takes: string, most: number, items: string): void {
  if (Array.isArray(sent) && sent.length > most)
    throw new AppError('batch_too_large', `${takes} at most ${most} ${items}. This one has ${sent.length}.`);
}
