import { groupBy } from '../../core/collections.js';
import type { Orm } from '../../core/db/client.js';
import { toNames } from '../../core/pages/format.js';

/** A `name` is user input in any writing system. */
export type Part = { text: string } | { name: string; href: string | undefined };

export interface LoggedAction {
  action: string;
  target: string;
  details: Record<string, unknown>;
  email: string | null;
  /** The name behind a target that is a slug. */
  name?: string | undefined;
  /** Likewise of a slug in the details, whose field has the name of the noun. */
  nameOf?: (noun: string, slug: string) => string;
}

type FindNames = (orm: Orm, slugs: readonly string[]) => Promise<{ slug: string; name: string }[]>;

export interface Wording {
  /** Without the subject. */
  sentences: Record<string, (entry: LoggedAction) => Part[]>;
  /** For actions whose names do not convert well to titles. */
  titles: Record<string, string>;
  /** The key is the action's noun. */
  pages: Record<string, (target: string) => string>;
  /** For targets that are slugs. The key is the action or its noun. */
  names?: Record<string, FindNames>;
}

export const joinWordings = (wordings: readonly Wording[]): Wording =>
  wordings.reduce((all, { sentences, titles, pages, names }) => ({
    sentences: { ...all.sentences, ...sentences },
    titles: { ...all.titles, ...titles },
    pages: { ...all.pages, ...pages },
    names: { ...all.names, ...names },
  }));

/** For pages. Exports keep the slugs. */
export async function nameTargets<T extends Pick<LoggedAction, 'action' | 'target' | 'details'>>(
  orm: Orm,
  { names = {} }: Wording,
  rows: readonly T[],
): Promise<(T & Pick<LoggedAction, 'name' | 'nameOf'>)[]> {
  const finderOf = ({ action }: T) => own(names, action) ?? own(names, nounOf(action));
  const mentions = rows.flatMap((row) => [
    { find: finderOf(row), slug: row.target },
    ...Object.entries(names).flatMap(([noun, find]) =>
      [row.details.before, row.details.after].map((fields) => ({ find, slug: textOf(fields, noun) })),
    ),
  ]);
  const named = new Map<FindNames | undefined, Map<string, string>>();
  for (const [find, some] of groupBy(mentions, (mention) => mention.find)) {
    const slugs = new Set(some.map(({ slug }) => slug).filter((slug) => slug !== ''));
    named.set(find, toNames(find && slugs.size > 0 ? await find(orm, [...slugs]) : []));
  }
  const nameOf = (noun: string, slug: string) => named.get(own(names, noun))?.get(slug) ?? slug;
  return rows.map((row) => ({ ...row, name: named.get(finderOf(row))?.get(row.target), nameOf }));
}

/** Its field has the name of the action's noun. */
export const earlierTarget = ({ action, details }: Pick<LoggedAction, 'action' | 'details'>): string =>
  textOf(details.before, nounOf(action));

const nounOf = (action: string): string => action.split('.', 1)[0]!;

/** Without a subject. Falls back to the action's name. */
export function toSentence({ sentences }: Wording, entry: LoggedAction): Part[] {
  const sentence = own(sentences, entry.action);
  return sentence ? sentence(entry) : say`${{ name: toWords(entry.action) }}: ${{ name: entry.target }}`;
}

export const toText = (parts: Part[]): string =>
  parts.map((part) => ('text' in part ? part.text : part.name)).join('');

export const titleOf = ({ titles }: Wording, action: string): string =>
  own(titles, action) ?? toWords(action);

export const linkTo = (
  { pages }: Pick<Wording, 'pages'>,
  { action, target }: Pick<LoggedAction, 'action' | 'target'>,
): string | undefined => own(pages, nounOf(action))?.(target);

/** An action may be any text, including `constructor`. */
const own = <T>(record: Record<string, T>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

export function say(
  texts: TemplateStringsArray,
  ...values: (string | { name: string; href?: string | undefined })[]
): Part[] {
  const parts: Part[] = [];
  for (const [i, text] of texts.entries()) {
    if (text !== '') parts.push({ text });
    const value = values[i];
    if (typeof value === 'object') parts.push({ name: value.name, href: value.href });
    else if (value !== undefined && value !== '') parts.push({ text: value });
  }
  return parts;
}

export const mode = ({ details: { livemode } }: LoggedAction): string =>
  typeof livemode === 'boolean' ? `${livemode ? 'live' : 'test'} ` : '';

/** Any version of the service may have written the row. */
export function fieldOf(value: unknown, name: string): unknown {
  const isObject = typeof value === 'object' && value !== null;
  return isObject && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

export const textOf = (value: unknown, name: string): string => {
  const field = fieldOf(value, name);
  return typeof field === 'string' ? field : '';
};

export function toWords(word: string): string {
  const words = word.replaceAll(/[._]+/g, ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
