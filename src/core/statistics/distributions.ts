/**
 * CDF: W. J. Cody, Rational Chebyshev Approximations for the Error Function, Math. Comp. 23 (1969), arranged as in R's
 * pnorm, with a continued fraction beyond 5.66. Quantile: M. J. Wichura, Algorithm AS 241, Applied Statistics 37
 * (1988), PPND16.
 */

const SQRT_32 = Math.sqrt(32);
const INV_SQRT_2PI = 0.3989422804014327;

const a = [
  2.2352520354606837, 161.02823106855587, 1067.6894854603709, 18154.98125334356, 0.06568233791820745,
] as const;
const b = [47.202581904688245, 976.0985517377767, 10260.932208618979, 45507.78933502673] as const;
const c = [
  0.39894151208813466, 8.883149794388377, 93.50665613217785, 597.2702763948002, 2494.5375852903726,
  6848.190450536283, 11602.65143764735, 9842.714838383978, 1.0765576773720192e-8,
] as const;
const d = [
  22.266688044328117, 235.387901782625, 1519.3775994075547, 6485.558298266761, 18615.571640885097,
  34900.95272114598, 38912.00328609327, 19685.429676859992,
] as const;

/** Φ(z), with a relative error of about 1e-15 down to z = −37. */
export function normalCdf(z: number): number {
  if (Number.isNaN(z)) return Number.NaN;
  const y = Math.abs(z);
  if (y <= 0.67448975) return 0.5 + centre(z);
  if (y > 38) return z < 0 ? 0 : 1;
  const tail = y <= SQRT_32 ? middle(y) : far(y);
  return z < 0 ? tail : 1 - tail;
}

export const normalDensity = (z: number): number => INV_SQRT_2PI * Math.exp(-0.5 * z * z);

function centre(z: number): number {
  const square = z * z;
  let above = a[4] * square;
  let below = square;
  for (let i = 0; i < 3; i++) {
    above = (above + a[i]!) * square;
    below = (below + b[i]!) * square;
  }
  return (z * (above + a[3])) / (below + b[3]);
}

function middle(y: number): number {
  let above = c[8] * y;
  let below = y;
  for (let i = 0; i < 7; i++) {
    above = (above + c[i]!) * y;
    below = (below + d[i]!) * y;
  }
  return scaled(y, (above + c[7]) / (below + d[7]));
}

const far = (y: number): number => scaled(y, INV_SQRT_2PI * millsRatio(y));

/**
 * (1 − Φ(y)) / φ(y) for y ≥ 5 by continued fraction (Abramowitz & Stegun 26.2.14). Works even if the tail probability
 * underflows.
 */
export function millsRatio(y: number): number {
  let fraction = y;
  for (let i = 60; i >= 1; i--) fraction = y + i / fraction;
  return 1 / fraction;
}

/** Two factors do not amplify the rounding error of y². */
function scaled(y: number, factor: number): number {
  const coarse = Math.trunc(y * 16) / 16;
  const rest = (y - coarse) * (y + coarse);
  return Math.exp(-coarse * coarse * 0.5) * Math.exp(-rest * 0.5) * factor;
}

const inner = [
  [
    3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946, 45921.95393154987,
    67265.7709270087, 33430.57558358813, 2509.0809287301227,
  ],
  [
    1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597, 39307.89580009271,
    28729.085735721943, 5226.495278852546,
  ],
] as const;
const near = [
  [
    1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684,
    0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
  ],
  [
    1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008, 0.015198666563616457,
    0.0005475938084995345, 1.0507500716444169e-9,
  ],
] as const;
const outer = [
  [
    6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124,
    0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7,
  ],
  [
    1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133,
    1.8463183175100548e-5, 1.421511758316446e-7, 2.0442631033899397e-15,
  ],
] as const;

/** Φ⁻¹(probability); −∞ at 0 and +∞ at 1. */
export function normalQuantile(probability: number): number {
  if (!(probability >= 0 && probability <= 1)) return Number.NaN;
  const distance = probability - 0.5;
  if (Math.abs(distance) <= 0.425) return distance * ratio(inner, 0.180625 - distance * distance);
  const tail = Math.min(probability, 1 - probability);
  if (tail === 0) return distance < 0 ? -Infinity : Infinity;
  const r = Math.sqrt(-Math.log(tail));
  const value = r <= 5 ? ratio(near, r - 1.6) : ratio(outer, r - 5);
  return distance < 0 ? -value : value;
}

const ratio = ([above, below]: readonly [readonly number[], readonly number[]], x: number): number =>
  polynomial(above, x) / polynomial(below, x);

/** Horner's rule, starting with the highest power. */
function polynomial(coefficients: readonly number[], x: number): number {
  let sum = 0;
  for (let i = coefficients.length - 1; i >= 0; i--) sum = sum * x + coefficients[i]!;
  return sum;
}

/** Standard deviation of the standard logistic distribution. */

export const LOGISTIC_DEVIATION = Math.PI / Math.sqrt(3);

/** ln(1 + eᶻ) without overflow. */
export const softplus = (z: number): number => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

export const sigmoid = (z: number): number => 1 / (1 + Math.exp(-z));

/** P(R > z | R > l) for a standard logistic R, where z ≥ l. */
export const survivalAbove = (z: number, l: number): number => Math.exp(softplus(l) - softplus(z));

/** Central range for `n` independent trials: at most (1 − coverage) / 2 lies on either side. */
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
