import type { CaseTable } from './case-table.js';
import type { EmosCoefficients } from './emos.js';

export interface EvaluateOptions {
  /** As it was given; `-` is standard input. */
  file: string;
  observed: string;
  /** Regular expression over column names: the ensemble's members. */
  members: string;
  date: string;
  training: RollingTraining | FixedTraining;
  /** 1 to 12: only rows of these months are trained on and tested. Null: all. */
  months: readonly number[] | null;
  /** Column whose values are fitted each for itself; null: one fit for all rows. */
  by: string | null;
  distribution: 'normal' | 'logistic';
  /** Whether the spread is widened until the central 90% interval covers 90% of what was trained on. */
  isWidened: boolean;
  /** Values that mean that there is none, besides empty fields and NA. */
  missing: readonly string[];
  delimiter: string;
}

/** For each date: the latest `days` dates with data that lie more than `lagDays` days before it. */
export interface RollingTraining {
  days: number;
  lagDays: number;
}

/** Once: all dates more than `lagDays` days before `until` (YYYY-MM-DD). What is tested starts at `until`. */
export interface FixedTraining {
  until: string;
  lagDays: number;
}

/** The whole output of the command. Scores are means over the tested cases, in the unit of the observations. */
export interface EvaluationSummary {
  n: number;
  raw: RawScores;
  emos: RawScores & {
    /** −ln of the density at the observation. */
    logScore: number;
  };
  /** Of the fit, the last one of a rolling window; by the value of the column `by` if there is one. */
  coefficients: EmosCoefficients | Record<string, EmosCoefficients>;
}

export interface RawScores {
  crps: number;
  /** Of the distribution's mean, as is `bias` = mean − observed. */
  mae: number;
  bias: number;
  /** The share of observations within the central 90% interval. */
  coverage: number;
}

export const meansOf = <Sums extends object>(sums: Sums, n: number): Sums =>
  Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, (sum as number) / n])) as Sums;

/** Of the ensembles as they are. */
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

/** One forecast that was not trained on, and what came. */
export interface EvaluatedCase {
  /** YYYY-MM-DD. */
  date: string;
  /** Its value in the column `by`; null where that was not asked for. */
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
  /** Of a normal forecast with mean and deviation of the observations that were trained on. */
  climateCrps: number;
  /** The calibrated forecast's probability of at most what was observed. */
  pit: number;
  /** How many members lie below the observation, 0 to `memberCount`; where some equal it, drawn with a fixed seed. */
  rawRank: number;
}

export const leftOutReasons = {
  fields: 'with more or fewer fields than the header',
  date: 'with a date that cannot be read',
  missingObservation: 'without an observation',
  missingMember: 'without a member',
  notNumeric: 'with something that is not a number',
};

/** Rows that are not used; a row counts once, for the first reason. */
export type LeftOut = Record<keyof typeof leftOutReasons, number>;

export interface Evaluation {
  options: EvaluateOptions;
  /** Without its folder. */
  fileName: string;
  memberCount: number;
  /** Rows in the file, and those left in the months that were asked for after `leftOut`. */
  rows: number;
  usedRows: number;
  leftOut: LeftOut;
  /** Usable rows in the time that was to be tested that have no forecast: too few dates before them, or no fit. */
  untested: { tooEarly: number; notFitted: number; whyNotFitted: string | null };
  summary: EvaluationSummary;
  /** In the order of dates. Made while they are read, so that a long file needs little memory; may be read repeatedly. */
  cases: Iterable<EvaluatedCase>;
}
