import { isUtf8 } from 'node:buffer';
import { extname } from 'node:path';
import { parseExactJson } from '../../../core/http/json.js';
import { escapePointer } from '../../../core/http/validate.js';
import { CommandError } from '../../../commands/kit/command.js';
import { readWhole, type Input } from '../../../commands/kit/input.js';
import { readCsv } from './csv.js';
import { readLines, withoutByteOrderMark } from './lines.js';
import type { MappedColumn } from './mapping.js';
import type { SourceRecord } from './record.js';

export const formats = ['ndjson', 'csv', 'json'] as const;
export type Format = (typeof formats)[number];

export interface FormatOptions {
  format: Format;
  /** Default: the one in the line `sep=`, or a comma. */
  delimiter: string | undefined;
}

/** @param needed columns that a CSV file must have */
export function readRecords(
  input: Input,
  { format, delimiter }: FormatOptions,
  needed: readonly MappedColumn[] = [],
): AsyncGenerator<SourceRecord[]> {
  if (format === 'ndjson') return readNdjson(input);
  if (format === 'csv') return readCsv(input, delimiter, needed);
  return readJsonTree(input);
}

const byExtension: Record<string, FormatOptions> = {
  '.ndjson': { format: 'ndjson', delimiter: undefined },
  '.jsonl': { format: 'ndjson', delimiter: undefined },
  '.csv': { format: 'csv', delimiter: undefined },
  '.tsv': { format: 'csv', delimiter: '\t' },
  '.json': { format: 'json', delimiter: undefined },
};

export function guessFormat(file: string): FormatOptions | undefined {
  const extension = extname(file.toLowerCase().replace(/\.gz$/, ''));
  return Object.hasOwn(byExtension, extension) ? byExtension[extension] : undefined;
}

/** Skips blank lines. */
export async function* readNdjson(input: Input): AsyncGenerator<SourceRecord[]> {
  let before = 0;
  for await (const lines of readLines(input)) {
    const records: SourceRecord[] = [];
    const after = input.position;
    for (const [i, { number, text, problem }] of lines.entries()) {
      if (text.trim() === '') continue;
      const position = before + ((after - before) * (i + 1)) / lines.length;
      const record = { number, keys: [], position };
      if (problem !== undefined) records.push({ ...record, value: text, problem });
      else records.push({ ...record, ...parseLine(text) });
    }
    yield records;
    before = after;
  }
}

function parseLine(text: string): Pick<SourceRecord, 'value' | 'problem'> {
  try {
    return { value: parseExactJson(text) };
  } catch (error) {
    return { value: text, problem: `The line is not valid JSON: ${(error as Error).message.slice(0, 200)}` };
  }
}

/** Read into memory as a whole, unlike NDJSON and CSV. */
const MAX_DOCUMENT_BYTES = 256 * 1024 * 1024;
const MAX_DEPTH = 100;
const SLICE = 500;

/**
 * The objects in the document's arrays, at any depth; objects inside a record belong to it.
 * @throws CommandError if the document is not JSON, too large, or contains no record
 */
export async function* readJsonTree(input: Input): AsyncGenerator<SourceRecord[]> {
  const records = findRecords(await readDocument(input));
  const end = input.position;
  for (const record of records) record.position = (end * record.number) / records.length;
  for (let from = 0; from < records.length; from += SLICE) yield records.slice(from, from + SLICE);
}

async function readDocument(input: Input): Promise<unknown> {
  const refusal = `A JSON document can have at most ${MAX_DOCUMENT_BYTES >> 20} MiB, because it is read into memory. Send a larger one as NDJSON, for example with: jq -c '.[]'`;
  const bytes = withoutByteOrderMark(await readWhole(input, MAX_DOCUMENT_BYTES, refusal));
  if (!isUtf8(bytes)) throw new CommandError('The document is not valid UTF-8.');
  try {
    return parseExactJson(bytes.toString('utf8'));
  } catch (error) {
    throw new CommandError(`The document is not valid JSON: ${(error as Error).message.slice(0, 200)}`, {
      cause: error,
    });
  }
}

function findRecords(document: unknown): SourceRecord[] {
  const records: SourceRecord[] = [];
  let hasEmptyList = false;
  const visit = (value: unknown, keys: string[], pointer: string, depth: number): void => {
    if (depth > MAX_DEPTH) throw new CommandError(`The document is nested deeper than ${MAX_DEPTH} levels.`);
    if (Array.isArray(value)) visitArray(value, keys, pointer, depth);
    else if (isObject(value)) {
      for (const [key, child] of Object.entries(value))
        visit(child, [...keys, key], `${pointer}/${escapePointer(key)}`, depth + 1);
    }
  };
  const visitArray = (items: unknown[], keys: string[], pointer: string, depth: number): void => {
    // A list of only plain values is a field. A plain value next to records is an error.
    const hasRecords = items.some(isObject);
    hasEmptyList ||= items.length === 0;
    for (const [i, item] of items.entries()) {
      const place = `${pointer}/${i}`;
      if (Array.isArray(item)) visit(item, keys, place, depth + 1);
      else if (hasRecords)
        records.push({ number: records.length + 1, pointer: place, keys, value: item, position: 0 });
    }
  };
  visit(document, [], '', 0);
  if (records.length === 0 && !hasEmptyList)
    throw new CommandError('The document has no records. Records are the objects in its arrays.');
  return records;
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
