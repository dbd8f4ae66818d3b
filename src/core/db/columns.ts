import { timestamp } from 'drizzle-orm/pg-core';

/** As fine as Postgres keeps it; a `Date` holds milliseconds of it. */
export const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });
