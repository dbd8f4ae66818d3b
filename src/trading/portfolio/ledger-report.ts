import { align } from '../../usage/drift-report.js';
import { formatDollars } from '../market/money.js';
import type { LedgerProblem } from './ledger-check.js';

const SHOWN_ROWS = 100;

/** Counted in contracts; everything else is money. */
const isCount = ({ rule }: LedgerProblem): boolean => /^(filled_)?contracts /.test(rule);

const amount = (problem: LedgerProblem, value: string | null): string | null =>
  value === null || isCount(problem) ? value : formatDollars(BigInt(value));

/** What does not agree, as tables for a person. */
export function ledgerText(problems: readonly LedgerProblem[]): string {
  if (problems.length === 0)
    return 'The ledger agrees: with every account, position, order, fill and settlement.';
  const ruleNames = [...new Set(problems.map(({ rule }) => rule))];
  return ruleNames.flatMap((rule) => section(problems.filter((problem) => problem.rule === rule))).join('\n');
}

function section(problems: readonly LedgerProblem[]): string[] {
  const { rule, count } = problems[0]!;
  const lines = problems
    .slice(0, SHOWN_ROWS)
    .map((problem) => [
      problem.organization,
      problem.mode,
      problem.about,
      amount(problem, problem.recorded) ?? 'missing',
      amount(problem, problem.actual) ?? 'none',
    ]);
  const more = count - lines.length;
  return [
    `Broken: ${rule}: ${count}`,
    ...align([['organization', 'mode', 'about', 'recorded', 'ledger'], ...lines], 3),
    ...(more > 0 ? [`… and ${more} more`] : []),
    '',
  ];
}

/** The same for programs: money in dollars, as everywhere. */
export const ledgerJson = (problems: readonly LedgerProblem[]) =>
  problems.map((problem) => ({
    rule: problem.rule,
    organization: problem.organization,
    mode: problem.mode,
    about: problem.about,
    recorded: amount(problem, problem.recorded),
    actual: amount(problem, problem.actual),
    count: problem.count,
  }));
