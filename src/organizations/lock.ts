import { sql } from 'drizzle-orm';
import type { Orm } from '../core/db/client.js';

/**
 * Makes the changes of an Organization wait for each other until the transaction ends. A lock of its own, not of the
 * Organization's row: that row is on every server of a sharded database, and locking it there would need all of them.
 */
export const lockOrganizationId = (tx: Orm, orgId: string): Promise<unknown> =>
  tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${orgId}, 0))`);
