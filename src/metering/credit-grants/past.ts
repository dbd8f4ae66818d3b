import { sql } from 'drizzle-orm';
import { selectRows, textArray, timeText, queryRows } from '../../core/db/sql.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { addDecimals, subtractDecimals } from '../../core/decimal.js';
import { DAY_MS } from '../../core/time.js';
import { nameFlush, type Account, type Flush, type GrantTerms, type Past } from './account.js';
import { ownRows, selectGrants, toHeldGrant, type AccountId, type GrantRow } from './queries.js';

/** The keys are the flush and the grant. */
async function listBurned(orm: Orm, id: AccountId, flushes: readonly Flush[]): Promise<Past['burned']> {
  const rows = await queryRows(orm)<Flush & { grantId: string; amount: string }>`
    select ${timeText(sql`e.at`)} as at, e.product_id::text as "productId", ${timeText(sql`e.hour`)} as hour, e.grant_id::text as "grantId",
      trim_scale(sum(case e.kind when 'burn' then e.amount else -e.amount end))::text as amount
    from (
      select distinct * from unnest(${textArray(flushes.map(({ productId }) => productId))}::uuid[], ${textArray(flushes.map(({ at }) => at))}::timestamptz[],
        ${textArray(flushes.map(({ hour }) => hour))}::timestamptz[]) as f (product_id, at, hour)
    ) f
    join credit_entries e on ${ownRows('e', id)} and e.product_id = f.product_id and e.at = f.at and e.hour = f.hour
    where e.kind in ('burn', 'return')
    group by e.at, e.product_id, e.hour, e.grant_id`;
  const burned: Past['burned'] = new Map(flushes.map((flush) => [nameFlush(flush), new Map()]));
  for (const { grantId, amount, ...flush } of rows) burned.get(nameFlush(flush))!.set(grantId, amount);
  return burned;
}

/** Newest first, without those that a correction has undone. */
async function listRepaid(orm: Orm, id: AccountId, productIds: readonly string[]): Promise<Past['repaid']> {
  const rows = await queryRows(orm)<{ productId: string; grantId: string; amount: string }>`
    select e.product_id::text as "productId", e.grant_id::text as "grantId", trim_scale(e.amount)::text as amount
    from credit_entries e
    join credit_grants g on g.org_id = e.org_id and g.livemode = e.livemode and g.id = e.grant_id
    where ${ownRows('e', id)} and e.product_id = any (${textArray(productIds)}::uuid[]) and e.kind = 'repay'
    order by e.at desc, g.priority desc, g.expires_at desc nulls first, g.id desc`;
  const repaid: Past['repaid'] = new Map();
  const undone = new Map<string, string>();
  for (const { productId, grantId, amount } of rows) {
    const name = `${productId} ${grantId}`;
    const open = undone.get(name) ?? '0';
    if (amount.startsWith('-')) undone.set(name, addDecimals(open, amount.slice(1)));
    else {
      undone.set(name, subtractDecimals(open, amount));
      const payment = { grantId, amount: subtractDecimals(amount, open) };
      repaid.set(productId, [...(repaid.get(productId) ?? []), payment]);
    }
  }
  return repaid;
}

async function listTerms(orm: Orm, id: AccountId, grantIds: readonly string[]): Promise<Past['terms']> {
  const isAsked = sql`g.id = any (${textArray(grantIds)}::uuid[])`;
  const rows = await selectRows<{ row: GrantRow }>(orm, selectGrants(id, isAsked));
  return new Map(
    rows.map(({ row }): [string, GrantTerms] => {
      const held = toHeldGrant(row);
      const { endsMs: expiresMs, rollDays } = held;
      const end = row.hasRolled ? { endsMs: expiresMs + rollDays * DAY_MS, rollPercent: 0 } : {};
      return [row.id, { held: { ...held, ...end }, expiresMs, rollDays, isVoided: row.voidedAt !== null }];
    }),
  );
}

/** @param account locked and brought up to date */
export async function readPast(tx: Tx, id: AccountId, account: Account, flushes: readonly Flush[]) {
  const past = await readLedger(tx, id, flushes);
  // The account includes rollovers that are not in the ledger yet.
  for (const held of account.grants)
    past.terms.set(held.id, {
      ...(past.terms.get(held.id) ?? { expiresMs: held.endsMs, rollDays: 0, isVoided: false }),
      held,
    });
  return past;
}

async function readLedger(tx: Tx, id: AccountId, needed: readonly Flush[]): Promise<Past> {
  // The query would count a repeated flush twice.
  const flushes = [...new Map(needed.map((flush) => [nameFlush(flush), flush])).values()];
  if (flushes.length === 0) return { burned: new Map(), repaid: new Map(), terms: new Map() };
  const burned = await listBurned(tx, id, flushes);
  const indebted = flushes.flatMap((flush) =>
    burned.get(nameFlush(flush))!.has(flush.productId) ? [flush.productId] : [],
  );
  const repaid = indebted.length === 0 ? new Map() : await listRepaid(tx, id, [...new Set(indebted)]);
  const ids = [...burned.values(), ...repaid.values()].flatMap((parts) =>
    parts instanceof Map ? [...parts.keys()] : (parts as { grantId: string }[]).map(({ grantId }) => grantId),
  );
  return { burned, repaid, terms: await listTerms(tx, id, [...new Set(ids)]) };
}
