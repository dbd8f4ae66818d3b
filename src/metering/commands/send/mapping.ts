import { createHash } from 'node:crypto';
import type { UsageEvent } from '../../../client/client.js';
import { CommandError } from '../../../commands/kit/command.js';
import { isMissing, parseExpression, toText, type Expression } from './fields.js';
import { shorten, UnmappedError, type SourceRecord } from './record.js';
import { openTimeZone, toTime } from './times.js';
import { readOwnDetails } from './own-export.js';

/** The JSON text may have more digits of the quantity than a double can hold. */
export interface OutgoingEvent {
  record: SourceRecord;
  event: NamedEvent;
  organization?: string | undefined;
  json: string;
}

/** Names its Organization with `--organization-column`. */
type NamedEvent = UsageEvent & { organization?: string };

export interface RecordRefusal {
  record: SourceRecord;
  code: string;
  detail: string;
  event?: NamedEvent;
}

export interface MappingOptions {
  organizationColumn?: string | undefined;
  productSlug?: string | undefined;
  metric?: string | undefined;
  quantity?: string | undefined;
  occurredAt?: string | undefined;
  idempotencyKey?: string | undefined;
  subject?: string | undefined;
  /** `name=field` for each dimension. */
  dimension?: string[] | undefined;
  /** Each element of the list is an event. */
  each?: string | undefined;
  /** For times without a zone. */
  timeZone?: string | undefined;
  decimalComma?: boolean | undefined;
}

export type MapRecord = (record: SourceRecord) => OutgoingEvent | RecordRefusal;

export interface MappedColumn {
  flag: string;
  name: string;
}

/** Omits columns that may be missing: the default fields for quantity and time. */
export function listMappedColumns(options: MappingOptions): MappedColumn[] {
  const expressions: [flag: string, expression: string | undefined][] = [
    ['--each', options.each],
    ['--organization-column', options.organizationColumn],
    ['--product-slug', options.productSlug ?? 'productSlug'],
    ['--metric', options.metric ?? 'metric'],
    ['--quantity', options.quantity],
    ['--occurred-at', options.occurredAt === 'none' ? undefined : options.occurredAt],
    ['--subject', options.subject],
    ...divideDimensions(options).map(([, field]): [string, string] => ['--dimension', field]),
    [
      '--idempotency-key',
      hashExpression.test(options.idempotencyKey ?? '') ? undefined : keyExpressionOf(options),
    ],
  ];
  return expressions.flatMap(([flag, expression]) =>
    expression === undefined ? [] : parseExpression(flag, expression).fields.map((name) => ({ flag, name })),
  );
}

const divideDimensions = ({ dimension = [] }: MappingOptions): [name: string, field: string][] =>
  dimension.map((flag) => {
    const at = flag.indexOf('=');
    if (at < 1 || at === flag.length - 1)
      throw new CommandError('--dimension needs a name and a field, like model=model_name.');
    return [flag.slice(0, at), flag.slice(at + 1)];
  });

/** In the key's expression, `$metric` stands for the source of the metric. */
const keyExpressionOf = ({ idempotencyKey = 'idempotencyKey', metric = 'metric' }: MappingOptions): string =>
  idempotencyKey.replaceAll('$metric', () => metric);

/** `hash` or `hash(text)`. */
const hashExpression = /^hash(?:\((.*)\))?$/s;

type Read = Expression['read'];

