import type { Clock } from '../time.js';
import type { MaintenanceDatabase } from './maintenance.js';

export interface Reconciliation {
  /** Completes the sentence "Compares …". */
  subject: string;
  help: string;
  compare(scope: { db: MaintenanceDatabase; clock: Clock; orgId: string | undefined }): Promise<Comparison>;
}

export interface Comparison {
  text: string;
  json: object;
  isEqual: boolean;
  /** Undefined if nothing can be repaired. */
  repair?: () => Promise<Omit<Comparison, 'repair'>>;
}
