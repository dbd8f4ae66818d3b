import type { SnapshotInputs, SnapshotRules } from '../snapshot/build-snapshot.js';

/** The first record of each run of a service: what stays the same while it runs. */
export type TapeHeader = Omit<SnapshotRules, 'model'>;

/** One refresh. What is left out is what it was in the record before. */
export type TapeRecord = Omit<SnapshotInputs, 'weather' | 'calibration'> &
  Partial<Pick<SnapshotInputs, 'weather' | 'calibration'>>;

/** What stands in the header record beside the header. A tape of another format is refused. */
export const TAPE_FORMAT = 1;
