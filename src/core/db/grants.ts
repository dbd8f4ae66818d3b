import { sql } from 'drizzle-orm';
import type { Orm } from './client.js';

/** What is recorded once and stays: the serving role can neither change nor remove a row of these. */
const appendOnly = ['usage_events', 'audit_log', 'operator_log', 'ledger_entries', 'trading_fills'];

/**
 * Gives the role that serves what it needs and no more: to read and write rows of the tables that there are now. It owns
 * nothing, so it cannot change the schema, a constraint or its own rights. Called by the owner after each migration.
 */
export async function grantServing(orm: Orm, role: string): Promise<void> {
  const to = sql.identifier(role);
  const history = sql.join(
    appendOnly.map((table) => sql.identifier(table)),
    sql`, `,
  );
  await orm.transaction(async (tx) => {
    await tx.execute(sql`grant usage on schema public, drizzle to ${to}`);
    await tx.execute(sql`grant select on all tables in schema drizzle to ${to}`);
    await tx.execute(sql`grant select, insert, update, delete on all tables in schema public to ${to}`);
    await tx.execute(sql`revoke update, delete on ${history} from ${to}`);
  });
}
