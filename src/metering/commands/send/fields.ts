import { parseExactJson } from '../../../core/http/json.js';
import { CommandError } from '../../../commands/kit/command.js';
import { UnmappedError, type SourceRecord } from './record.js';
import { fromUnixTime } from './times.js';

type Read = (record: SourceRecord) => unknown;

export interface Expression {
  /** None for a constant or a path name such as `$1`. */
  fields: string[];
  read: Read;
}

const call = /^(lower|unix|join)\((.+)\)$/s;
const pathName = /^\$([1-9]\d?)$/;

export function parseExpression(flag: string, text: string): Expression {
  if (text.startsWith('=')) {
    const constant = text.slice(1);
    if (constant === '') throw new CommandError(`${flag} has no value after the equals sign.`);
    return { fields: [], read: () => constant };
  }
  const [, name, argument] = call.exec(text) ?? [];
  if (name === 'join') return parseJoin(flag, argument!);
  if (name !== undefined) {
    const { fields, read } = parseExpression(flag, argument!);
    const change = name === 'unix' ? fromUnixTime : toLower;
    return { fields, read: (record) => unlessMissing(read(record), change) };
  }
  const key = pathName.exec(text);
  if (key) return { fields: [], read: ({ keys }) => keys[Number(key[1]) - 1] };
  const path = text.startsWith('.') ? text.slice(1) : text;
  if (path === '') throw new CommandError(`${flag} needs the name of a field, or a constant like =value.`);
  return { fields: [path], read: ({ value }) => readPath(value, path) };
}

/**
 * Escapes slashes in all but the first value, as in a CloudEvent's key, so that different values never join to the same
 * text. A missing value counts as empty.
 */
function parseJoin(flag: string, list: string): Expression {
  const parts = list.split(',').map((part) => parseExpression(flag, part.trim()));
  const read: Read = (record) => {
    const values = parts.map((part) => part.read(record));
    if (values.every(isMissing)) return undefined;
    return values
      .map((value, i) => escapeAfter(i, isMissing(value) ? '' : toText(value, flag, list)))
      .join('/');
  };
  return { fields: parts.flatMap(({ fields }) => fields), read };
}

const escapeAfter = (index: number, text: string): string =>
  index > 0 && /\/|%2F|%25/.test(text) ? text.replaceAll('%', '%25').replaceAll('/', '%2F') : text;

export const isMissing = (value: unknown): boolean => value === undefined || value === null || value === '';
const unlessMissing = (value: unknown, change: (value: unknown) => unknown): unknown =>
  isMissing(value) ? value : change(value);
const toLower = (value: unknown): unknown => (typeof value === 'string' ? value.toLowerCase() : value);

/** By its whole name, or else along its dots, also into JSON text such as that of a CSV column. */
export function readPath(value: unknown, path: string): unknown {
  const fields = toObject(value);
  if (fields === undefined) return undefined;
  if (Object.hasOwn(fields, path)) return fields[path];
  for (const name of prefixesOf(path)) {
    if (!Object.hasOwn(fields, name)) continue;
    const found = readPath(fields[name], path.slice(name.length + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** `a` and `a.b` for `a.b.c`. */
export const prefixesOf = (path: string): string[] =>
  [...path.matchAll(/\./g)].map(({ index }) => path.slice(0, index)).filter((name) => name !== '');

function toObject(value: unknown): Record<string, unknown> | undefined {
  const parsed = typeof value === 'string' ? parseJsonText(value) : value;
  return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : undefined;
}

function parseJsonText(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}

/** Each record has the element in the list's place and keeps the fields around it. */
export function splitRecord(record: SourceRecord, path: string): SourceRecord[] {
  if (record.problem !== undefined) return [record];
  const found = readPath(record.value, path);
  const list = typeof found === 'string' ? parseJsonText(found) : found;
  if (!Array.isArray(list)) return [{ ...record, problem: `The record has no list at ${path} (--each).` }];
  return list.map((element: unknown, i) => ({
    ...record,
    element: i,
    value: replaceAt(record.value, path, element),
  }));
}

function replaceAt(value: unknown, path: string, element: unknown): object {
  const fields = toObject(value)!;
  if (Object.hasOwn(fields, path)) return { ...fields, [path]: element };
  const name = prefixesOf(path).find(
    (prefix) =>
      Object.hasOwn(fields, prefix) && readPath(fields[prefix], path.slice(prefix.length + 1)) !== undefined,
  )!;
  return { ...fields, [name]: replaceAt(fields[name], path.slice(name.length + 1), element) };
}

export function toText(value: unknown, flag: string, expression: string): string {
  if (typeof value === 'string' && value !== '') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (isMissing(value))
    throw new UnmappedError(`The record has no value at ${expression}. Name the field with ${flag}.`);
  throw new UnmappedError(`The value for ${flag} is not text.`);
}
