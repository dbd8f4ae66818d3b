import type { EmosCoefficients } from './emos.js';
import type { ForecastScores, RawScores } from './scores.js';
import type { FixedTraining, RollingTraining } from './training.js';

export interface EvaluateOptions {
  /** File path as given; `-` is standard input. */
  file: string;
  observed: string;
  /** Regular expression that matches the columns of the ensemble's members. */
  members: string;
  /** Column with the standard deviation, for a single member. If undefined, the members' standard deviation is used. */
  spread?: string | undefined;
  date: string;
  training: RollingTraining | FixedTraining;
  /** Months (1 to 12) whose rows are used for training and testing; null for all. */
  months: readonly number[] | null;
  /** Column that splits the rows into groups with separate fits; null for one fit of all rows. */
  by: string | null;
  distribution: 'normal' | 'logistic';
  /** If true, the spread is widened until the central 90% interval covers 90% of the training cases. */
  isWidened: boolean;
  /** Values that mark missing data, in addition to empty fields and NA. */
  missing: readonly string[];
  delimiter: string;
  /** True if numbers are written as 12,5. */
  hasDecimalComma: boolean;
}

/** The command's output. Scores are means over the tested cases, in the unit of the observations. */
export interface EvaluationSummary {
  n: number;
  raw: RawScores;
  emos: ForecastScores;
  /** Coefficients of the fit (the last one for a rolling window), keyed by the value of the `by` column if any. */
  coefficients: EmosCoefficients | Record<string, EmosCoefficients>;
}

/** One out-of-sample forecast. */
export interface EvaluatedCase {
  /** YYYY-MM-DD. */
  date: string;
  /** Value in the `by` column; null if no column is given. */
  by: string | null;
  observed: number;
  mean: number;
  rawCrps: number;
  emosCrps: number;
  /** CRPS of the climatological forecast: normal, with the mean and standard deviation of the training observations. */
  climateCrps: number;
  /** Probability integral transform: the calibrated forecast's CDF at the observation. */
  pit: number;
  /** Number of members below the observation, 0 to `memberCount`; ties are broken with a fixed seed. */
  rawRank: number;
}

export const leftOutReasons = {
  fields: 'with more or fewer fields than the header',
  date: 'with a date that cannot be read',
  missingObservation: 'without an observation',
  missingMember: 'without any member',
  notNumeric: 'with a value that is not a number',
  repeated: 'that repeat the date and the --by column of an earlier row',
};

/** Counts of unused rows; each row counts once, for the first reason that applies. */
export type LeftOut = Record<keyof typeof leftOutReasons, number>;

export interface Evaluation {
  options: EvaluateOptions;
  /** File name without its folder. */
  fileName: string;
  memberCount: number;
  /** `rows`: rows in the file. `usedRows`: rows in the selected months, except those in `leftOut`. */
  rows: number;
  usedRows: number;
  leftOut: LeftOut;
  /** Usable rows in the test period that got no forecast, because they had too few earlier dates or no fit. */
  untested: { tooEarly: number; notFitted: number; whyNotFitted: string | null };
  summary: EvaluationSummary;
  /** In date order. Computed lazily, so that a long file needs little memory; may be iterated more than once. */
  cases: Iterable<EvaluatedCase>;
}
