import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { runInNewContext } from 'node:vm';
import { CsvError, parse, type Options } from 'csv-parse';
import { findColumn, listColumns, quote } from '../../src/commands/kit/columns.js';
import { CommandError, type Terminal } from '../../src/commands/kit/command.js';
import { nameOf, openInput, type Input } from '../../src/commands/kit/input.js';
import { createProgress } from '../../src/commands/kit/progress.js';
import { CaseTable, describeMembers } from './case-table.js';
import type { EvaluateOptions, LeftOut } from './evaluation.js';
import { monthNumberOf, parseDay } from './training.js';

/** The first row excluded for a reason. */
interface Example {
  line: number;
  column: string | null;
  value: string;
}

export interface FileCases {
  table: CaseTable;
  /** By `group`. */
  groups: string[];
  columns: Columns;
  rows: number;
  leftOut: LeftOut;
  examples: Partial<Record<keyof LeftOut, Example>>;
  /** Numbers that often mark missing data but were used as values. */
  suspects: Map<number, number>;
  /** Used rows with missing members, and the first such field. */
  partial: { count: number; line: number; column: string } | null;
}

const MISSING = ['', 'na', 'n/a', 'nan', 'null', 'none', '-'];
/** A longer record means an unclosed quote. */
const MAX_RECORD_LENGTH = 16 * 1024 * 1024;

const ROWS_PER_UPDATE = 1000;

/** Shows the share that is done. */
export function showFitting<Found>(
  { stderr }: Pick<Terminal, 'stderr'>,
  fit: (onProgress: (share: number) => void) => Found,
): Found {
  const progress = createProgress(stderr);
  try {
    return fit((share) => progress.show(share, 'fitting'));
  } finally {
    progress.stop();
  }
}

export async function readRows<Found>(
  file: string,
  { stdin, stderr }: Terminal,
  read: (input: Input, onRow: () => void) => Promise<Found>,
): Promise<Found> {
  const input = openInput(file, stdin);
  const progress = createProgress(stderr);
  let rows = 0;
  const onRow = () => {
    if (++rows % ROWS_PER_UPDATE === 0) progress.show(input.size && input.position / input.size, 'reading');
  };
  try {
    return await read(input, onRow);
  } finally {
    progress.stop();
    input.close();
  }
}

/**
 * A row without one model's members is still used for the others.
 * @param models options that differ only in their members
 * @throws CommandError for a file that is not a CSV or lacks the columns
 */
export async function readModels(
  input: Input,
  models: readonly EvaluateOptions[],
  onRow: () => void,
): Promise<FileCases[]> {
  const { file, delimiter } = models[0]!;
  let readers: ReturnType<typeof createRowReader>[] | undefined;
  await readCsv(input, file, { delimiter, max_record_size: MAX_RECORD_LENGTH }, (record, line) => {
    if (readers) for (const { read } of readers) read(record, line);
    else readers = models.map((options) => createRowReader(record, options));
    onRow();
  });
  if (!readers) throw new CommandError(`${nameOf(file)} is empty.`);
  return readers.map(({ found }) => found);
}

/** @throws CommandError for a file that is not a CSV */
export async function readCsv(
  input: Input,
  file: string,
  options: Options,
  onRecord: (record: string[], line: number) => void,
): Promise<void> {
  const parser = parse({
    bom: true,
    trim: true,
    skip_empty_lines: true,
    relax_column_count: true,
    comment: '#',
    comment_no_infix: true,
    ...options,
    // Several times as fast as reading rows from the stream.
    on_record: (record: string[], { lines }) => {
      // Excel names its separator in the first line.
      if (lines === 1 && /^sep=/i.test(record[0]!)) return null;
      onRecord(record, lines);
      return null;
    },
  });
  try {
    await pipeline(Readable.from(input.chunks()), parser.resume());
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new CommandError(`${nameOf(file)}: this is not CSV: ${error.message}.`, { cause: error });
  }
}

