/** What stands behind the `?` of an address; what is undefined or empty is left out. */
export type Query = Record<string, string | number | undefined>;

/** `path` with a query string. */
export function toAddress(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') params.set(name, String(value));
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** The links below a list that is read page by page. */
export interface Pager {
  /** The first page; undefined on the first page itself. */
  first: string | undefined;
  /** The page after this one; undefined on the last one. */
  next: string | undefined;
  /** The page before this one, in lists that are read backwards, too. */
  previous?: string | undefined;
  /** Which rows of how many these are, in lists that are counted. */
  position?: { first: number; last: number; total: number } | undefined;
}

/** The pager of a list at `path` with the filters `query`. `cursor` is where this page began. */
export function toPager(
  path: string,
  query: Query,
  { cursor, nextCursor }: { cursor: string | undefined; nextCursor: string | undefined },
): Pager {
  return {
    first: cursor === undefined ? undefined : toAddress(path, query),
    next: nextCursor === undefined ? undefined : toAddress(path, { ...query, cursor: nextCursor }),
  };
}
