/*
 * The logistic distribution censored at what has been reached: what may come is logistic, and all of it that lies below is
 * what has been reached. Temperatures that rise; of a minimum all signs are changed.
 */

/**
 * The CRPS of max(reached, R) with R logistic, and how it changes with location and scale. With A(z) = ln(1 + eᶻ) − F(z), the
 * integral of F² up to z, it is s (A(z) − A(l) + A(−z)) for z = (y − m)/s and l = (reached − m)/s.
 * A. Jordan, F. Krüger, S. Lerch, Evaluating Probabilistic Forecasts with scoringRules, J. Stat. Softw. 90 (2019), A.2.
 * @param error observed − location, at least `bound`
 * @param bound reached − location; −Infinity where nothing has been reached
 * @param scale above 0
 * @param out gets the score, its change with the location and with the scale
 */
export function crpsOfCensored(error: number, bound: number, scale: number, out: Float64Array): void {
  const z = error / scale;
  const l = bound / scale;
  // Of each the smaller exponential, from which all else follows without overflow: a search does this millions of times.
  const tail = Math.exp(-Math.abs(z));
  const most = 1 / (1 + tail);
  const atMost = z > 0 ? most : tail * most;
  const above = z > 0 ? tail * most : most;
  // F and A of the bound; nothing where there is none, as with days to come.
  let [below, least] = [0, 0];
  if (l !== -Infinity) {
    const boundTail = Math.exp(-Math.abs(l));
    below = l > 0 ? 1 / (1 + boundTail) : boundTail / (1 + boundTail);
    least = Math.max(l, 0) + Math.log1p(boundTail) - below;
  }
  const logs = Math.log1p(tail);
  const upTo = Math.max(z, 0) + logs - atMost - least;
  const height = upTo + Math.max(-z, 0) + logs - above;
  const squares = z * atMost * atMost - (below > 0 ? l * below * below : 0) - z * above * above;
  out[0] = scale * height;
  out[1] = below * below + above * above - atMost * atMost;
  out[2] = height - squares;
}
