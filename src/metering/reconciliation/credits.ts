import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { inSnapshot, queryRow, queryRows } from '../../core/db/sql.js';
import { exact } from '../../core/http/json.js';
import { modeOf, toTable } from '../../core/text-table.js';

const MAX_ROWS = 1000;

/** `burned` by a product; `rest`, what remains of a grant; `overdraft`, what a product owes. */
const titles = {
  burned: 'Credits burned that differ from quantity × price of the events',
  rest: 'Grants whose remaining credits differ from their entries',
  overdraft: 'Overdrafts that differ from their entries',
} as const;

/** Amounts are exact decimals. */
export interface CreditDrift {
  check: keyof typeof titles;
  organization: string;
  livemode: boolean;
  /** Slug of the product or key of the grant, or an id if its row is missing. */
  of: string;
  recorded: string;
  expected: string;
  difference: string;
  /** All rows that differ. */
  count: number;
}

/** If not, the comparison need not read all events. */
const usesCredits = (tx: Orm): Promise<object | undefined> =>
  queryRow(tx)`
    select 1 as one from products where credit_price is not null union all select 1 from credit_grants
    union all select 1 from credit_accounts union all select 1 from credit_entries limit 1`;

/** A shard coordinator runs a union on each shard, and then receives one row per grant and product. */
const linesOf = (isOwn: SQL): SQL => sql`
    select 'burned' as "check", org_id, livemode, product_id as id, case kind when 'burn' then amount else -amount end as recorded, 0 as expected
    from credit_entries where kind in ('burn', 'return') and ${isOwn}
    union all
    select 'burned', org_id, livemode, product_id, 0, quantity * credit_price from usage_events where credit_price > 0 and ${isOwn}
    union all
    select 'burned', org_id, livemode, product_id, 0, (quantity - previous_quantity) * credit_price
    from usage_corrections where credit_price > 0 and ${isOwn}
    union all
    select 'burned', org_id, livemode, product_id, 0, deleted_credits from usage_archived_totals where deleted_credits <> 0 and ${isOwn}
    union all
    select 'rest', org_id, livemode, u.id, u.rest, 0 from credit_accounts cross join lateral unnest(grants, rests) as u (id, rest) where ${isOwn}
    union all
    select 'rest', org_id, livemode, id, 0, amount from credit_grants where ${isOwn}
    union all
    select 'rest', org_id, livemode, grant_id, 0, case kind when 'return' then amount else -amount end
    from credit_entries where kind in ('burn', 'return', 'repay', 'expire', 'void') and grant_id <> product_id and ${isOwn}
    union all
    select 'overdraft', org_id, livemode, u.id, u.debt, 0 from credit_accounts cross join lateral unnest(debtors, debts) as u (id, debt) where ${isOwn}
    union all
    select 'overdraft', org_id, livemode, product_id, 0, case kind when 'burn' then amount else -amount end
    from credit_entries where (kind in ('repay', 'forgive') or kind in ('burn', 'return') and grant_id = product_id) and ${isOwn}`;

/** Credits with the ledger and that with the events, in one snapshot. Amounts must never be negative. */
export const compareCredits = (orm: Orm, orgId: string | undefined): Promise<CreditDrift[]> =>
  inSnapshot(orm, async (tx) => {
    if (!(await usesCredits(tx))) return [];
    return queryRows(tx)<CreditDrift>`
      select d."check", coalesce(o.slug, d.org_id::text) as organization, d.livemode, coalesce(g.grant_key, p.slug, d.id::text) as of,
        trim_scale(d.recorded)::text as recorded, trim_scale(d.expected)::text as expected,
        trim_scale(d.recorded - d.expected)::text as difference, (count(*) over ())::int as count
      from (
        select "check", org_id, livemode, id, sum(recorded) as recorded, sum(expected) as expected
        from (${linesOf(orgId === undefined ? sql`true` : sql`org_id = ${orgId}::uuid`)}) l
        group by 1, 2, 3, 4
        having sum(recorded) <> sum(expected) or "check" <> 'burned' and min(recorded) < 0
      ) d
      left join organizations o on o.id = d.org_id
      left join products p on p.id = d.id
      left join credit_grants g on g.org_id = d.org_id and g.livemode = d.livemode and g.id = d.id
      order by 1, 2, 3, 4
      limit ${MAX_ROWS}`;
  });

export function creditDriftText(rows: CreditDrift[]): string {
  if (rows.length === 0) return '';
  const sections = Object.entries(titles).flatMap(([check, title]) => {
    const own = rows.filter((row) => row.check === check);
    const counted = own.map((row) => ({ ...row, count: own.length }));
    return toTable(title, counted, {
      texts: { organization: 'organization', mode: modeOf, [check === 'rest' ? 'grant' : 'product']: 'of' },
      numbers: { recorded: 'recorded', expected: 'expected', difference: 'difference' },
    });
  });
  const more = rows[0]!.count - rows.length;
  return [
    '',
    ...sections,
    ...(more > 0 ? [`… and ${more} more differences of credits`, ''] : []),
    'Credits are never repaired, because a lost entry and a wrong balance look the same: compare the entries of the ledger with the events, and correct with a grant, a void or a correction.',
  ].join('\n');
}

/** `toJson` writes amounts as numbers with all digits. */
export const creditDriftJson = (rows: CreditDrift[]): object =>
  rows.length === 0
    ? {}
    : {
        credits: rows.map(({ count: _count, of, check, recorded, expected, difference, ...row }) => ({
          check,
          ...row,
          [check === 'rest' ? 'grantKey' : 'productSlug']: of,
          recorded: exact(recorded),
          expected: exact(expected),
          difference: exact(difference),
        })),
      };
