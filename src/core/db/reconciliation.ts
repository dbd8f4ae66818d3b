import type { Clock } from '../time.js';
import type { MaintenanceDatabase } from './maintenance.js';

/** A product's contribution to `npm run reconcile`. */
export interface Reconciliation {
  /** Completes the sentence "Compares …". */
  subject: string;
  /** Text for `--help`, in paragraphs. */
  help: string;
  compare(scope: ReconciliationScope): Promise<Comparison>;
}

export interface ReconciliationScope {
  db: MaintenanceDatabase;
  clock: Clock;
  /** Undefined: all Organizations. */
  orgId: string | undefined;
}

export interface Comparison {
  text: string;
  json: object;
  isEqual: boolean;
  /** Undefined if nothing can be repaired. Resolves to the comparison after the repair. */
  repair?: () => Promise<Omit<Comparison, 'repair'>>;
}
