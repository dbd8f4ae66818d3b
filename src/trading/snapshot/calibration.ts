import type { Metrics } from '../../core/metrics.js';
import { noFits, type FitBook } from '../forecast/fits.js';
import { noGates, type GateBook } from '../signals/gate.js';

/** What has been learned of the past. Immutable; jobs put a new one in its place, refreshes read it. */
export interface Calibration {
  fits: FitBook;
  gates: GateBook;
}

export const nothingLearned: Calibration = Object.freeze({ fits: noFits, gates: noGates });

export interface CalibrationStore {
  readonly current: Calibration;
  replace(part: Partial<Calibration>): void;
}

/** @param metrics left out: none are kept */
export function createCalibrationStore(
  initial: Calibration = nothingLearned,
  metrics?: Pick<Metrics, 'fitsTime' | 'openGates'>,
): CalibrationStore {
  let current = initial;
  return {
    get current() {
      return current;
    },
    replace(part) {
      current = Object.freeze({ ...current, ...part });
      metrics?.fitsTime.set((current.fits.madeAt?.getTime() ?? 0) / 1000);
      metrics?.openGates.set(current.gates.gates.filter(({ isOpen }) => isOpen).length);
    },
  };
}
