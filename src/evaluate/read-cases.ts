import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CsvError, parse } from 'csv-parse';
import type { Input } from '../send/input.js';
import { CaseTable } from './case-table.js';
import { findColumns, type Columns } from './columns.js';
import { monthOf, parseDay } from './dates.js';
import { EvaluateError, nameOf } from './evaluate-error.js';
import type { EvaluateOptions, LeftOut } from './evaluation.js';
import { describeMembers } from './members.js';

/** Where a row was left out for a reason for the first time. */
export interface Example {
  line: number;
  column: string | null;
  value: string;
}

export interface FileCases {
  table: CaseTable;
  /** Values of the column that is fitted by, in the order of `group`. */
  groups: string[];
  columns: Columns;
  rows: number;
  leftOut: LeftOut;
  examples: Partial<Record<keyof LeftOut, Example>>;
}

const MISSING = ['', 'na', 'n/a', 'nan', 'null', 'none', '-'];
/** A longer record is a quote that was never closed. */
const MAX_RECORD_LENGTH = 16 * 1024 * 1024;

/**
 * Reads the rows that can be used. Memory is that of some numbers for each.
 * @throws EvaluateError for a file that is no CSV, or without the columns
 */
export async function readCases(
  input: Input,
  options: EvaluateOptions,
  onRow: () => void = () => undefined,
): Promise<FileCases> {
  let reader: RowReader | undefined;
  const parser = parse({
    bom: true,
    delimiter: options.delimiter,
    trim: true,
    skip_empty_lines: true,
    relax_column_count: true,
    max_record_size: MAX_RECORD_LENGTH,
    // Rows are read here and not handed on, which is several times as fast.
    on_record: (record: string[], { lines }) => {
      if (reader) reader.read(record, lines);
      else reader = createRowReader(record, options);
      onRow();
      return null;
    },
  });
  try {
    await pipeline(Readable.from(input.chunks()), parser.resume());
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new EvaluateError(`${nameOf(options.file)}: this is no CSV: ${error.message}.`, { cause: error });
  }
  if (!reader) throw new EvaluateError(`${nameOf(options.file)} is empty.`);
  return reader.found;
}

interface RowReader {
  read(record: string[], line: number): void;
  found: FileCases;
}

function createRowReader(header: string[], options: EvaluateOptions): RowReader {
  const columns = findColumns(header, options);
  const isMissing = missingTest(options.missing);
  const months = options.months && new Set(options.months);
  const groupOf = new Map<string, number>();
  const members = new Float64Array(columns.members.length);
  const found: FileCases = {
    table: new CaseTable(),
    groups: [],
    columns,
    rows: 0,
    leftOut: { fields: 0, date: 0, missingObservation: 0, missingMember: 0, notNumeric: 0 },
    examples: {},
  };

  function leaveOut(reason: keyof LeftOut, line: number, index: number | null, value = ''): void {
    found.leftOut[reason]++;
    found.examples[reason] ??= { line, column: index === null ? null : header[index]!, value };
  }

  function read(record: string[], line: number): void {
    found.rows++;
    if (record.length !== columns.count) return leaveOut('fields', line, null, String(record.length));
    const day = parseDay(record[columns.date]!);
    if (day === undefined) return leaveOut('date', line, columns.date, record[columns.date]);
    if (months && !months.has(monthOf(day))) return;
    const text = record[columns.observed]!;
    if (isMissing(text)) return leaveOut('missingObservation', line, columns.observed, text);
    const gap = columns.members.find(({ index }) => isMissing(record[index]!));
    if (gap) return leaveOut('missingMember', line, gap.index, record[gap.index]);
    const observed = parseNumber(text);
    if (observed === undefined) return leaveOut('notNumeric', line, columns.observed, text);
    for (const [i, { index }] of columns.members.entries()) {
      const member = parseNumber(record[index]!);
      if (member === undefined) return leaveOut('notNumeric', line, index, record[index]);
      members[i] = member;
    }
    const group = groupFor(columns.by === undefined ? '' : record[columns.by]!);
    found.table.add({ day, group, observed, ...describeMembers(members, observed, found.rows) });
  }

  function groupFor(value: string): number {
    let group = groupOf.get(value);
    if (group === undefined) {
      group = found.groups.push(value) - 1;
      groupOf.set(value, group);
    }
    return group;
  }

  return { read, found };
}

function missingTest(own: readonly string[]): (text: string) => boolean {
  const texts = new Set([...MISSING, ...own.map((text) => text.trim().toLowerCase())]);
  const numbers = new Set(own.map(parseNumber).filter((number) => number !== undefined));
  return (text) =>
    texts.has(text) || texts.has(text.toLowerCase()) || (numbers.size > 0 && numbers.has(Number(text)));
}

/** Beyond it are the numbers by which files mark what they do not have, such as 9.96921e+36 or 1e20. */
const LARGEST = 1e15;

/** A decimal number; nothing that JavaScript takes for one besides, such as 0x10 or Infinity. */
function parseNumber(text: string): number | undefined {
  const number = Number(text);
  return Math.abs(number) <= LARGEST && decimal.test(text) ? number : undefined;
}

const decimal = /^[-+]?(?:\d|\.\d)[\d.eE+-]*$/;
