/* The standard logistic distribution. */

/** Its standard deviation. */
export const LOGISTIC_DEVIATION = Math.PI / Math.sqrt(3);

/** ln(1 + eᶻ) without overflow. */
export const softplus = (z: number): number => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

export const sigmoid = (z: number): number => 1 / (1 + Math.exp(-z));

/** P(R > z | R > l), for z ≥ l. */
export const survivalAbove = (z: number, l: number): number => Math.exp(softplus(l) - softplus(z));
