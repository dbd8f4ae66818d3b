import { createHash } from 'node:crypto';
import type { UsageEvent } from '../../../client/client.js';
import { CommandError } from '../../../commands/kit/command.js';
import { readOwnDetails } from './own-export.js';

export interface SourceRecord {
  /**
   * Position in the input, which increases from record to record: the line where the record starts, or its 1-based
   * index in a JSON document.
   */
  number: number;
  /** RFC 6901 pointer to the record in a JSON document; undefined for line-based formats. */
  pointer?: string;
  /** Property names on the path from the root of a JSON document to the record: `$1`, `$2` and so on. */
  keys: readonly string[];
  value: unknown;
  /** True if the record is a row of Gauge's own CSV file of events. */
  isOwnExport?: boolean;
  /** Why the record cannot be mapped; if set, `value` is the record's raw text. */
  problem?: string;
  /** Number of bytes of the file read when this record was produced. */
  position: number;
}

/** An event and its JSON text. The text is needed because the quantity may have more digits than a double can hold. */
export interface OutgoingEvent {
  record: SourceRecord;
  event: UsageEvent;
  json: string;
}

export interface RecordRefusal {
  record: SourceRecord;
  code: string;
  detail: string;
  event?: UsageEvent;
}

/** Flag values as given; undefined for flags that were omitted. */
export interface MappingOptions {
  productSlug?: string | undefined;
  metric?: string | undefined;
  quantity?: string | undefined;
  occurredAt?: string | undefined;
  idempotencyKey?: string | undefined;
  subject?: string | undefined;
  /** `name=field` for each dimension. */
  dimension?: string[] | undefined;
}

export type MapRecord = (record: SourceRecord) => OutgoingEvent | RecordRefusal;

export interface MappedColumn {
  flag: string;
  name: string;
}

/**
 * Lists the columns that a mapping requires. Omits columns that may be missing: the default fields for quantity and
 * time.
 */
export function listMappedColumns(options: MappingOptions): MappedColumn[] {
  const expressions: [flag: string, expression: string | undefined][] = [
    ['--product-slug', options.productSlug ?? 'productSlug'],
    ['--metric', options.metric ?? 'metric'],
    ['--quantity', options.quantity],
    ['--occurred-at', options.occurredAt === 'none' ? undefined : options.occurredAt],
    ['--subject', options.subject],
    ...divideDimensions(options).map(([, field]): [string, string] => ['--dimension', field]),
    [
      '--idempotency-key',
      hashExpression.test(options.idempotencyKey ?? '')
        ? undefined
        : (options.idempotencyKey ?? 'idempotencyKey'),
    ],
  ];
  return expressions.flatMap(([flag, expression]) => {
    const name = expression === undefined ? undefined : fieldOf(expression);
    return name === undefined ? [] : [{ flag, name }];
  });
}

/** @throws CommandError for a flag that is not `name=field` */
const divideDimensions = ({ dimension = [] }: MappingOptions): [name: string, field: string][] =>
  dimension.map((flag) => {
    const at = flag.indexOf('=');
    if (at < 1 || at === flag.length - 1)
      throw new CommandError('--dimension needs a name and a field, like model=model_name.');
    return [flag.slice(0, at), flag.slice(at + 1)];
  });

/** The field that an expression reads; undefined for a constant or a path name such as `$1`. */
function fieldOf(expression: string): string | undefined {
  if (expression.startsWith('=') || pathName.test(expression)) return undefined;
  const inner = lowered.exec(expression)?.[1];
  if (inner !== undefined) return fieldOf(inner);
  return expression.startsWith('.') ? expression.slice(1) : expression;
}

const lowered = /^lower\((.+)\)$/s;
const pathName = /^\$([1-9]\d?)$/;
/** Matches `hash` or `hash(text)`. */
const hashExpression = /^hash(?:\((.*)\))?$/s;

type Read = (record: SourceRecord) => unknown;

class UnmappedError extends Error {}

