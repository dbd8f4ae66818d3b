/**
 * A temperature is normal with mean a + b·x̄ and variance c + d·s², where x̄ and s² are mean and sample variance of an
 * ensemble's members. T. Gneiting, A. E. Raftery, A. H. Westveld, T. Goldman, Calibrated Probabilistic Forecasting Using
 * Ensemble Model Output Statistics and Minimum CRPS Estimation, Mon. Wea. Rev. 133 (2005).
 */
export interface EmosCoefficients {
  a: number;
  b: number;
  /** At least 0, as is d. */
  c: number;
  d: number;
}

/** The normal distribution that the coefficients make of an ensemble's mean and sample variance. */
export function predictEmos(
  { a, b, c, d }: EmosCoefficients,
  mean: number,
  variance: number,
): { mean: number; deviation: number } {
  return { mean: a + b * mean, deviation: Math.sqrt(c + d * variance) };
}
