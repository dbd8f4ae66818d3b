export type Query = Record<string, string | number | undefined>;

/** Keeps the query that the address already has. */
export function toAddress(address: string, query: Query): string {
  const [path = '', given] = address.split('?');
  const params = new URLSearchParams(given);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') params.set(name, String(value));
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

export const toPager = (
  path: string,
  query: Query,
  { cursor, nextCursor }: Record<'cursor' | 'nextCursor', string | undefined>,
) => ({
  first: cursor === undefined ? undefined : toAddress(path, query),
  next: nextCursor === undefined ? undefined : toAddress(path, { ...query, cursor: nextCursor }),
});
