import type { Evaluation, LeftOut } from './evaluation.js';
import type { FileCases } from './read-cases.js';

const reasons: Record<keyof LeftOut, string> = {
  fields: 'with more or fewer fields than the header',
  date: 'with a date that cannot be read',
  missingObservation: 'without an observation',
  missingMember: 'without a member',
  notNumeric: 'with something that is no number',
};

/** What a person should know of the rows besides the result, a line each. */
export function readingNotes({ columns, leftOut, examples, rows }: FileCases): string[] {
  const notes = columns.excluded.map(
    (name) => `The pattern also matches the column ${JSON.stringify(name)}, which is no member.`,
  );
  for (const [reason, text] of Object.entries(reasons) as [keyof LeftOut, string][]) {
    if (leftOut[reason] === 0) continue;
    const { line, column, value } = examples[reason]!;
    const where =
      column === null ? '' : `, column ${JSON.stringify(column)}: ${JSON.stringify(value.slice(0, 40))}`;
    notes.push(`Left out ${leftOut[reason]} of ${rows} rows ${text} (first in line ${line}${where}).`);
  }
  return notes;
}

export function testingNotes({ untested, options: { training } }: Evaluation): string[] {
  const notes: string[] = [];
  const { tooEarly, notFitted, whyNotFitted } = untested;
  if (tooEarly > 0 && 'days' in training)
    notes.push(`Not tested: ${tooEarly} rows without ${training.days} dates with data before them.`);
  if (notFitted > 0) notes.push(`Not tested: ${notFitted} rows whose window has no fit: ${whyNotFitted}.`);
  return notes;
}
