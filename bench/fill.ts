import pg from 'pg';

interface Fill {
  keys?: number;
  /** Time range in days, and how many days ago it ends. */
  days?: number;
  daysAgo?: number;
}

/** Over the Organizations' API keys, with idempotency keys in chronological order. Fills totals and hourly sums. */
export async function fillEvents(
  url: string,
  rows: number,
  { keys = 16, days = 6, daysAgo = 0 }: Fill = {},
): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('set synchronous_commit = off');
  const step = 500_000;
  for (let from = 0; from < rows; from += step) {
    await client.query(
      `insert into usage_events (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at)
       select k.org_id, '0' || lpad(i::text, 31, '0'), p.id, 'calls', 1, true, k.id, t, t
       from generate_series($1::bigint, $2::bigint) i
       join (select org_id, id, row_number() over (order by org_id, id) - 1 as n from api_keys where livemode) k on k.n = i % $3::int
       cross join (select id from products order by slug limit 1) p
       cross join lateral (select now() - make_interval(secs => ((1 - i / $4::float8) * $5::float8 + $6::float8) * 86400) as t) at`,
      [from, Math.min(from + step, rows) - 1, keys, rows, days, daysAgo],
    );
  }
  for (const statement of [
    `insert into usage_totals select org_id, date_trunc('month', occurred_at at time zone 'UTC')::date, livemode, product_id, metric, sum(quantity), count(*)
     from usage_events group by 1, 2, 3, 4, 5`,
    `insert into usage_hours select org_id, product_id, livemode, date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00'), metric, api_key_id, sum(quantity), count(*)
     from usage_events group by 1, 2, 3, 4, 5, 6`,
    'vacuum analyze',
    'checkpoint',
  ]) {
    await client.query(statement);
  }
  await client.end();
}
