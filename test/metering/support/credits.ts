import { sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { expect } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { selectRow, selectRows } from '../../../src/core/db/sql.js';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { putIn } from '../../../src/metering/credit-grants/account.js';
import { HOUR_MS } from '../../../src/core/time.js';
import {
  burn,
  insertGrant,
  lockAccount,
  writeAccount,
  type AccountId,
} from '../../../src/metering/credit-grants/queries.js';
import { NOBODY } from '../../../src/metering/credits/table.js';
import type { operatorClient } from '../../support/operator.js';

export interface NewGrant {
  amount: string;
  grantKey?: string;
  reason?: string;
  priority?: number;
  startsAt?: Date;
  expiresAt?: Date;
  productIds?: string[];
  livemode?: boolean;
  rollover?: { percent: number; days: number };
}

/** Adds a grant, even one that started long ago, and settles the account. Returns the grant's id. */
export async function addGrant(db: Database, orgId: string, grant: NewGrant, now: Date): Promise<string> {
  const id = uuid();
  const {
    amount,
    grantKey = id,
    reason = 'test',
    priority = 50,
    startsAt = now,
    expiresAt,
    productIds,
    livemode = true,
    rollover,
  } = grant;
  const account = { orgId, livemode };
  await change({ db, clock: { now: () => now.getTime() } }, byService, async (tx) => {
    await insertGrant(tx, {
      ...account,
      id,
      startsAt,
      expiresAt,
      createdAt: now,
      priority,
      rolloverPercent: rollover?.percent,
      rolloverDays: rollover?.days,
      grantKey,
      amount,
      productIds,
      reason,
      actor: 'system',
      request: {},
    });
    const held = putIn(await lockAccount(tx, account), {
      id,
      rest: amount,
      startsMs: startsAt.getTime(),
      endsMs: expiresAt?.getTime() ?? Infinity,
      scope: (productIds ?? []).join(' '),
      priority,
      rollPercent: rollover?.percent ?? 0,
      rollDays: rollover?.days ?? 0,
    });
    const burnt = await burn(tx, held, now);
    await writeAccount(tx, account, burnt.account, burnt.entries);
  });
  return id;
}

/** Burns credits in the current hour, for no particular product. */
export const burnCredits = (
  db: Database,
  id: AccountId,
  credits: string,
  now: Date,
  productId = NOBODY,
): Promise<void> =>
  change({ db, clock: { now: () => now.getTime() } }, byService, async (tx) => {
    const hour = new Date(Math.floor(now.getTime() / HOUR_MS) * HOUR_MS).toISOString();
    const demand = [{ productId, hour, credits }];
    const { account, entries } = await burn(tx, await lockAccount(tx, id), now, demand);
    await writeAccount(tx, id, account, entries);
  });

/** Reads an account as stored, without settling it: `rests` by grant and `debts` by product. */
export async function readAccount(db: Database, orgId: string, livemode = true) {
  const row = await selectRow<{ rests: Record<string, string> | null; debts: Record<string, string> | null }>(
    db.orm,
    sql`select (select json_object_agg(id, trim_scale(rest)::text) from unnest(a.grants, a.rests) as u (id, rest)) as rests,
      (select json_object_agg(id, trim_scale(debt)::text) from unnest(a.debtors, a.debts) as u (id, debt)) as debts
    from credit_accounts a where org_id = ${orgId}::uuid and livemode = ${livemode}`,
  );
  return { rests: row?.rests ?? {}, debts: row?.debts ?? {} };
}

export interface LedgerRow {
  kind: string;
  productId: string;
  grantId: string;
  amount: string;
  hour: string;
}

/** The ledger of an Organization and mode in chronological order. */
export const readLedger = (db: Database, orgId: string, livemode = true): Promise<LedgerRow[]> =>
  selectRows<LedgerRow>(
    db.orm,
    sql`select kind, product_id::text as "productId", grant_id::text as "grantId", trim_scale(amount)::text as amount,
      to_char(hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI') as hour
    from credit_entries where org_id = ${orgId}::uuid and livemode = ${livemode} order by at, hour, kind desc, product_id, grant_id`,
  );

/**
 * Finds differences between an Organization's ledger, account and usage: in the cost and the burned credits by mode,
 * product and hour; in each grant's amount and entries; in each overdraft.
 */
export const findCreditDrift = (db: Database, orgId: string): Promise<{ what: string }[]> =>
  selectRows(
    db.orm,
    sql`with entry as (select * from credit_entries where org_id = ${orgId}::uuid),
    cost as (
      select livemode, product_id, date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00') as hour, quantity * credit_price as credits
      from usage_events where org_id = ${orgId}::uuid
      union all
      select livemode, product_id, date_bin('1 hour', occurred_at, timestamptz '2000-01-01 00:00:00+00'), (quantity - previous_quantity) * credit_price
      from usage_corrections where org_id = ${orgId}::uuid
      union all
      select livemode, product_id, hour, case kind when 'burn' then -amount else amount end from entry where kind in ('burn', 'return')
    ),
    held as (
      select a.livemode, u.id, u.rest from credit_accounts a cross join lateral unnest(a.grants, a.rests) as u (id, rest)
      where a.org_id = ${orgId}::uuid
    ),
    debt as (
      select a.livemode, u.id, u.debt from credit_accounts a cross join lateral unnest(a.debtors, a.debts) as u (id, debt)
      where a.org_id = ${orgId}::uuid
    )
    select concat('cost ', livemode, ' ', product_id, ' ', hour, ' ', sum(credits)) as what from cost group by livemode, product_id, hour having sum(credits) <> 0
    union all
    select concat('grant ', g.id, ' ', g.amount) from credit_grants g where org_id = ${orgId}::uuid and amount <>
      coalesce((select sum(rest) from held where id = g.id and livemode = g.livemode), 0)
      + coalesce((select sum(case when kind = 'return' then -amount when kind = 'roll' then 0 else amount end) from entry where grant_id = g.id and livemode = g.livemode), 0)
    union all
    select concat('overdraft ', livemode, ' ', product_id) from (
      select livemode, product_id, case when kind = 'burn' then amount else -amount end as amount from entry
      where kind in ('burn', 'return') and grant_id = product_id or kind in ('repay', 'forgive')
      union all
      select livemode, id, -debt from debt
    ) o group by livemode, product_id having sum(amount) <> 0
    union all
    select concat('below zero ', id) from (select id, rest from held union all select id, debt from debt) o where rest < 0
    union all
    select concat('order ', a.livemode, ' ', a.grants) from credit_accounts a
    cross join lateral (
      select array_agg(u.id order by u.priority, u.ends, u.id) as ids from unnest(a.grants, a.priorities, a.ends) as u (id, priority, ends)
    ) sorted
    where a.org_id = ${orgId}::uuid and cardinality(a.grants) > 0 and a.grants <> sorted.ids`,
  );

export const expectLedgerToBalance = async (db: Database, orgId: string): Promise<void> =>
  expect(await findCreditDrift(db, orgId)).toEqual([]);

/** Grants credits through the API; throws unless the grant is created. */
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
