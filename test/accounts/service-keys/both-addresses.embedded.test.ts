import { join } from 'node:path';
import { describe } from 'vitest';
import { repeatWithServiceKeys } from '../../support/service-calls.js';

const metering = join(import.meta.dirname, '../../metering');

/** The tests of these routes at `/api` run again at `/service/organizations/{slug}`. */
describe.each([
  'ingestion/ingest',
  'entitlements/entitlements',
  'reservations/reservations',
  'reports/reading/reading',
  'credits/reservations',
])('with a service key, %s', (name) => repeatWithServiceKeys(join(metering, `${name}.test.ts`)));
