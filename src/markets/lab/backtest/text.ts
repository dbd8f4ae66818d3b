import { formatCount, formatDecimal } from '../../../core/pages/format.js';
import type { BacktestResult } from './backtest.js';
import type { ExecutionSummary } from './look-back.js';
import type { QueueResult } from './queue.js';

export function toText(result: BacktestResult): string {
  const { profitPerDay, maximumDrawdown, calibration, shuffled } = result;
  const lines: [string, string][] = [
    ['Source', result.source],
    [
      'Gate',
      result.isUngated ? 'not asked: what it would withhold was bought, too' : 'as it stood at the time',
    ],
    [
      'Decisions',
      `${formatDecimal(result.decisions)}, signals ${formatDecimal(result.signals)}, withheld ${formatDecimal(result.withheld)}`,
    ],
    [
      'Purchases',
      `${formatDecimal(result.purchases)} of ${formatDecimal(result.contracts)} contracts, ${formatDecimal(result.openPurchases)} not settled`,
    ],
    [
      'Staked',
      `${money(result.staked)}, of which fees ${money(result.fees)}; ${result.turnover.toFixed(1)} times the mean equity`,
    ],
    [
      'Profit',
      `${money(result.profit)} after fees of what has settled${result.returnOnStake === null ? '' : `, ${percent(result.returnOnStake)} of what was staked on it`}; ${money(result.equityChange)} by equity`,
    ],
    [
      'A day',
      profitPerDay
        ? `${money(profitPerDay.mean)}, 95% interval ${money(profitPerDay.low)} to ${money(profitPerDay.high)} over ${result.days} days`
        : `${result.days} days are too few for an interval`,
    ],
    [
      'Equity',
      `${money(result.startCash)} to ${money(result.endEquity)}: ${money(result.endCash)} cash and ${money(result.openWorth)} for what is open, sold at the last bids after fees; maximum drawdown ${money(maximumDrawdown.amount)} (${percent(maximumDrawdown.share)})`,
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
  if (known === 0) return [['Afterwards', `nothing is known of any of the ${formatDecimal(fills)} fills`]];
  const ofMissed =
    missed === 0 ? '' : `: ${formatDecimal(missedContracts)} contracts, profit ${money(missedProfit)}`;
  const moves = after.map((one) => `${one.seconds} s ${moveText(one)}`);
  return [
    [
      'Afterwards',
      `something is known of ${formatDecimal(known)} of ${formatDecimal(fills)} fills, and all that was printed of ${formatDecimal(withPrints)}`,
    ],
    [
      'Missed',
      judged === 0
        ? 'not known of any'
        : `${formatDecimal(missed)} of ${formatDecimal(judged)} fills would have${ofMissed}`,
    ],
    ['Price after', moves.join(', ')],
  ];
}

const moveText = ({ move, fills }: ExecutionSummary['after'][number]): string =>
  move === null
    ? 'not known'
    : `${move < 0 ? '−' : '+'}${Math.abs(move * 100).toFixed(1)} ¢ (of ${formatDecimal(fills)})`;

export function toQueueText({ trades, markets, contracts, minutes, rows }: QueueResult): string {
  const head = `${formatDecimal(trades)} trades of ${formatDecimal(markets)} markets: bids of ${contracts} contracts for YES where a seller had just hit, for ${minutes} minutes each`;
  const lines = rows.map(({ queueAhead, orders, filled, partly, after }) =>
    [
      formatDecimal(queueAhead).padStart(9),
      formatDecimal(orders).padStart(7),
      percent(orders === 0 ? 0 : filled / orders).padStart(8),
      percent(orders === 0 ? 0 : partly / orders).padStart(8),
      ...after.map((one) => moveText(one).padStart(18)),
    ].join(' '),
  );
  const names = [
    'before it'.padStart(9),
    'bids'.padStart(7),
    'filled'.padStart(8),
    'in part'.padStart(8),
    ...(rows[0]?.after ?? []).map(({ seconds }) => `price after ${seconds} s`.padStart(18)),
  ];
  return [head, '', names.join(' '), ...lines].join('\n');
}

function shuffledText(shuffled: NonNullable<BacktestResult['shuffled']>): string {
  const { rounds, meanProfit, meanEquityChange, profitPerDay, asGood, isEarning, leftOutEvents } = shuffled;
  const leftOut =
    leftOutEvents === 0 ? '' : `, without ${formatCount(leftOutEvents, 'event')} with too few others alike`;
  const found = `${money(meanProfit)} (by equity ${money(meanEquityChange)}) on average of ${rounds} rounds${leftOut}, ${percent(asGood)} of them with as much equity as the real forecasts`;
  if (!profitPerDay) return `${found}: too few days to tell luck from a mistake`;
  const aDay = `a day ${money(profitPerDay.low)} to ${money(profitPerDay.high)}`;
  return isEarning
    ? `${found}; ${aDay}: earned without knowing anything, so something is wrong with the prices, fills or fees`
    : `${found}; ${aDay}: nothing is earned by chance`;
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
  return ['Not bought, most often because', ...rows].join('\n');
}

const money = (dollars: number): string => `${dollars < 0 ? '−' : ''}$${Math.abs(dollars).toFixed(2)}`;
const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;
