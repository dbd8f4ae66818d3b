/** `Retry-After` in ms: seconds or a date (RFC 9110). Undefined where it says nothing usable. */
export function readRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
