import { parseExactJson } from './exact-json.js';
import type { Input } from './input.js';
import { readLines } from './lines.js';
import type { SourceRecord } from './record.js';

/** One JSON value per line. Blank lines are left out. Lines up to `after` were dealt with before and are not parsed. */
export async function* readNdjson(input: Input, after: number): AsyncGenerator<SourceRecord[]> {
  for await (const lines of readLines(input)) {
    const records: SourceRecord[] = [];
    for (const { number, text, problem } of lines) {
      if (number <= after || text.trim() === '') continue;
      const record = { number, keys: [], position: input.position };
      if (problem !== undefined) records.push({ ...record, value: text, problem });
      else records.push({ ...record, ...parseLine(text) });
    }
    yield records;
  }
}

function parseLine(text: string): Pick<SourceRecord, 'value' | 'problem'> {
  try {
    return { value: parseExactJson(text) };
  } catch (error) {
    return { value: text, problem: `The line is not valid JSON: ${(error as Error).message.slice(0, 200)}` };
  }
}