function createRowReader(header: string[], options: EvaluateOptions) {
  const columns = findColumns(header, options);
  const parse = (text: string) => parseNumber(options.hasDecimalComma ? text.replace(',', '.') : text);
  const isMissing = missingTest(options.missing, parse);
  const months = options.months && new Set(options.months);
  const groupOf = new Map<string, number>();
  const seen = new Set<string>();
  const found: FileCases = {
    table: new CaseTable(),
    groups: [],
    columns,
    rows: 0,
    leftOut: { fields: 0, date: 0, missingObservation: 0, missingMember: 0, notNumeric: 0, repeated: 0 },
    examples: {},
    suspects: new Map(),
    partial: null,
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
    if (months && !months.has(monthNumberOf(day))) return;
    const text = record[columns.observed]!;
    if (isMissing(text)) return leaveOut('missingObservation', line, columns.observed, text);
    const gaps = columns.members.filter(({ index }) => isMissing(record[index]!));
    const [gap] = gaps;
    if (gap && gaps.length === columns.members.length)
      return leaveOut('missingMember', line, gap.index, record[gap.index]);
    const observed = parse(text);
    if (observed === undefined) return leaveOut('notNumeric', line, columns.observed, text);
    const present = columns.members.filter((column) => !gaps.includes(column));
    const values = present.map(({ index }) => parse(record[index]!));
    const wrong = values.indexOf(undefined);
    if (wrong >= 0) {
      const { index } = present[wrong]!;
      return leaveOut('notNumeric', line, index, record[index]);
    }
    const members = Float64Array.from(values as number[]);
    const spread = columns.spread === undefined ? undefined : parse(record[columns.spread]!);
    if (columns.spread !== undefined && !(spread! >= 0))
      return leaveOut('notNumeric', line, columns.spread, record[columns.spread]);
    const group = groupFor(columns.by === undefined ? '' : record[columns.by]!);
    // The same time may be written with other separators, or without its zeros.
    const key = `${group} ${record[columns.date]!.replace(/\D/g, '').padEnd(14, '0')}`;
    if (columns.by !== undefined && seen.has(key))
      return leaveOut('repeated', line, columns.date, record[columns.date]);
    seen.add(key);
    for (const value of [observed, ...members]) suspect(value);
    if (gap) {
      found.partial ??= { count: 0, line, column: gap.name };
      found.partial.count++;
    }
    found.table.add({
      row: found.rows,
      day,
      group,
      observed,
      ...describeMembers(members, observed, found.rows),
      ...(spread !== undefined && { variance: spread ** 2 }),
    });
  }

  function suspect(value: number): void {
    if (sentinels.has(value)) found.suspects.set(value, (found.suspects.get(value) ?? 0) + 1);
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

export function missingTest(own: readonly string[], parse = parseNumber): (text: string) => boolean {
  const texts = new Set([...MISSING, ...own.map((text) => text.trim().toLowerCase())]);
  const numbers = new Set(own.flatMap((text) => parse(text) ?? parseNumber(text) ?? []));
  return (text) =>
    texts.has(text) || texts.has(text.toLowerCase()) || (numbers.size > 0 && numbers.has(parse(text) ?? NaN));
}

const sentinels = new Set([-99, -99.9, -999, -999.9, -9999, -99999, 999, 999.9, 9999, 99999, -32768]);

/** Greater numbers, such as 9.96921e+36 or 1e20, mark missing data. */
const LARGEST = 1e15;

/** Rejects JavaScript's other notations, such as 0x10 or Infinity. */
export function parseNumber(text: string): number | undefined {
  const number = Number(text);
  return Math.abs(number) <= LARGEST && decimal.test(text) ? number : undefined;
}

const decimal = /^[-+]?(?:\d|\.\d)[\d.eE+-]*$/;

interface Columns {
  count: number;
  date: number;
  observed: number;
  /** Undefined if all rows form one group. */
  by: number | undefined;
  spread: number | undefined;
  members: { index: number; name: string }[];
  /** Match the pattern but have another role. */
  excluded: string[];
}

const MATCHING_MS = 2_000;

/** @throws CommandError for a missing or duplicate column, and for a pattern without matches */
function findColumns(
  header: readonly string[],
  options: Pick<EvaluateOptions, 'file' | 'date' | 'observed' | 'by' | 'members' | 'spread'>,
): Columns {
  const where = `${nameOf(options.file)}, line 1: `;
  const find = (flag: string, name: string) =>
    findColumn(header, name, `${where}${flag}`, listColumns(header));
  const date = find('--date', options.date);
  const observed = find('--obs', options.observed);
  if (observed === date) throw new CommandError(`${where}--obs and --date name the same column.`);
  const by = options.by === null ? undefined : find('--by', options.by);
  const spread = options.spread === undefined ? undefined : find('--spread', options.spread);
  const matches = matchAll(options.members, header);
  if (!matches)
    throw new CommandError(
      `${where}--members: ${quote(options.members)} takes too long to match, as nested repetitions such as (a+)+ do.`,
    );
  const matching = header.map((name, index) => ({ index, name })).filter(({ index }) => matches[index]);
  // The observation as a member would leak the outcome into the forecast.
  const isOther = ({ index }: { index: number }) =>
    index === date || index === observed || index === by || index === spread;
  const members = matching.filter((column) => !isOther(column));
  if (members.length === 0)
    throw new CommandError(
      `${where}--members: ${quote(options.members)} matches no column. ${listColumns(header)}`,
    );
  for (const { name } of members) find('--members', name);
  return {
    count: header.length,
    date,
    observed,
    by,
    spread,
    members,
    excluded: matching.filter(isOther).map(({ name }) => name),
  };
}

/** Undefined after a timeout: a slow pattern cannot hang the command. */
function matchAll(pattern: string, names: readonly string[]): readonly boolean[] | undefined {
  const script = 'names.map((name) => new RegExp(pattern).test(name))';
  try {
    return runInNewContext(script, { names, pattern }, { timeout: MATCHING_MS }) as boolean[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return undefined;
    throw error;
  }
}
