/**
 * Where the number of hits among `n` independent tries lies at least `coverage` of the time: from the largest number that has no
 * more than half of the rest below it to the smallest with no more than half of the rest above it. Shares of `n`.
 * The sum runs over the exact probabilities, from log(n choose k) + k·log p + (n−k)·log(1−p).
 */
export function binomialRange(n: number, p: number, coverage: number): { low: number; high: number } {
  const tail = (1 - coverage) / 2;
  if (n === 0 || p <= 0 || p >= 1) return { low: n === 0 ? 0 : p, high: n === 0 ? 1 : p };
  let logTerm = n * Math.log1p(-p);
  let below = 0;
  let low: number | undefined;
  for (let k = 0; k <= n; k++) {
    if (k > 0) logTerm += Math.log((n - k + 1) / k) + Math.log(p) - Math.log1p(-p);
    below += Math.exp(logTerm);
    if (low === undefined && below > tail) low = k;
    if (below >= 1 - tail) return { low: low! / n, high: k / n };
  }
  return { low: (low ?? 0) / n, high: 1 };
}
