import { InvalidArgumentError } from 'commander';
import { leftOutReasons, type LeftOut } from './evaluation.js';
import type { FileCases } from './read-cases.js';

export function parsePattern(value: string): string {
  try {
    return RegExp(value).source;
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}

export function parseDelimiter(value: string): string {
  const delimiter = value === '\\t' ? '\t' : value;
  if (delimiter.length !== 1 || delimiter === '"')
    throw new InvalidArgumentError('It must be one character, or \\t.');
  return delimiter;
}

export interface ReadingFlags {
  obs: string;
  date: string;
  by?: string;
  lag: number;
  missing?: string[];
  delimiter: string;
  decimalComma?: boolean;
}

export const toReadingOptions = (file: string, flags: ReadingFlags) => ({
  file,
  observed: flags.obs,
  date: flags.date,
  by: flags.by ?? null,
  missing: flags.missing ?? [],
  delimiter: flags.delimiter,
  hasDecimalComma: flags.decimalComma ?? false,
});

export const collect = (value: string, before: string[] = []): string[] => [...before, value];

export function readingNotes({ columns, leftOut, examples, rows, suspects, partial }: FileCases): string[] {
  const notes = columns.excluded.map(
    (name) => `The pattern also matches the column ${JSON.stringify(name)}, which is not a member.`,
  );
  for (const [reason, text] of Object.entries(leftOutReasons) as [keyof LeftOut, string][]) {
    if (leftOut[reason] === 0) continue;
    const { line, column, value } = examples[reason]!;
    const where =
      column === null ? '' : `, column ${JSON.stringify(column)}: ${JSON.stringify(value.slice(0, 40))}`;
    notes.push(`Skipped ${leftOut[reason]} of ${rows} rows ${text} (first in line ${line}${where}).`);
  }
  if (partial)
    notes.push(
      `Used ${partial.count} of ${rows} rows without some of their members (first in line ${partial.line}, column ${JSON.stringify(partial.column)}).`,
    );
  for (const [value, times] of suspects)
    notes.push(
      `${value} was read as a number ${times} times. If it marks missing data, use --missing ${value}.`,
    );
  return notes;
}
