import { sql } from 'drizzle-orm';
import type { Database, Statement, TextRow } from '../../src/core/db/client.js';
import { numberOfKey, METRIC, type Tenant, type Workload } from './workload.js';

const PAGE = 5_000;

const readEvents: Statement = {
  name: 'crash_events',
  text: `
select idempotency_key as key, product_id::text as "productId", trim_scale(quantity)::text as quantity, livemode::text, metric,
  api_key_id::text as "apiKeyId", (extract(epoch from occurred_at) * 1000)::bigint::text as "occurredAtMs"
from usage_events where org_id = $1 and idempotency_key > $2 order by idempotency_key limit ${PAGE}`,
};
const readTotals: Statement = {
  name: 'crash_totals',
  text: `select concat_ws(' ', period, livemode, product_id, metric) as name, (quantity * 1000)::bigint::text as quantity, events::text
from usage_totals where org_id = $1`,
};
const readHours: Statement = {
  name: 'crash_hours',
  text: `select concat_ws(' ', extract(epoch from hour)::bigint, livemode, product_id, metric, api_key_id) as name, (quantity * 1000)::bigint::text as quantity, events::text
from usage_hours where org_id = $1`,
};

export interface Verdict {
  recorded: number;
  acknowledged: number;
  /** Broken guarantees; should be empty. */
  violations: string[];
}

/**
 * Compares the database with the senders' records. Expected sums are computed here, event by event, not by the
 * database.
 */
export async function verify(db: Database, workload: Workload): Promise<Verdict> {
  const verdict: Verdict = { recorded: 0, acknowledged: 0, violations: [] };
  // Fast-growing tables have no statistics yet, so without this, every page of events would sort the whole table.
  await db.orm.execute(sql`analyze`);
  for (const tenant of workload.tenants) await verifyTenant(db, workload, tenant, verdict);
  return verdict;
}

type Sums = Map<string, { quantity: number; events: number }>;

async function verifyTenant(
  db: Database,
  workload: Workload,
  tenant: Tenant,
  verdict: Verdict,
): Promise<void> {
  const { violations } = verdict;
  const totals: Sums = new Map();
  const hours: Sums = new Map();
  const found = new Uint8Array(tenant.ledger.size);
  for (let after = ''; ;) {
    const rows = await db.run(readEvents, [tenant.orgId, after]);
    for (const { key, productId, quantity, livemode, metric, apiKeyId, occurredAtMs } of rows) {
      const number = numberOfKey(key!);
      if (number === undefined || !tenant.ledger.wasSent(number)) {
        violations.push(`${key} was recorded but should not have been`);
        continue;
      }
      found[number]!++;
      const sent = workload.eventOf(tenant, number);
      if (
        productId !== sent.product.id ||
        quantity !== String(sent.quantity / 1000) ||
        livemode !== String(sent.livemode) ||
        metric !== METRIC ||
        (sent.occurredAtMs !== undefined && occurredAtMs !== String(sent.occurredAtMs))
      )
        violations.push(
          `${key} was recorded differently from what was sent: ${productId} ${quantity} ${livemode} ${occurredAtMs}`,
        );
      const ms = Number(occurredAtMs);
      const period = `${new Date(ms).toISOString().slice(0, 7)}-01`;
      add(totals, `${period} ${livemode === 'true' ? 't' : 'f'} ${productId} ${metric}`, sent.quantity);
      const hour = Math.floor(ms / 3_600_000) * 3600;
      add(
        hours,
        `${hour} ${livemode === 'true' ? 't' : 'f'} ${productId} ${metric} ${apiKeyId}`,
        sent.quantity,
      );
    }
    verdict.recorded += rows.length;
    if (rows.length < PAGE) break;
    after = rows.at(-1)!.key!;
  }
  for (let number = 0; number < tenant.ledger.size; number++) {
    if (!tenant.ledger.wasAcknowledged(number)) continue;
    verdict.acknowledged++;
    if (found[number] !== 1) violations.push(`event-${number} got a 202 and is there ${found[number]} times`);
  }
  compare('usage_totals', totals, await db.run(readTotals, [tenant.orgId]), violations);
  compare('usage_hours', hours, await db.run(readHours, [tenant.orgId]), violations);
}

function add(sums: Sums, name: string, quantity: number): void {
  const sum = sums.get(name) ?? { quantity: 0, events: 0 };
  sum.quantity += quantity;
  sum.events++;
  sums.set(name, sum);
}

function compare(table: string, expected: Sums, rows: TextRow[], violations: string[]): void {
  const actual = new Map(
    rows.map(({ name, quantity, events }) => [name!, `${quantity} in ${events} events`]),
  );
  for (const [name, { quantity, events }] of expected) {
    const sum = `${quantity} in ${events} events`;
    if (actual.get(name) !== sum)
      violations.push(`${table} ${name}: ${actual.get(name)}, but the events are ${sum}`);
    actual.delete(name);
  }
  for (const [name, sum] of actual) violations.push(`${table} ${name}: ${sum}, but there are no events`);
}
