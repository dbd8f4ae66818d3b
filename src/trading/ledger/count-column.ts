import { numeric } from 'drizzle-orm/pg-core';

/** Contracts, in hundredths; see `contracts.ts`. Postgres reckons with them exactly. Raw SQL reads them `::float8`, which is the nearest number. */
export const contractsColumn = (name: string) => numeric(name, { precision: 12, scale: 2, mode: 'number' });
