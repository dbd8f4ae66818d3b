import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { inSnapshot, queryRows } from '../../core/db/sql.js';
import { toTable } from '../../core/text-table.js';
import { formatDollars } from '../market/money.js';

/** All rules but those of contracts are about money. */
const amount = ({ rule }: Pick<LedgerProblem, 'rule'>, value: string | null): string | null =>
  value === null || /^(filled_)?contracts /.test(rule) ? value : formatDollars(BigInt(value));

export function ledgerText(problems: readonly LedgerProblem[]): string {
  if (problems.length === 0)
    return 'The ledger agrees with every account, position, order, fill and settlement.';
  const ruleNames = [...new Set(problems.map(({ rule }) => rule))];
  return ruleNames
    .flatMap((rule) =>
      toTable(
        `Broken: ${rule}`,
        problems.filter((problem) => problem.rule === rule),
        columns,
      ),
    )
    .join('\n');
}

const columns = {
  texts: { organization: 'organization', mode: 'mode', about: 'about' },
  numbers: {
    recorded: (problem: LedgerProblem) => amount(problem, problem.recorded) ?? 'missing',
    ledger: (problem: LedgerProblem) => amount(problem, problem.actual) ?? 'none',
  },
} as const;

export const ledgerJson = (problems: readonly LedgerProblem[]) =>
  problems.map(({ orgId: _orgId, ...problem }) => ({
    ...problem,
    recorded: amount(problem, problem.recorded),
    actual: amount(problem, problem.actual),
  }));

interface LedgerProblem {
  rule: string;
  orgId: string;
  organization: string;
  mode: string;
  /** A market or order; empty for the whole account. */
  about: string;
  /** Millionths of a dollar; null if the row is missing. */
  recorded: string | null;
  /** From the ledger or the fills. */
  actual: string | null;
  /** All violations of the rule. */
  count: number;
}

interface Rule {
  name: string;
  /** Selects `org_id, mode, about, recorded, actual`. `rows` limits a table to the checked Organizations. */
  broken: (rows: (table: string) => SQL) => SQL;
}

/** In the ledger, a profit is negative. */
const positionRule = (column: string, account: string, sign: '' | '-'): Rule => ({
  name: `${column} of a position is the sum of its postings`,
  broken: (rows) => sql`
    select coalesce(p.org_id, l.org_id) as org_id, coalesce(p.mode, l.mode) as mode,
      coalesce(p.ticker, l.ticker) as about, p.${sql.raw(column)} as recorded, l.actual
    from ${rows('trading_positions')} p
    full join (
      select org_id, mode, ticker, ${sql.raw(sign)}sum(${sql.raw(account)}) as actual from ${rows('ledger_entries')} e
      where ticker is not null group by 1, 2, 3
    ) l on l.org_id = p.org_id and l.mode = p.mode and l.ticker = p.ticker
    where p.ticker is null or coalesce(l.actual, 0) <> p.${sql.raw(column)}`,
});

/** @param sum SQL over the fills `f` of order `o` */
const orderRule = (column: string, sum: string): Rule => ({
  name: `${column} of an order is the sum of its fills`,
  broken: (rows) => sql`
    select o.org_id, o.mode, o.id::text as about, o.${sql.raw(column)} as recorded,
      coalesce(sum(${sql.raw(sum)}), 0) as actual
    from ${rows('trading_orders')} o
    left join ${rows('trading_fills')} f on f.org_id = o.org_id and f.order_id = o.id
    group by o.org_id, o.mode, o.id, o.${sql.raw(column)}
    having coalesce(sum(${sql.raw(sum)}), 0) <> o.${sql.raw(column)}`,
});

