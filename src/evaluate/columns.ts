import { runInNewContext } from 'node:vm';
import { EvaluateError, nameOf } from './evaluate-error.js';
import type { EvaluateOptions } from './evaluation.js';

/** Where in a record what is needed stands. */
export interface Columns {
  count: number;
  date: number;
  observed: number;
  /** Undefined where all rows belong together. */
  by: number | undefined;
  members: { index: number; name: string }[];
  /** Columns that the pattern names besides the members, as they are used otherwise. */
  excluded: string[];
}

const LISTED = 20;
const LONGEST_NAME = 60;
const MATCHING_MS = 2_000;

/**
 * Finds the columns in the header.
 * @throws EvaluateError for a column that is not there, or there twice, and for a pattern that names none
 */
export function findColumns(
  header: readonly string[],
  options: Pick<EvaluateOptions, 'file' | 'date' | 'observed' | 'by' | 'members'>,
): Columns {
  const where = `${nameOf(options.file)}, line 1: `;
  const find = (flag: string, name: string): number => {
    const index = header.indexOf(name);
    if (index < 0)
      throw new EvaluateError(`${where}${flag}: there is no column ${quote(name)}. ${list(header)}`);
    if (header.lastIndexOf(name) !== index)
      throw new EvaluateError(`${where}${flag}: two columns are named ${quote(name)}.`);
    return index;
  };
  const date = find('--date', options.date);
  const observed = find('--obs', options.observed);
  if (observed === date) throw new EvaluateError(`${where}--obs and --date name the same column.`);
  const by = options.by === null ? undefined : find('--by', options.by);
  const matches = matchAll(options.members, header);
  if (!matches)
    throw new EvaluateError(
      `${where}--members: ${quote(options.members)} takes too long to match. Repetitions within repetitions, such as (a+)+, do.`,
    );
  const matching = header.map((name, index) => ({ index, name })).filter(({ index }) => matches[index]);
  // An observation among the members would be a forecast that knows what came.
  const isOther = ({ index }: { index: number }) => index === date || index === observed || index === by;
  const members = matching.filter((column) => !isOther(column));
  if (members.length === 0)
    throw new EvaluateError(
      `${where}--members: ${quote(options.members)} matches no column. ${list(header)}`,
    );
  for (const { name } of members) find('--members', name);
  return {
    count: header.length,
    date,
    observed,
    by,
    members,
    excluded: matching.filter(isOther).map(({ name }) => name),
  };
}

/** Which of the names the pattern matches. Undefined where that takes too long: no pattern may hang the command. */
function matchAll(pattern: string, names: readonly string[]): readonly boolean[] | undefined {
  const script = 'names.map((name) => new RegExp(pattern).test(name))';
  try {
    return runInNewContext(script, { names, pattern }, { timeout: MATCHING_MS }) as boolean[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return undefined;
    throw error;
  }
}

/** Not all of what may be no CSV at all, and nothing that a terminal obeys. */
const quote = (text: string): string =>
  JSON.stringify(text.length > LONGEST_NAME ? `${text.slice(0, LONGEST_NAME)}…` : text).replace(
    /\p{Cc}/gu,
    '\uFFFD',
  );

function list(header: readonly string[]): string {
  const names = header.slice(0, LISTED).map(quote).join(', ');
  const rest = header.length - LISTED;
  const separator = header.length === 1 ? /[;\t|]/.exec(header[0]!)?.[0] : undefined;
  const hint =
    separator === undefined
      ? ''
      : ` If fields are separated by ${quote(separator)}, say --delimiter '${separator === '\t' ? '\\t' : separator}'.`;
  return `The columns are ${names}${rest > 0 ? ` and ${rest} more` : ''}.${hint}`;
}
