export type Query = Record<string, string | number | undefined>;

/** Keeps the query and the fragment that the address already has. */
export function toAddress(address: string, query: Query): string {
  const [page = '', fragment] = address.split('#');
  const [path = '', given] = page.split('?');
  const params = new URLSearchParams(given);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') params.set(name, String(value));
  const text = params.toString();
  return (text === '' ? path : `${path}?${text}`) + (fragment === undefined ? '' : `#${fragment}`);
}

export const toPager = (
  path: string,
  query: Query,
  { cursor, nextCursor }: Record<'cursor' | 'nextCursor', string | undefined>,
) => ({
  first: cursor === undefined ? undefined : toAddress(path, query),
  next: nextCursor === undefined ? undefined : toAddress(path, { ...query, cursor: nextCursor }),
});