export function createMapping(options: MappingOptions): MapRecord {
  const textAt = (name: 'productSlug' | 'metric' | 'idempotencyKey', flag: string) => {
    const expression = name === 'idempotencyKey' ? keyExpressionOf(options) : (options[name] ?? name);
    const read = name === 'idempotencyKey' ? keyReaderOf(expression) : readerOf(flag, expression);
    return (record: SourceRecord) => toText(read(record), flag, expression);
  };
  const { organizationColumn: column } = options;
  const organization = column === undefined ? undefined : readerOf('--organization-column', column);
  const productSlug = textAt('productSlug', '--product-slug');
  const metric = textAt('metric', '--metric');
  const quantity = readerOf('--quantity', options.quantity ?? 'quantity');
  const hasTime = options.occurredAt !== 'none';
  const occurredAt = readerOf('--occurred-at', options.occurredAt ?? 'occurredAt');
  const zone = options.timeZone === undefined ? undefined : openTimeZone(options.timeZone);
  const idempotencyKey = textAt('idempotencyKey', '--idempotency-key');
  const subject = options.subject === undefined ? undefined : readerOf('--subject', options.subject);
  const dimensions = divideDimensions(options).map(
    ([name, field]) => [name, readerOf('--dimension', field)] as const,
  );

  /** An empty value counts as none. */
  function readDetails(record: SourceRecord): Pick<UsageEvent, 'subject' | 'dimensions'> {
    const textOf = (read: Read, flag: string) => {
      const value = read(record);
      return isMissing(value) ? undefined : toText(value, flag, '');
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
    const number = pick(record, quantity, options.quantity, '--quantity');
    const digits = toDecimal(options.decimalComma ? withPoint(number) : number);
    const time = hasTime ? pick(record, occurredAt, options.occurredAt, '--occurred-at') : undefined;
    const event: NamedEvent = {
      ...(organization && {
        organization: toText(organization(record), '--organization-column', column!),
      }),
      productSlug: productSlug(record),
      metric: metric(record),
      ...(digits === undefined ? {} : { quantity: Number(digits) }),
      ...(time === undefined ? {} : { occurredAt: toTime(toText(time, '--occurred-at', ''), zone) }),
      idempotencyKey: toKey(idempotencyKey(record)),
      ...readDetails(record),
    };
    return { record, event, organization: event.organization, json: toEventJson(event, digits) };
  }

  return (record) => {
    if (record.problem !== undefined) return { record, code: 'invalid_record', detail: record.problem };
    try {
      return toEvent(record);
    } catch (error) {
      if (error instanceof UnmappedError) return { record, code: 'invalid_record', detail: error.message };
      // The record is nested thousands of levels deep.
      if (error instanceof RangeError)
        return { record, code: 'invalid_record', detail: 'The record is nested too deeply.' };
      throw error;
    }
  };
}

/** A field named by a flag may not be missing or empty. */
function pick(record: SourceRecord, read: Read, given: string | undefined, flag: string): unknown {
  const value = read(record);
  if (!isMissing(value)) return value;
  if (given === undefined) return undefined;
  throw new UnmappedError(`The record has no value at ${given} (${flag}).`);
}

const readerOf = (flag: string, expression: string): Read => parseExpression(flag, expression).read;

/** From the record, its position in the input and the text in parentheses. */
function keyReaderOf(expression: string): Read {
  if (expression.startsWith('=')) {
    throw new CommandError(
      '--idempotency-key cannot be a constant, because every event after the first would be a repeat.',
    );
  }
  const hash = hashExpression.exec(expression);
  if (!hash) {
    const read = readerOf('--idempotency-key', expression);
    if (!expression.startsWith('join(')) return read;
    return (record) => {
      const key = read(record);
      return typeof key === 'string' && key.length > MAX_KEY_LENGTH ? sha256(key) : key;
    };
  }
  const salt = hash[1] ?? '';
  return ({ number, keys, value, element }) =>
    sha256(JSON.stringify([salt, number, keys, value, ...(element === undefined ? [] : [element])]));
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Longer joined keys are hashed, like those of CloudEvents. */
const MAX_KEY_LENGTH = 255;
/** Spreadsheets write long numbers so. Many ids then become the same. */
const scientific = /^\d(?:[.,]\d+)?e\+\d+$|^\d[.,]\d+e\d+$/i;

function toKey(key: string): string {
  if (scientific.test(key))
    throw new UnmappedError(
      `The idempotency key ${JSON.stringify(key)} is a number in scientific notation: a spreadsheet has cut off the id's digits. Export the ids as text.`,
    );
  return key;
}

/** The service accepts at most 100 digits. */
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

/** A point could separate thousands. */
function withPoint(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (value.includes('.'))
    throw new UnmappedError(
      `The quantity ${shorten(JSON.stringify(value))} has a point. With --decimal-comma, it may have only a comma.`,
    );
  return value.replace(',', '.');
}

function toEventJson(event: NamedEvent, digits: string | undefined): string {
  if (digits === undefined) return JSON.stringify(event);
  const { quantity: _rounded, ...rest } = event;
  return `${JSON.stringify(rest).slice(0, -1)},"quantity":${digits}}`;
}
