import { formatCount, formatDecimal } from '../../src/core/pages/format.js';
import type { BacktestResult } from './backtest.js';
import type { ExecutionSummary } from './look-back.js';
import type { QueueResult } from './queue.js';

export function toText(result: BacktestResult): string {
  const { profitPerDay, maximumDrawdown, calibration, shuffled } = result;
  const lines: [string, string][] = [
    ['Source', result.source],
    [
      'Gate',
      result.isUngated
        ? 'ignored: signals that it would withhold were bought too'
        : 'as it stood at each time',
    ],
    [
      'Decisions',
      `${formatDecimal(result.decisions)}, signals ${formatDecimal(result.signals)}, withheld ${formatDecimal(result.withheld)}`,
    ],
    [
      'Purchases',
      `${formatDecimal(result.purchases)}, contracts ${formatDecimal(result.contracts)}, not settled ${formatDecimal(result.openPurchases)}`,
    ],
    [
      'Staked',
      `${money(result.staked)} including fees of ${money(result.fees)}; ${result.turnover.toFixed(1)} times the mean equity`,
    ],
    [
      'Profit',
      `${money(result.profit)} after fees from settled purchases${result.returnOnStake === null ? '' : `, ${percent(result.returnOnStake)} of their stake`}; equity changed by ${money(result.equityChange)}`,
    ],
    [
      'Daily profit',
      profitPerDay
        ? `${money(profitPerDay.mean)}, 95% interval ${money(profitPerDay.low)} to ${money(profitPerDay.high)} over ${result.days} days`
        : `${result.days} days are too few for an interval`,
    ],
    [
      'Equity',
      `${money(result.startCash)} to ${money(result.endEquity)}: ${money(result.endCash)} in cash and ${money(result.openWorth)} in open positions at the last bids, after fees; maximum drawdown ${money(maximumDrawdown.amount)} (${percent(maximumDrawdown.share)})`,
    ],
    ...executionLines(result.execution),
    ['Shuffled', shuffled ? shuffledText(shuffled) : result.notShuffled!],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  const facts = lines.map(([name, text]) => `${name.padEnd(width)}  ${text}`).join('\n');
  const parts = [facts];
  if (calibration.length > 0) parts.push(calibrationText(calibration));
  if (result.reasons.length > 0) parts.push(reasonsText(result.reasons));
  return parts.join('\n\n');
}

function executionLines(execution: ExecutionSummary): [string, string][] {
  const { fills, known, withPrints, judged, missed, missedContracts, missedProfit, after } = execution;
  if (fills === 0) return [];
  if (known === 0) return [['Later prices', `unknown for all ${formatDecimal(fills)} fills`]];
  const ofMissed =
    missed === 0 ? '' : `: ${formatDecimal(missedContracts)} contracts, profit ${money(missedProfit)}`;
  const moves = after.map((one) => `${one.seconds} s ${moveText(one)}`);
  return [
    [
      'Later prices',
      `known for ${formatDecimal(known)} of ${formatDecimal(fills)} fills, with all prints for ${formatDecimal(withPrints)}`,
    ],
    [
      'Missed',
      judged === 0
        ? 'unknown for all fills'
        : `${formatDecimal(missed)} of ${formatDecimal(judged)} fills would have missed${ofMissed}`,
    ],
    ['Price after', moves.join(', ')],
  ];
}

const moveText = ({ move, fills }: ExecutionSummary['after'][number]): string =>
  move === null
    ? 'unknown'
    : `${move < 0 ? '−' : '+'}${Math.abs(move * 100).toFixed(1)} ¢ (${formatCount(fills, 'fill')})`;

export function toQueueText({ trades, markets, contracts, minutes, rows }: QueueResult): string {
  const head = `${formatCount(trades, 'trade')} in ${formatCount(markets, 'market')}: bids for ${contracts} YES contracts after a seller hit, for ${minutes} minutes each`;
  const lines = rows.map(({ queueAhead, orders, filled, partly, after }) =>
    [
      formatDecimal(queueAhead).padStart(9),
      formatDecimal(orders).padStart(7),
      percent(orders === 0 ? 0 : filled / orders).padStart(8),
      percent(orders === 0 ? 0 : partly / orders).padStart(8),
      ...after.map((one) => moveText(one).padStart(21)),
    ].join(' '),
  );
  const names = [
    'queue'.padStart(9),
    'bids'.padStart(7),
    'filled'.padStart(8),
    'partial'.padStart(8),
    ...(rows[0]?.after ?? []).map(({ seconds }) => `price after ${seconds} s`.padStart(21)),
  ];
  return [head, '', names.join(' '), ...lines].join('\n');
}

function shuffledText(shuffled: NonNullable<BacktestResult['shuffled']>): string {
  const { rounds, meanProfit, meanEquityChange, profitPerDay, asGood, isEarning, leftOutEvents } = shuffled;
  const leftOut =
    leftOutEvents === 0
      ? ''
      : ` without ${formatCount(leftOutEvents, 'event')} that had too few others of their season`;
  const found = `mean profit ${money(meanProfit)} over ${rounds} rounds${leftOut}, mean equity change ${money(meanEquityChange)}; ${percent(asGood)} of the rounds ended with at least the equity of the real forecasts`;
  if (!profitPerDay) return `${found}; too few days to tell luck from an error`;
  const daily = `daily profit ${money(profitPerDay.low)} to ${money(profitPerDay.high)}`;
  return isEarning
    ? `${found}; ${daily}: forecasts without information made money, so prices, fills or fees are wrong`
    : `${found}; ${daily}: forecasts without information made no money`;
}

function calibrationText(bins: BacktestResult['calibration']): string {
  const rows = bins.map(({ from, to, purchases, meanProbability, frequency, meanBreakEven }) =>
    [
      `${percent(from)} to ${percent(to)}`.padEnd(18),
      formatDecimal(purchases).padStart(9),
      percent(meanProbability).padStart(9),
      percent(frequency).padStart(9),
      percent(meanBreakEven).padStart(11),
    ].join(' '),
  );
  const head = `${'Forecast'.padEnd(18)} ${'purchases'.padStart(9)} ${'mean'.padStart(9)} ${'paid'.padStart(9)} ${'break-even'.padStart(11)}`;
  return [head, ...rows].join('\n');
}

function reasonsText(reasons: BacktestResult['reasons']): string {
  const rows = reasons.map(({ reason, times }) => `${formatDecimal(times).padStart(9)}  ${reason}`);
  return ['Most frequent reasons for not buying', ...rows].join('\n');
}

const money = (dollars: number): string => `${dollars < 0 ? '−' : ''}$${Math.abs(dollars).toFixed(2)}`;
const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;
