/**
 * Four connections insert events and totals into the product's own tables, without checks, parsing or HTTP. Arguments:
 * database URL, batch size, seconds. Prints `{ "perSecond": … }`, in events per second.
 */
import pg from 'pg';
import { textArray } from '../src/core/db/sql.js';

const [url, batchSize, seconds] = [process.argv[2]!, Number(process.argv[3]), Number(process.argv[4])];
const pool = new pg.Pool({ connectionString: url, max: 4 });
const text = `
with inserted as (
  insert into usage_events (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at)
  select $1, k, $2, 'calls', q::numeric, true, $3, o::timestamptz, now() from unnest($4::text[], $5::text[], $6::text[]) as e (k, q, o)
  order by k collate "C"
  on conflict do nothing returning org_id, product_id, metric, livemode, occurred_at, quantity
)
insert into usage_totals as t (org_id, period, livemode, product_id, metric, quantity, events)
select org_id, date_trunc('month', occurred_at at time zone 'UTC')::date, livemode, product_id, metric, sum(quantity), count(*)
from inserted group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
on conflict (org_id, period, livemode, product_id, metric)
do update set quantity = t.quantity + excluded.quantity, events = t.events + excluded.events`;

const organizations = Array.from(
  { length: 16 },
  (_, i) => `00000000-0000-7000-8000-${String(i).padStart(12, '0')}`,
);
const prefix = Date.now().toString(36);
const endsAt = performance.now() + seconds * 1000;
let next = 0;
let events = 0;

async function insertBatches(worker: number): Promise<void> {
  for (let turn = worker; performance.now() < endsAt; turn++) {
    const keys = Array.from({ length: batchSize }, () => `${prefix}-${String(next++).padStart(20, '0')}`);
    const time = new Date().toISOString();
    const org = organizations[turn % 16];
    const values = [
      org,
      org,
      org,
      textArray(keys),
      textArray(keys.map(() => '1')),
      textArray(keys.map(() => time)),
    ];
    await pool.query({ name: 'direct', text, values });
    events += batchSize;
  }
}

const startedAt = performance.now();
await Promise.all([0, 1, 2, 3].map(insertBatches));
process.stdout.write(JSON.stringify({ perSecond: events / ((performance.now() - startedAt) / 1000) }));
await pool.end();
