import type { EmosCoefficients } from './emos.js';
import type { ForecastScores, RawScores } from './scores.js';
import type { FixedTraining, RollingTraining } from './training.js';

export interface EvaluateOptions {
  /** As given; `-` is standard input. */
  file: string;
  observed: string;
  /** Regular expression for the columns of the ensemble's members. */
  members: string;
  /** Column of the standard deviation, for a single member; undefined: the members' own. */
  spread?: string | undefined;
  date: string;
  training: RollingTraining | FixedTraining;
  /** Months (1 to 12) whose rows are used for training and testing. Null: all. */
  months: readonly number[] | null;
  /** Column whose values are fitted separately; null: one fit for all rows. */
  by: string | null;
  distribution: 'normal' | 'logistic';
  /** Whether the spread is widened until the central 90% interval covers 90% of the training cases. */
  isWidened: boolean;
  /** Values that mark missing data, besides empty fields and NA. */
  missing: readonly string[];
  delimiter: string;
}

/** The output of the command. Scores are means over the tested cases, in the unit of the observations. */
export interface EvaluationSummary {
  n: number;
  raw: RawScores;
  emos: ForecastScores;
  /** Coefficients of the fit (the last one for a rolling window), by value of the `by` column if given. */
  coefficients: EmosCoefficients | Record<string, EmosCoefficients>;
}

/** One out-of-sample forecast. */
export interface EvaluatedCase {
  /** YYYY-MM-DD. */
  date: string;
  /** Value in the `by` column; null without one. */
  by: string | null;
  observed: number;
  mean: number;
  rawCrps: number;
  emosCrps: number;
  /** CRPS of a normal forecast with the mean and deviation of the training observations. */
  climateCrps: number;
  /** The calibrated forecast's probability of at most the observation. */
  pit: number;
  /** Number of members below the observation, 0 to `memberCount`; ties are broken with a fixed seed. */
  rawRank: number;
}

export const leftOutReasons = {
  fields: 'with more or fewer fields than the header',
  date: 'with a date that cannot be read',
  missingObservation: 'without an observation',
  missingMember: 'with a missing member',
  notNumeric: 'with a value that is not a number',
};

/** Unused rows; each counts once, for its first reason. */
export type LeftOut = Record<keyof typeof leftOutReasons, number>;

export interface Evaluation {
  options: EvaluateOptions;
  /** Without its folder. */
  fileName: string;
  memberCount: number;
  /** Rows in the file, and rows in the selected months after `leftOut`. */
  rows: number;
  usedRows: number;
  leftOut: LeftOut;
  /** Usable rows in the test period without a forecast, because of too few earlier dates or no fit. */
  untested: { tooEarly: number; notFitted: number; whyNotFitted: string | null };
  summary: EvaluationSummary;
  /** In date order. Computed lazily, so that a long file needs little memory; may be iterated repeatedly. */
  cases: Iterable<EvaluatedCase>;
}
