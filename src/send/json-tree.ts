import { isUtf8 } from 'node:buffer';
import { parseExactJson } from './exact-json.js';
import type { Input } from './input.js';
import { withoutByteOrderMark } from './lines.js';
import { SendError, type SourceRecord } from './record.js';

/** A document is read whole; NDJSON and CSV have no limit. */
const MAX_DOCUMENT_BYTES = 256 * 1024 * 1024;
const MAX_DEPTH = 100;
const SLICE = 500;

/**
 * The records of one JSON document: the objects in its arrays, at any depth. What lies inside a record belongs to it.
 * @throws SendError when the document is not JSON, too large, or holds no record
 */
export async function* readJsonTree(input: Input, after: number): AsyncGenerator<SourceRecord[]> {
  const records = findRecords(await readDocument(input));
  const end = input.position;
  for (const record of records) record.position = (end * record.number) / records.length;
  for (let from = after; from < records.length; from += SLICE) yield records.slice(from, from + SLICE);
}

async function readDocument(input: Input): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of input.chunks()) {
    size += chunk.length;
    if (size > MAX_DOCUMENT_BYTES)
      throw new SendError(
        `A JSON document may have ${MAX_DOCUMENT_BYTES >> 20} MiB, because it is read whole. Send a larger one as NDJSON, for example with: jq -c '.[]'`,
      );
    chunks.push(chunk);
  }
  const bytes = withoutByteOrderMark(Buffer.concat(chunks));
  if (!isUtf8(bytes)) throw new SendError('The document is not valid UTF-8.');
  try {
    return parseExactJson(bytes.toString('utf8'));
  } catch (error) {
    throw new SendError(`The document is not valid JSON: ${(error as Error).message.slice(0, 200)}`, {
      cause: error,
    });
  }
}

function findRecords(document: unknown): SourceRecord[] {
  const records: SourceRecord[] = [];
  let hasEmptyList = false;
  const visit = (value: unknown, keys: string[], pointer: string, depth: number): void => {
    if (depth > MAX_DEPTH) throw new SendError(`The document is nested deeper than ${MAX_DEPTH} levels.`);
    if (Array.isArray(value)) visitArray(value, keys, pointer, depth);
    else if (isObject(value)) {
      for (const [key, child] of Object.entries(value))
        visit(
          child,
          [...keys, key],
          `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`,
          depth + 1,
        );
    }
  };
  const visitArray = (items: unknown[], keys: string[], pointer: string, depth: number): void => {
    // A list of plain values is somebody's field; among records such a value is a mistake that must be seen.
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
    throw new SendError('The document holds no records: they are the objects in its arrays.');
  return records;
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
