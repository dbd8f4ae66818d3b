import { parse } from 'csv-parse/sync';
import { formatCount } from '../../../core/pages/format.js';
import { findColumn, listColumns } from '../../../commands/kit/columns.js';
import { CommandError } from '../../../commands/kit/command.js';
import type { Input } from '../../../commands/kit/input.js';
import { prefixesOf } from './fields.js';
import { MAX_LINE_BYTES, readLines, type Line } from './lines.js';
import type { MappedColumn } from './mapping.js';
import type { SourceRecord } from './record.js';
import { isOwnExport, ownFields, readOwnRow } from './own-export.js';

/** Several lines if a quoted field contains line breaks. */
type Row = Line[];

/**
 * RFC 4180, with a header. A misplaced quote refuses only the line that opened it; csv-parse alone would lose
 * everything after it, and calling it row by row is 13 times slower.
 * @throws CommandError if the header is unusable or lacks a required column
 */
export async function* readCsv(input: Input, delimiter: string | undefined, needed: readonly MappedColumn[]) {
  const readRows = createRowReader(delimiter, needed);
  let before = 0;
  let open: Line[] = [];
  function take(lines: Line[], isEnd: boolean): SourceRecord[] {
    const { records, rest } = takeRows([...open, ...lines], isEnd, readRows);
    open = rest;
    const start = before;
    before = input.position;
    return records.map((record, i) => ({
      ...record,
      position: start + ((before - start) * (i + 1)) / records.length,
    }));
  }
  for await (const lines of readLines(input)) yield take(lines, false);
  yield take([], true);
}

/** `rest` is a row that later lines may complete. */
function takeRows(lines: Line[], isEnd: boolean, readRows: (rows: Row[]) => SourceRecord[]) {
  const records: SourceRecord[] = [];
  let single: Row[] = [];
  const flush = () => {
    for (const record of readRows(single)) records.push(record);
    single = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (line.problem !== undefined || quotesIn(line.text) % 2 === 0) {
      if (line.text.trim() !== '') single.push([line]);
      at++;
      continue;
    }
    const end = endOf(lines, at, isEnd);
    if (end === undefined) break;
    flush();
    const [record] = end > lines.length ? [refused([line], unclosed)] : readRows([lines.slice(at, end)]);
    const isRefused = record?.problem !== undefined;
    if (record) records.push(isRefused ? { ...record, value: textOf([line]) } : record);
    at = isRefused ? at + 1 : end;
  }
  flush();
  return { records, rest: lines.slice(at) };
}

/** Exclusive. Infinity if no line closes the quote that opens in the first one, undefined if a later line may. */
function endOf(lines: Line[], first: number, isEnd: boolean): number | undefined {
  let length = lines[first]!.text.length;
  for (let at = first + 1; at < lines.length; at++) {
    const { text, problem } = lines[at]!;
    length += text.length;
    if (length > MAX_LINE_BYTES || problem !== undefined) return Infinity;
    if (quotesIn(text) % 2 === 1) return at + 1;
  }
  return isEnd ? Infinity : undefined;
}

/** Excel's own first line names the delimiter. */
const separatorLine = /^sep=([^"\r])\r?$/i;

function createRowReader(given: string | undefined, needed: readonly MappedColumn[]) {
  let header: string[] | undefined;
  let delimiter = given ?? ',';
  let isOwn = false;

  function parseRows(rows: Row[]): string[][] | undefined {
    try {
      const fields = parse(rows.map(textOf).join('\n'), {
        delimiter,
        recordDelimiter: '\n',
        relaxColumnCount: true,
      });
      return fields.length === rows.length ? fields : undefined;
    } catch {
      return undefined;
    }
  }

  function readHeader(row: Row): string[] {
    const [names] = row[0]!.problem === undefined ? (parseRows([row]) ?? []) : [];
    if (!names) throw new CommandError('The first line of a CSV file must name its columns.');
    if (names.some((name) => /\r(?!\n)/.test(name)))
      throw new CommandError(
        'The lines of the CSV file end with carriage returns only. Convert the file first, for example with: tr "\\r" "\\n"',
      );
    const twice = names.find((name, i) => names.indexOf(name) !== i);
    if (twice !== undefined)
      throw new CommandError(`The CSV file has two columns named ${JSON.stringify(twice)}.`);
    isOwn = isOwnExport(names);
    const fields = isOwn ? [...names, ...ownFields] : names;
    for (const { flag, name } of needed)
      if (!prefixesOf(name).some((prefix) => fields.includes(prefix)))
        findColumn(fields, name, flag, listColumns(names));
    return names;
  }

  function toRecord(row: Row, fields: string[] | undefined): SourceRecord {
    const problem = row[0]!.problem;
    if (problem !== undefined) return refused(row, problem);
    if (!fields) return refused(row, 'This line has a misplaced quote.');
    if (fields.length !== header!.length) {
      const found = formatCount(fields.length, 'field');
      return refused(row, `The line has ${found}, but the header has ${header!.length}.`);
    }
    const value = Object.fromEntries(header!.map((name, i) => [name, fields[i]]));
    const record = { number: row[0]!.number, keys: [], position: 0 };
    return isOwn ? { ...record, value: readOwnRow(value), isOwnExport: true } : { ...record, value };
  }

  return (rows: Row[]) => {
    const good = rows.filter((row) => row[0]!.problem === undefined);
    const separator = header === undefined ? separatorLine.exec(rows[0]?.[0]?.text ?? '')?.[1] : undefined;
    if (separator !== undefined) {
      delimiter = given ?? separator;
      rows.shift();
      good.shift();
    }
    if (header === undefined && good.length > 0) header = readHeader(rows.shift()!);
    if (rows.length === 0) return [];
    const fields = good.length === rows.length ? parseRows(rows) : undefined;
    return rows.map((row, i) => toRecord(row, fields ? fields[i] : parseRows([row])?.[0]));
  };
}

const unclosed = 'A quote that opens in this line is not closed.';

const refused = (row: Row, problem: string): SourceRecord => ({
  number: row[0]!.number,
  keys: [],
  value: textOf(row),
  problem,
  position: 0,
});

/** Without the carriage return of the line ending; those inside quotes belong to the field. */
const textOf = (row: Row): string =>
  row
    .map(({ text }) => text)
    .join('\n')
    .replace(/\r$/, '');

function quotesIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) count++;
  return count;
}
