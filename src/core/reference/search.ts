import MiniSearch from 'minisearch';

export const kinds = ['Guide', 'Request', 'Error', 'Message', 'Field'] as const;

export interface SearchEntry {
  kind: (typeof kinds)[number];
  title: string;
  /** Other names, which count like the title and are not shown. */
  words?: readonly string[];
  href: string;
  context: string;
  method?: string;
  text: string;
}

/** A guide explains more than one request, and a request more than one of its fields. */
const kindBoosts = { Guide: 6, Request: 1.5, Error: 1.2, Message: 1.2, Field: 0.2 };
const NAME_BOOST = 20;

const fillers = new Set(
  'a an and are can do does for how i in is my of on or the to what when with'.split(' '),
);

const tokenize = (text: string): string[] => text.match(/[\p{L}\p{N}]+/gu) ?? [];

/** `keys` also finds `key`, and `rotate` finds `rotating`. */
function stemOf(word: string): string {
  return (
    /^([a-z]{3,}[^e\W])(?:es|e|ing|ed)$/.exec(word)?.[1] ?? /^([a-z]{2,}[^s\W])s$/.exec(word)?.[1] ?? word
  );
}

/** Words of other systems. */
const synonyms = new Map(
  Object.entries({
    allowance: ['entitlement'],
    javascript: ['typescript'],
    node: ['typescript'],
    overage: ['overdraft'],
    quota: ['cap', 'limit'],
    sso: ['single'],
    tenant: ['organization', 'customer'],
    workspace: ['organization'],
  }).map(([word, others]) => [stemOf(word), others]),
);

/** `idempotencyKey` is also found by `key`. */
const toTerms = (word: string): string[] =>
  [word, ...(/\p{Ll}\p{Lu}/u.test(word) ? word.split(/(?<=\p{Ll})(?=\p{Lu})/u) : [])].map((part) =>
    stemOf(part.toLowerCase()),
  );

/** @returns results that contain every significant word of the query or a synonym of it, best first */
export function createSearch(entries: readonly SearchEntry[]) {
  const all = ['title', 'words', 'context', 'text'];
  const index = new MiniSearch({ fields: all, tokenize, processTerm: toTerms });
  index.addAll(entries.map((entry, id) => ({ ...entry, id, words: entry.words?.join(' ') })));
  return (query: string, fields = all) => {
    const phrase = query.trim().toLowerCase();
    const typed = tokenize(phrase);
    const telling = typed.filter((word) => !fillers.has(word));
    const words = telling.length > 0 ? telling : typed;
    const isName = ({ title, words: others = [] }: SearchEntry) =>
      [title, ...others].some((name) => name.toLowerCase() === phrase);
    // Typing errors are rarely in short words or in the first letter.
    const isTypingError = ({ terms }: { terms: string[] }) =>
      terms.every((term) => words.some((word) => word[0] === term[0]));
    const find = (fuzzy: (term: string) => number | false) =>
      index.search(
        {
          combineWith: 'AND',
          queries: words.map((word) => ({
            combineWith: 'OR',
            queries: [word, ...(synonyms.get(stemOf(word)) ?? [])],
          })),
        },
        {
          fields,
          fuzzy,
          prefix: true,
          processTerm: (word) => stemOf(word.toLowerCase()),
          boost: { title: 10, words: 10, context: 2 },
          boostDocument: (id: number) =>
            kindBoosts[entries[id]!.kind] * (isName(entries[id]!) ? NAME_BOOST : 1),
        },
      );
    const exact = find(() => false);
    const found = exact.length > 0 ? exact : find((term) => term.length > 4 && 0.2).filter(isTypingError);
    return found.map(({ id, terms }) => {
      const { text, ...entry } = entries[id as number]!;
      const isMatch = matcherOf(terms);
      const { title, context } = entry;
      const marked = { title: mark(title, isMatch), context: mark(context, isMatch) };
      return { ...entry, marked, snippet: toSnippet(text, isMatch) };
    });
  };
}

/** Both in lower case. */
export function beginsWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1))
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]!)) return true;
  return false;
}

/** Characters. */
const SNIPPET = 180;

/** The text around the first match. */
function toSnippet(text: string, isMatch: (word: string) => boolean) {
  const first = [...text.matchAll(/[\p{L}\p{N}]+/gu)].find(([word]) => isMatch(word))?.index ?? 0;
  const start = first < SNIPPET / 2 ? 0 : text.lastIndexOf(' ', first - SNIPPET / 3) + 1;
  const next = text.indexOf(' ', start + SNIPPET);
  const end = next === -1 ? text.length : next;
  return mark(`${start > 0 ? '…' : ''}${text.slice(start, end)}${end < text.length ? '…' : ''}`, isMatch);
}

const matcherOf = (terms: readonly string[]) => (word: string) =>
  toTerms(word).some((term) => terms.includes(term));

const mark = (text: string, isMatch: (word: string) => boolean) =>
  text
    .split(/(?<=[\p{L}\p{N}])(?![\p{L}\p{N}])|(?<![\p{L}\p{N}])(?=[\p{L}\p{N}])/u)
    .map((piece) => ({ text: piece, isMatch: isMatch(piece) }));
