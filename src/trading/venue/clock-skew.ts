/**
 * How far the clock of who answered is from ours, in milliseconds, positive if it is ahead: the smallest difference that
 * explains the answer. It was written at some moment between asking and having it, and its `Date` names whole seconds,
 * so neither a slow way nor the rounding is taken for a wrong clock. `Age` is how long a cache has kept it.
 * @returns undefined if the answer does not tell the time
 */
export function clockSkewOf(headers: Headers, askedAt: number, answeredAt: number): number | undefined {
  const written = Date.parse(headers.get('date') ?? '');
  const kept = Number(headers.get('age') ?? 0) * 1000;
  if (Number.isNaN(written) || Number.isNaN(kept)) return undefined;
  // The date leaves out up to a second; the age may be rounded either way.
  const roundingMs = kept > 0 ? 1000 : 0;
  const earliest = written + kept - roundingMs;
  const latest = written + kept + 1000 + roundingMs;
  if (earliest > answeredAt) return earliest - answeredAt;
  return latest < askedAt ? latest - askedAt : 0;
}
