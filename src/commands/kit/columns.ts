import { CommandError } from './command.js';

const LISTED = 20;
const MAX_NAME_LENGTH = 60;

/** @param hint added to the error */
export function findColumn(header: readonly string[], name: string, where: string, hint: string): number {
  const index = header.indexOf(name);
  if (index < 0) throw new CommandError(`${where}: there is no column ${quote(name)}. ${hint}`);
  if (header.lastIndexOf(name) !== index)
    throw new CommandError(`${where}: two columns are named ${quote(name)}.`);
  return index;
}

/** The file may not be CSV at all, and control characters could affect the terminal. */
export const quote = (text: string): string =>
  JSON.stringify(text.length > MAX_NAME_LENGTH ? `${text.slice(0, MAX_NAME_LENGTH)}…` : text).replace(
    /\p{Cc}/gu,
    '\uFFFD',
  );

export function listColumns(header: readonly string[]): string {
  const names = header.slice(0, LISTED).map(quote).join(', ');
  const rest = header.length - LISTED;
  const separator = header.length === 1 ? /[;\t|]/.exec(header[0]!)?.[0] : undefined;
  const hint =
    separator === undefined
      ? ''
      : ` If fields are separated by ${quote(separator)}, use --delimiter '${separator === '\t' ? '\\t' : separator}'.`;
  return `The columns are ${names}${rest > 0 ? ` and ${rest} more` : ''}.${hint}`;
}
