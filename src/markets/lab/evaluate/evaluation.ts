import type { CaseTable } from './case-table.js';
import type { EmosCoefficients } from './emos.js';

export interface EvaluateOptions {
  /** As given; `-` is standard input. */
  file: string;
  observed: string;
  /** Regular expression for the columns of the ensemble's members. */
  members: string;
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

/** For each date: the latest `days` dates with data that are more than `lagDays` days earlier. */
export interface RollingTraining {
  days: number;
  lagDays: number;
}

/** Trained once, on all dates more than `lagDays` days before `until` (YYYY-MM-DD); tests start at `until`. */
export interface FixedTraining {
  until: string;
  lagDays: number;
}

/** The output of the command. Scores are means over the tested cases, in the unit of the observations. */
export interface EvaluationSummary {
  n: number;
  raw: RawScores;
  emos: RawScores & {
    /** −ln of the density at the observation. */
    logScore: number;
  };
  /** Coefficients of the fit (the last one for a rolling window), by value of the `by` column if given. */
  coefficients: EmosCoefficients | Record<string, EmosCoefficients>;
}

export interface RawScores {
  crps: number;
  /** Mean absolute error of the distribution's mean; `bias` is its mean − observed. */
  mae: number;
  bias: number;
  /** Share of observations within the central 90% interval. */
  coverage: number;
}

export const meansOf = <Sums extends object>(sums: Sums, n: number): Sums =>
  Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, (sum as number) / n])) as Sums;

export function rawScores(rows: readonly number[], table: CaseTable): RawScores {
  const sums = { crps: 0, mae: 0, bias: 0, coverage: 0 };
  for (const row of rows) {
    const read = (name: Parameters<CaseTable['get']>[0]) => table.get(name, row);
    const error = read('mean') - read('observed');
    sums.crps += read('crps');
    sums.mae += Math.abs(error);
    sums.bias += error;
    sums.coverage += Number(read('observed') >= read('low') && read('observed') <= read('high'));
  }
  return meansOf(sums, rows.length);
}

/** One out-of-sample forecast. */
export interface EvaluatedCase {
  /** YYYY-MM-DD. */
  date: string;
  /** Value in the `by` column; null without one. */
  by: string | null;
  observed: number;
  members: {
    mean: number;
    /** Sample deviation; 0 for a single member. */
    deviation: number;
    lowest: number;
    highest: number;
  };
  mean: number;
  deviation: number;
  /** The central 90% interval of the calibrated forecast. */
  low: number;
  high: number;
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
  missingMember: 'without a member',
  notNumeric: 'with something that is not a number',
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
