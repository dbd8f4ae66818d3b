import type { FixedTraining, RollingTraining } from './training.js';

export interface EvaluateOptions {
  /** As given; `-` is standard input. */
  file: string;
  observed: string;
  /** Regular expression for columns. */
  members: string;
  /** Column, for a single member. If undefined, the members' standard deviation is used. */
  spread?: string | undefined;
  date: string;
  training: RollingTraining | FixedTraining;
  /** 1 to 12; null for all. */
  months: readonly number[] | null;
  /** Splits the rows into groups with separate fits; null for one fit of all rows. */
  by: string | null;
  distribution: 'normal' | 'logistic';
  /** Widens the spread until the central 90% interval covers 90% of the training cases. */
  isWidened: boolean;
  /** Empty fields and NA are missing in any case. */
  missing: readonly string[];
  delimiter: string;
  /** Numbers are written as 12,5. */
  hasDecimalComma: boolean;
}

/** Out of sample. */
export interface EvaluatedCase {
  /** YYYY-MM-DD. */
  date: string;
  /** Null if no column is given. */
  by: string | null;
  observed: number;
  mean: number;
  rawCrps: number;
  emosCrps: number;
  /** Climatological: normal, with the mean and standard deviation of the training observations. */
  climateCrps: number;
  /** The calibrated forecast's CDF at the observation. */
  pit: number;
  /** Members below the observation; ties are broken with a fixed seed. */
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

/** Each row counts once, for the first reason that applies. */
export type LeftOut = Record<keyof typeof leftOutReasons, number>;
