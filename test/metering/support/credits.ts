import { expect } from 'vitest';
import { sql } from 'drizzle-orm';
import type { Database, Names } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { burnCredits } from '../../../src/metering/credits/statements.js';
import type { operatorClient } from '../../support/operator.js';

/** Expects what is always true about the ledger of an Organization, in both modes. */
export async function expectLedgerToBalance(db: Database, orgId: string): Promise<void> {
  const broken = await selectRows(
    db.orm,
    sql`
    select 'cost' as what, coalesce(c.livemode, e.livemode)::text as id, c.cost::text as expected, e.burned::text as actual
    from (
      select livemode, sum(cost) as cost from (
        select livemode, quantity * credit_price as cost from usage_events where org_id = ${orgId}::uuid
        union all
        select livemode, (quantity - previous_quantity) * credit_price from usage_corrections where org_id = ${orgId}::uuid
      ) x group by 1
    ) c
    full join (
      select livemode, sum(case kind when 'burn' then amount else -amount end) as burned
      from credit_entries where org_id = ${orgId}::uuid and kind in ('burn', 'return') group by 1
    ) e on e.livemode = c.livemode
    where coalesce(c.cost, 0) <> coalesce(e.burned, 0)
    union all
    select 'grant', g.grant_key, g.amount::text, (coalesce(r.rest, 0) + coalesce(e.gone, 0))::text
    from credit_grants g
    left join lateral (
      select sum(case kind when 'return' then -amount when 'roll' then 0 else amount end) as gone
      from credit_entries where org_id = ${orgId}::uuid and livemode = g.livemode and grant_id = g.id
    ) e on true
    left join lateral (
      select u.rest from credit_accounts a cross join lateral unnest(a.grants, a.rests) as u (id, rest)
      where a.org_id = ${orgId}::uuid and a.livemode = g.livemode and u.id = g.id
    ) r on true
    where g.org_id = ${orgId}::uuid and g.amount <> coalesce(r.rest, 0) + coalesce(e.gone, 0)
    union all
    select 'overdraft', coalesce(d.product_id, e.product_id)::text, d.debt::text, e.debt::text
    from (
      select a.livemode, u.product_id, u.debt from credit_accounts a cross join lateral unnest(a.debtors, a.debts) as u (product_id, debt)
      where a.org_id = ${orgId}::uuid
    ) d
    full join (
      select livemode, product_id, sum(case when kind = 'burn' then amount else -amount end) as debt
      from credit_entries
      where org_id = ${orgId}::uuid and (kind in ('repay', 'forgive') or kind in ('burn', 'return') and grant_id = product_id)
      group by 1, 2
    ) e on e.livemode = d.livemode and e.product_id = d.product_id
    where coalesce(d.debt, 0) <> coalesce(e.debt, 0)
    union all
    select 'below 0', a.livemode::text, a.rests::text, a.debts::text from credit_accounts a
    where a.org_id = ${orgId}::uuid and (0 > any (a.rests) or 0 >= any (a.debts))
    union all
    select 'order', a.livemode::text, a.grants::text, s.sorted::text from credit_accounts a
    cross join lateral (
      select array_agg(u.id order by u.priority, u.ends, u.id) as sorted
      from unnest(a.grants, a.priorities, a.ends) as u (id, priority, ends)
    ) s
    where a.org_id = ${orgId}::uuid and cardinality(a.grants) > 0 and a.grants <> s.sorted`,
  );
  expect(broken).toEqual([]);
}

/** Grants credits through the API; throws unless it is created. */
export async function giveCredits(
  operate: ReturnType<typeof operatorClient>,
  slug: string,
  grantKey: string,
  amount: number | string,
  more: object = {},
) {
  const { status, body, text } = await operate(
    'PUT',
    `/organizations/${slug}/credits/grants/${encodeURIComponent(grantKey)}`,
    `{"amount":${amount},${JSON.stringify({ reason: 'Test', ...more }).slice(1)}`,
  );
  if (status !== 201) throw new Error(`The grant was answered ${status}: ${text}`);
  return body.grant;
}

export interface BurntEvent {
  productId: string;
  key: string;
  quantity: string;
  price: string;
  /** When it is received. */
  at: string;
  /** Default: when it is received. */
  occurredAt?: string;
  livemode?: boolean;
}

/** Records a priced event as ingestion does, at a time and a price that the test chooses. */
export async function recordBurn(db: Database, orgId: string, event: BurntEvent): Promise<void> {
  const { productId, key, quantity, price, at, occurredAt = at, livemode = true } = event;
  await db.run(
    {
      name: 'test_record_burn',
      text: `with priced as materialized (
  insert into usage_events (org_id, product_id, api_key_id, occurred_at, received_at, livemode, idempotency_key, metric, quantity, credit_price)
  values ($1::uuid, $2::uuid, $1::uuid, $3::timestamptz, $4::timestamptz, $5::boolean, $6, 'calls', $7::numeric, $8::numeric)
  returning org_id, livemode, product_id, date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00') as hour, quantity * credit_price as credits
), ${burnCredits(((name: string) => name) as Names, { from: 'priced', now: '$4::timestamptz', after: 'true' })}
select 1`,
    },
    [orgId, productId, occurredAt, at, livemode, key, quantity, price],
  );
}
