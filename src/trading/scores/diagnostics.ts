/** How often what was given about the same probability came true. */
export interface ReliabilityBin {
  /** Probabilities of at least `from` and below `to` (the last bin: at most). */
  from: number;
  to: number;
  n: number;
  /** Both null for an empty bin. */
  meanProbability: number | null;
  frequency: number | null;
  /** Where the frequency of a reliable forecast is found nine times of ten, by the bin's own probabilities. Null for an empty bin. */
  expected: { low: number; high: number } | null;
}

/**
 * Where the outcomes lie in the forecast distributions: flat for a calibrated forecast, a bowl for one that is too sure of
 * itself, a hill for one that is not sure enough. Whole degrees count with the share of each bin that they cover.
 * C. Czado, T. Gneiting, L. Held, Predictive Model Assessment for Count Data, Biometrics 65 (2009).
 */
export interface PitHistogram {
  n: number;
  /** Of equal width from 0 to 1: shares that sum to one. */
  shares: readonly number[];
  /** The probability of a histogram as uneven as this or more if the forecast is calibrated; null for too few. */
  pFlat: number | null;
}

/** Mean CRPS in °F over the forecasts of a climate day that all four could be scored for. */
export interface CrpsPoint {
  date: string;
  n: number;
  model: number;
  raw: number;
  climate: number;
  market: number;
}
