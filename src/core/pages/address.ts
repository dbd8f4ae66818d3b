export type Query = Record<string, string | number | undefined>;

export function toAddress(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') params.set(name, String(value));
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

export interface Pager {
  first: string | undefined;
  next: string | undefined;
  previous?: string | undefined;
  position?: { first: number; last: number; total: number } | undefined;
}

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
