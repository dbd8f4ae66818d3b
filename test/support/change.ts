import { change } from '../../src/auth/change.js';
import { systemClock } from '../../src/clock.js';
import type { Database, Tx } from '../../src/db/client.js';

/** A change of the service's own. */
export const inChange = <T>(db: Database, work: (tx: Tx) => Promise<T>): Promise<T> =>
  change({ db, clock: systemClock }, { kind: 'service' }, work);
