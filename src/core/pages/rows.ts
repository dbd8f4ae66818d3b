import { fieldError, type FormFields } from './form.js';

/** A field of a row has a name like `limits.0.quantity`. Rows are named by their numbers, which can have gaps. */
export interface FieldTree {
  [name: string]: string | string[] | FieldTree;
}

/** By the last part of a list's name: how many rows it can have, and a new one. */
export type RowKinds = Readonly<Record<string, { most: number; blank: FieldTree }>>;

const MAX_DEPTH = 5;

const isTree = (value: unknown): value is FieldTree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Without a prototype, no name is special. */
const newTree = (): FieldTree => Object.create(null) as FieldTree;

function toTree(fields: FormFields): FieldTree {
  const root = newTree();
  for (const [name, value] of Object.entries(fields)) {
    const parts = name.split('.').slice(0, MAX_DEPTH);
    const last = parts.pop()!;
    let tree = root;
    for (const part of parts) {
      const next = tree[part];
      tree = isTree(next) ? next : (tree[part] = newTree());
    }
    tree[last] = value;
  }
  return root;
}

export const writeFields = (tree: FieldTree, prefix = ''): FormFields =>
  Object.fromEntries(
    Object.entries(tree).flatMap(([name, value]) =>
      isTree(value)
        ? Object.entries(writeFields(value, `${prefix}${name}.`))
        : [[`${prefix}${name}`, value] as const],
    ),
  );

/** For a schema: without empty fields, and with lists of rows. */
export function readFields(fields: FormFields): unknown {
  const read = (tree: FieldTree): unknown => {
    const entries = Object.entries(tree)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [name, isTree(value) ? read(value) : value] as const);
    const isList = entries.length > 0 && entries.every(([name]) => /^\d+$/.test(name));
    return isList ? entries.map(([, value]) => value) : Object.fromEntries(entries);
  };
  return read(toTree(fields));
}

/** By number. */
function rowsOf(fields: FormFields, list: string): [string, FieldTree][] {
  const found = list
    .split('.')
    .reduce<unknown>((tree, part) => (isTree(tree) ? tree[part] : undefined), toTree(fields));
  const entries = Object.entries(isTree(found) ? found : {});
  return entries.filter((row): row is [string, FieldTree] => /^\d+$/.test(row[0]) && isTree(row[1]));
}

export const rowNumbers = (fields: FormFields, list: string): number[] =>
  rowsOf(fields, list).map(([n]) => Number(n));

export const toRows = (rows: readonly FieldTree[]): FieldTree => Object.fromEntries(rows.entries());

function replaceRows(fields: FormFields, list: string, rows: FieldTree[]): void {
  for (const name of Object.keys(fields)) if (name.startsWith(`${list}.`)) delete fields[name];
  Object.assign(fields, writeFields(toRows(rows), `${list}.`));
}

/** Removes rows in which the fields of these names are empty, and numbers the others from 0. */
export function dropBlankRows(fields: FormFields, list: string, names: readonly string[]): void {
  const rows = rowsOf(fields, list).map(([, row]) => row);
  const kept = rows.filter((row) => names.some((name) => (row[name] ?? '') !== ''));
  replaceRows(fields, list, kept);
}

/**
 * Does what the buttons `add limits` and `remove limits.0` say, and keeps what was typed.
 * @returns the row or the list to focus
 */
export function editRows(fields: FormFields, edit: unknown, kinds: RowKinds): string {
  const [, list = '', n] =
    /^(?:add ([\w.]+)|remove ([\w.]+)\.(\d+))$/.exec(String(edit))?.filter((part) => part !== undefined) ??
    [];
  const name = list.split('.').at(-1)!;
  if (!Object.hasOwn(kinds, name)) throw fieldError('edit', 'is not a known button');
  const { most, blank } = kinds[name]!;
  const rows = rowsOf(fields, list)
    .filter(([number]) => number !== n)
    .map(([, row]) => row);
  const isAdded = n === undefined && rows.length < most;
  replaceRows(fields, list, isAdded ? [...rows, blank] : rows);
  return isAdded ? `${list}.${rows.length}` : list;
}
