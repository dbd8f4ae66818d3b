/** Where a person goes who was not going anywhere. */
export const HOME = '/dashboard';

/** Stands in for this service, so that the URL parser shows where a browser would end up. */
const here = 'http://here.invalid';

/** `value` if a browser that is sent there stays on this site, else `fallback`. */
export function toLocalPath(value: unknown, fallback: string): string {
  if (typeof value !== 'string' || !value.startsWith('/') || value.length > 2000) return fallback;
  if (!URL.canParse(value, here)) return fallback;
  const { origin, pathname, search, hash } = new URL(value, here);
  // `/.//elsewhere` is ours until it is normalised, and then it is not.
  return origin === here && !pathname.startsWith('//') ? pathname + search + hash : fallback;
}
