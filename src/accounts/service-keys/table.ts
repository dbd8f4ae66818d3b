import { pgTable, unique } from 'drizzle-orm/pg-core';
import { keyColumns } from '../api-keys/table.js';

/**
 * Belongs to the service, not to an Organization. For each Organization that it is used for, it has a row in
 * `api_keys`; its own last use is that of a call that named no Organization in its address.
 */
export const serviceKeys = pgTable(
  'service_keys',
  (c) => ({ id: c.uuid().primaryKey(), ...keyColumns() }),
  (t) => [
    unique('service_keys_hashed_secret').on(t.hashedSecret),
    // One of two concurrent rotations fails to insert its successor.
    unique('service_keys_rotated_from').on(t.rotatedFromId),
  ],
);
