import { extname } from 'node:path';
import { readCsv } from './csv.js';
import type { Input } from './input.js';
import { readJsonTree } from './json-tree.js';
import { readNdjson } from './ndjson.js';
import type { SourceRecord } from './record.js';

export const formats = ['ndjson', 'csv', 'json'] as const;
export type Format = (typeof formats)[number];

export interface FormatOptions {
  format: Format;
  /** Between the fields of a CSV file. */
  delimiter: string;
}

/** The records of the input, some at a time, without those up to `after`. */
export function readRecords(
  input: Input,
  { format, delimiter }: FormatOptions,
  after: number,
): AsyncGenerator<SourceRecord[]> {
  if (format === 'ndjson') return readNdjson(input, after);
  if (format === 'csv') return readCsv(input, after, delimiter);
  return readJsonTree(input, after);
}

const byExtension: Record<string, FormatOptions> = {
  '.ndjson': { format: 'ndjson', delimiter: ',' },
  '.jsonl': { format: 'ndjson', delimiter: ',' },
  '.csv': { format: 'csv', delimiter: ',' },
  '.tsv': { format: 'csv', delimiter: '\t' },
  '.json': { format: 'json', delimiter: ',' },
};

/** What the name of a file says of its format, with or without `.gz`. */
export function guessFormat(file: string): FormatOptions | undefined {
  const name = file.toLowerCase().replace(/\.gz$/, '');
  const extension = extname(name);
  return Object.hasOwn(byExtension, extension) ? byExtension[extension] : undefined;
}
