import { change, byService } from '../../src/accounts/audit/audit.js';
import { systemClock } from '../../src/core/time.js';
import type { Database, Tx } from '../../src/core/db/client.js';

export const inChange = <T>(db: Database, work: (tx: Tx) => Promise<T>): Promise<T> =>
  change({ db, clock: systemClock }, byService, work);
