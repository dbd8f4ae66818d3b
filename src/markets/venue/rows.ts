import type { z } from 'zod';
import type { NoteBook } from '../market/source.js';
import { UnexpectedAnswerError } from './kalshi-client.js';

export interface UnreadableRow {
  fields: Readonly<Record<string, unknown>>;
  /** The first field that cannot be read, and why. */
  field: string;
  message: string;
}

export interface Rows<T> {
  rows: T[];
  unreadable: UnreadableRow[];
  /** Why the list ended early. A row that is missing from such a list may exist all the same. */
  cutOff?: Error | undefined;
}

/** Reads each row on its own, so that a wrong value leaves out no other row. */
export function readRows<T extends z.ZodType>(schema: T, values: readonly unknown[]): Rows<z.output<T>> {
  const rows: z.output<T>[] = [];
  const unreadable: UnreadableRow[] = [];
  for (const value of values) {
    const { success, data, error } = schema.safeParse(value);
    if (success) {
      rows.push(data);
      continue;
    }
    const { path, message } = error.issues[0]!;
    const fields = Object(value) as Record<string, unknown>;
    unreadable.push({ fields, field: path.map(String).join('.'), message });
  }
  return { rows, unreadable };
}

/** Joins several lists; the whole is cut off if one of them is. */
export const joinRows = <T>(parts: readonly Rows<T>[]): Rows<T> => ({
  rows: parts.flatMap(({ rows }) => rows),
  unreadable: parts.flatMap(({ unreadable }) => unreadable),
  cutOff: parts.find(({ cutOff }) => cutOff)?.cutOff,
});

/** Names the rows that are left out of a list. `key` is the field that identifies a row. */
export function noteUnreadable(
  notes: Pick<NoteBook, 'add'>,
  { unreadable }: Rows<unknown>,
  { list, key }: { list: string; key: string },
): void {
  for (const { fields, field, message } of unreadable)
    notes.add(
      'missing_field',
      [list, field].filter(Boolean).join('.') || 'market',
      `${String(fields[key])}: ${message}`,
    );
}

/** Returns the first row that cannot be read, or why the list ended early; undefined if the list is whole. */
export function findGap(list: string, { rows, unreadable, cutOff }: Rows<unknown>): Error | undefined {
  const [first] = unreadable;
  if (!first) return cutOff;
  const { ticker } = first.fields;
  const which = typeof ticker === 'string' ? ` of ${ticker.slice(0, 100)}` : '';
  const count = `${unreadable.length} of ${rows.length + unreadable.length} rows cannot be read`;
  return new UnexpectedAnswerError(list, `${count}, the first${which}: ${first.field}: ${first.message}`);
}

/** @throws UnexpectedAnswerError if a row cannot be read, because it may not be taken for absent */
export function requireWhole<T>(list: string, found: Rows<T>): T[] {
  const gap = findGap(list, found);
  if (gap) throw gap;
  return found.rows;
}