/** @throws CommandError for an invalid flag */
export function createMapping(options: MappingOptions): MapRecord {
  const textAt = (name: 'productSlug' | 'metric' | 'idempotencyKey', flag: string) => {
    const expression = options[name] ?? name;
    const read = name === 'idempotencyKey' ? keyReaderOf(expression) : readerOf(flag, expression);
    return (record: SourceRecord) => toText(read(record), flag, expression);
  };
  const productSlug = textAt('productSlug', '--product-slug');
  const metric = textAt('metric', '--metric');
  const quantity = readerOf('--quantity', options.quantity ?? 'quantity');
  const hasTime = options.occurredAt !== 'none';
  const occurredAt = readerOf('--occurred-at', options.occurredAt ?? 'occurredAt');
  const idempotencyKey = textAt('idempotencyKey', '--idempotency-key');
  const subject = options.subject === undefined ? undefined : readerOf('--subject', options.subject);
  const dimensions = divideDimensions(options).map(
    ([name, field]) => [name, readerOf('--dimension', field)] as const,
  );

  /** An empty value counts as no subject or no dimension. */
  function readDetails(record: SourceRecord): Pick<UsageEvent, 'subject' | 'dimensions'> {
    const textOf = (read: Read, flag: string) => {
      const value = read(record);
      return value === undefined || value === null || value === '' ? undefined : toText(value, flag, '');
    };
    const named = dimensions.flatMap(([name, read]) => {
      const value = textOf(read, '--dimension');
      return value === undefined ? [] : [[name, value] as const];
    });
    const ofSubject = subject && textOf(subject, '--subject');
    return {
      ...(record.isOwnExport ? readOwnDetails(record.value as Record<string, string>) : {}),
      ...(ofSubject === undefined ? {} : { subject: ofSubject }),
      ...(named.length === 0 ? {} : { dimensions: Object.fromEntries(named) }),
    };
  }

  function toEvent(record: SourceRecord): OutgoingEvent {
    const { value } = record;
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new UnmappedError('The record is not an object.');
    const digits = toDecimal(pick(record, quantity, options.quantity, '--quantity'));
    const time = hasTime ? pick(record, occurredAt, options.occurredAt, '--occurred-at') : undefined;
    const event: UsageEvent = {
      productSlug: productSlug(record),
      metric: metric(record),
      ...(digits === undefined ? {} : { quantity: Number(digits) }),
      ...(time === undefined ? {} : { occurredAt: toText(time, '--occurred-at', '') }),
      idempotencyKey: idempotencyKey(record),
      ...readDetails(record),
    };
    return { record, event, json: toEventJson(event, digits) };
  }

  return (record) => {
    if (record.problem !== undefined) return { record, code: 'invalid_record', detail: record.problem };
    try {
      return toEvent(record);
    } catch (error) {
      if (error instanceof UnmappedError) return { record, code: 'invalid_record', detail: error.message };
      // Only a record nested thousands of levels deep overflows the stack.
      if (error instanceof RangeError)
        return { record, code: 'invalid_record', detail: 'The record is nested too deeply.' };
      throw error;
    }
  };
}

/** A default field may be missing or empty; a field named by a flag may not. */
function pick(record: SourceRecord, read: Read, given: string | undefined, flag: string): unknown {
  const value = read(record);
  if (value !== undefined && value !== null && value !== '') return value;
  if (given === undefined) return undefined;
  throw new UnmappedError(`The record has no value at ${given} (${flag}).`);
}

function readerOf(flag: string, expression: string): Read {
  if (expression.startsWith('=')) {
    const constant = expression.slice(1);
    if (constant === '') throw new CommandError(`${flag} has no value after the equals sign.`);
    return () => constant;
  }
  const lower = lowered.exec(expression);
  if (lower) {
    const inner = readerOf(flag, lower[1]!);
    return (record) => {
      const value = inner(record);
      return typeof value === 'string' ? value.toLowerCase() : value;
    };
  }
  const key = pathName.exec(expression);
  if (key) return ({ keys }) => keys[Number(key[1]) - 1];
  const path = fieldOf(expression);
  if (!path) throw new CommandError(`${flag} needs the name of a field, or a constant like =value.`);
  const parts = path.split('.');
  return ({ value }) => readField(value, path) ?? parts.reduce(readField, value);
}

function readField(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

/** A `hash` expression derives the key from the record, its position in the input and the text in parentheses. */
function keyReaderOf(expression: string): Read {
  if (expression.startsWith('=')) {
    throw new CommandError(
      '--idempotency-key cannot be a constant, because every event after the first would be a repeat.',
    );
  }
  const hash = hashExpression.exec(expression);
  if (!hash) return readerOf('--idempotency-key', expression);
  const salt = hash[1] ?? '';
  return ({ number, keys, value }) =>
    createHash('sha256')
      .update(JSON.stringify([salt, number, keys, value]))
      .digest('hex');
}

function toText(value: unknown, flag: string, expression: string): string {
  if (typeof value === 'string' && value !== '') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value === undefined || value === null || value === '')
    throw new UnmappedError(`The record has no value at ${expression}. Name the field with ${flag}.`);
  throw new UnmappedError(`The value for ${flag} is not text.`);
}

/** Maximum length of a quantity. Longer text cannot be valid: the service accepts at most 100 digits. */
const MAX_QUANTITY_LENGTH = 120;
const decimal = /^\+?0*(\d+(?:\.\d+)?|\.\d+)(e[+-]?\d+)?$/i;

function toDecimal(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const text = typeof value === 'number' || typeof value === 'string' ? String(value).trim() : '';
  const match = text.length > MAX_QUANTITY_LENGTH ? null : decimal.exec(text);
  if (!match || !Number.isFinite(Number(text)))
    throw new UnmappedError(`The quantity ${shorten(JSON.stringify(value))} is not a number of at least 0.`);
  return `${match[1]!.startsWith('.') ? '0' : ''}${match[1]}${match[2] ?? ''}`;
}

const shorten = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

function toEventJson(event: UsageEvent, digits: string | undefined): string {
  if (digits === undefined) return JSON.stringify(event);
  const { quantity: _rounded, ...rest } = event;
  return `${JSON.stringify(rest).slice(0, -1)},"quantity":${digits}}`;
}
