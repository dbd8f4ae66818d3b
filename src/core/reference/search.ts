export interface SearchEntry {
  kind: 'Guide' | 'Request' | 'Error' | 'Message' | 'Field';
  title: string;
  /** Other names, which count like the title and are not shown. */
  words?: readonly string[];
  href: string;
  context: string;
  method?: string;
  text: string;
}

export interface SearchResult extends Omit<SearchEntry, 'text' | 'words'> {
  snippet: { text: string; isMatch: boolean }[];
}

/** Only the best match counts. */
const points = { title: 100, field: 6, titleStart: 12, titlePart: 6, context: 4, textStart: 2, textPart: 1 };
/** A guide explains more than one request, and a request more than one of its fields. */
const kindPoints = { Guide: 8, Request: 3, Error: 2, Message: 2, Field: 0 };

/** @returns results that contain every significant word of the query, best first */
export function createSearch(entries: readonly SearchEntry[]) {
  const read = entries.map(({ words = [], ...entry }) => ({
    entry,
    names: [entry.title, ...words].map((name) => name.toLowerCase()),
    title: [entry.title, ...words].join(' ').toLowerCase(),
    context: entry.context.toLowerCase(),
    text: entry.text.toLowerCase(),
  }));
  /** @param least of a result's points */
  return (query: string, limit: number, least = 1): SearchResult[] => {
    const phrase = query.trim().toLowerCase();
    const typed = [...new Set(phrase.split(/\s+/))].filter((word) => word !== '');
    const telling = typed.filter((word) => !fillers.has(word));
    const words = (telling.length > 0 ? telling : typed).map(stemOf);
    if (words.length === 0) return [];
    return read
      .map((one) => ({ ...one, score: scoreOf(one, words, phrase) }))
      .filter(({ score }) => score >= least)
      .sort((a, b) => b.score - a.score || (a.title < b.title ? -1 : 1))
      .slice(0, limit)
      .map(({ entry: { text, ...entry } }) => ({ ...entry, snippet: toSnippet(text, words) }));
  };
}

const fillers = new Set(
  'a an and are can do does for how i in is my of on or the to what when with'.split(' '),
);

/** `keys` also finds `key`, and `rotate` finds `rotating`. */
const stemOf = (word: string): string =>
  /^([a-z]{3,}[^e\W])(?:es|e|ing|ed)$/.exec(word)?.[1] ?? /^([a-z]{2,}[^s\W])s$/.exec(word)?.[1] ?? word;

interface ReadEntry {
  entry: Omit<SearchEntry, 'words'>;
  names: string[];
  title: string;
  context: string;
  text: string;
}

function scoreOf({ entry, names, title, context, text }: ReadEntry, words: string[], phrase: string): number {
  let score = names.includes(phrase) ? points[entry.kind === 'Field' ? 'field' : 'title'] : 0;
  for (const word of words) {
    const found = pointsOf(word, { title, context, text });
    if (found === 0) return 0;
    score += found;
  }
  return (
    score + kindPoints[entry.kind] + (words.length > 1 && title.includes(phrase) ? points.titleStart : 0)
  );
}

function pointsOf(word: string, { title, context, text }: Omit<ReadEntry, 'entry' | 'names'>): number {
  if (beginsWord(title, word)) return points.titleStart;
  if (title.includes(word)) return points.titlePart;
  if (context.includes(word)) return points.context;
  if (beginsWord(text, word)) return points.textStart;
  return text.includes(word) ? points.textPart : 0;
}

/** Both in lower case. */
export function beginsWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1))
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]!)) return true;
  return false;
}

/** Characters. */
const SNIPPET = 180;

function toSnippet(text: string, words: string[]): SearchResult['snippet'] {
  const lower = text.toLowerCase();
  // Lowercasing can change the length of a text, which would shift all later positions.
  if (lower.length !== text.length) return [{ text: text.slice(0, SNIPPET), isMatch: false }];
  const places = words.map((word) => lower.indexOf(word)).filter((at) => at !== -1);
  const first = places.length === 0 ? 0 : Math.min(...places);
  const start = first < SNIPPET / 2 ? 0 : lower.lastIndexOf(' ', first - SNIPPET / 3) + 1;
  const end = start + SNIPPET;
  const pieces: SearchResult['snippet'] = start > 0 ? [{ text: '…', isMatch: false }] : [];
  let at = start;
  while (at < Math.min(end, text.length)) {
    const next = words
      .map((word) => ({ word, from: lower.indexOf(word, at) }))
      .filter(({ from }) => from !== -1 && from < end)
      .sort((a, b) => a.from - b.from || b.word.length - a.word.length)[0];
    if (!next) break;
    if (next.from > at) pieces.push({ text: text.slice(at, next.from), isMatch: false });
    at = next.from + next.word.length;
    at += /^\p{L}*/u.exec(text.slice(at))![0].length;
    pieces.push({ text: text.slice(next.from, at), isMatch: true });
  }
  const rest = text.slice(at, Math.max(at, end));
  return [...pieces, { text: at + rest.length < text.length ? `${rest}…` : rest, isMatch: false }].filter(
    (piece) => piece.text !== '',
  );
}