const rules: Rule[] = [
  {
    name: 'cash of an account is the sum of its postings',
    broken: (rows) => sql`
      select coalesce(a.org_id, l.org_id) as org_id, coalesce(a.mode, l.mode) as mode, '' as about,
        a.cash as recorded, l.actual
      from ${rows('trading_accounts')} a
      full join (
        select org_id, mode, sum(cash) as actual from ${rows('ledger_entries')} e group by 1, 2
      ) l on l.org_id = a.org_id and l.mode = a.mode
      where a.org_id is null or coalesce(l.actual, 0) <> a.cash`,
  },
  positionRule('cost', 'positions', ''),
  positionRule('realised', 'realised', '-'),
  positionRule('fees', 'fees', ''),
  {
    // Buying the other side subtracts the contracts that it closes: YES is positive, NO negative.
    name: 'contracts of a position equal its fills minus its settlements',
    broken: (rows) => sql`
      select coalesce(p.org_id, m.org_id) as org_id, coalesce(p.mode, m.mode) as mode,
        coalesce(p.ticker, m.ticker) as about,
        p.contracts * case p.side when 'yes' then 1 else -1 end as recorded, m.actual
      from ${rows('trading_positions')} p
      full join (
        select org_id, mode, ticker, sum(contracts) as actual from (
          select o.org_id, o.mode, o.ticker, f.contracts * case when (o.side = 'yes') = (o.action = 'buy') then 1 else -1 end
          from ${rows('trading_orders')} o
          join ${rows('trading_fills')} f on f.org_id = o.org_id and f.order_id = o.id
          union all
          select s.org_id, s.mode, s.ticker, s.contracts * case s.side when 'yes' then -1 else 1 end
          from ${rows('trading_settlements')} s
          join ${rows('ledger_entries')} e on e.org_id = s.org_id and e.mode = s.mode and e.ticker = s.ticker
            and e.settlement_n = s.n and e.kind = 'settlement'
        ) moves (org_id, mode, ticker, contracts) group by 1, 2, 3
      ) m on m.org_id = p.org_id and m.mode = p.mode and m.ticker = p.ticker
      where coalesce(p.contracts * case p.side when 'yes' then 1 else -1 end, 0) <> coalesce(m.actual, 0)`,
  },
  orderRule('filled_contracts', 'f.contracts'),
  orderRule('fees', 'f.fee'),
  orderRule('booked', "floor(f.price * f.contracts) * case o.action when 'buy' then -1 else 1 end - f.fee"),
  {
    name: 'a fill has one entry in the ledger, and the entry its amounts',
    broken: (rows) => sql`
      select coalesce(f.org_id, e.org_id) as org_id, coalesce(f.mode, e.mode) as mode,
        coalesce(f.order_id, e.order_id) || ' ' || coalesce(f.n, e.fill_n) as about,
        f.balance_change as recorded, e.cash as actual
      from (
        select f.*, o.mode, o.ticker
        from ${rows('trading_fills')} f
        left join ${rows('trading_orders')} o on o.org_id = f.org_id and o.id = f.order_id
      ) f
      full join (select * from ${rows('ledger_entries')} e where kind = 'fill') e
        on e.org_id = f.org_id and e.order_id = f.order_id and e.fill_n = f.n
      where f.n is null or e.fill_n is null or f.mode is distinct from e.mode or f.ticker is distinct from e.ticker
        or e.fees <> f.fee or e.cash <> f.balance_change`,
  },
  {
    name: 'every settlement is booked in the ledger',
    broken: (rows) => sql`
      select coalesce(s.org_id, e.org_id) as org_id, coalesce(s.mode, e.mode) as mode,
        coalesce(s.ticker, e.ticker) || ' ' || coalesce(s.n, e.settlement_n) as about,
        s.cash_change as recorded, e.cash as actual
      from ${rows('trading_settlements')} s
      full join (select * from ${rows('ledger_entries')} e where kind in ('settlement', 'correction')) e
        on e.org_id = s.org_id and e.mode = s.mode and e.ticker = s.ticker and e.settlement_n = s.n
      where s.n is null or s.cash_change <> coalesce(e.cash, 0)`,
  },
  {
    name: 'only open orders reserve cash, and never more than their account has',
    broken: (rows) => sql`
      select org_id, mode, id::text as about, reserved as recorded, 0::bigint as actual
      from ${rows('trading_orders')} o where status not in ('pending', 'resting') and reserved <> 0
      union all
      select o.org_id, o.mode, '', sum(o.reserved), max(a.cash)
      from ${rows('trading_orders')} o
      left join ${rows('trading_accounts')} a on a.org_id = o.org_id and a.mode = o.mode
      where o.status in ('pending', 'resting') and o.mode = 'paper' group by o.org_id, o.mode
      having sum(o.reserved) > coalesce(max(a.cash), 0)`,
  },
];

/**
 * In one snapshot, so a concurrent trade is seen completely or not at all. Repairs nothing: a person must first find
 * out whether the ledger or the table is wrong.
 * @param maxRows per rule; `count` gives the total
 */
export function checkLedger(orm: Orm, { orgId }: { orgId?: string | undefined }, maxRows: number) {
  const rows = (table: string) =>
    orgId === undefined
      ? sql.raw(table)
      : sql`(select * from ${sql.raw(table)} where org_id = ${orgId}::uuid)`;
  return inSnapshot(orm, async (tx) => {
    const problems: LedgerProblem[] = [];
    for (const { name, broken } of rules) {
      const found = await queryRows(tx)<Omit<LedgerProblem, 'rule'>>`
        select b.org_id as "orgId", coalesce(o.slug, b.org_id::text) as organization, b.mode, b.about,
          b.recorded::text, b.actual::text, count(*) over ()::int as count
        from (${broken(rows)}) b left join organizations o on o.id = b.org_id
        order by organization, b.mode, b.about limit ${maxRows}`;
      problems.push(...found.map((problem) => ({ rule: name, ...problem })));
    }
    return problems;
  });
}
