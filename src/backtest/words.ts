import type { BacktestResult, ShuffledSummary } from './backtest.js';

/** The result for a person's eyes. */
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
      `${count(result.decisions)}, signals ${count(result.signals)}, withheld ${count(result.withheld)}`,
    ],
    [
      'Purchases',
      `${count(result.purchases)} of ${count(result.contracts)} contracts, ${count(result.openPurchases)} not settled`,
    ],
    [
      'Staked',
      `${money(result.staked)}, of which fees ${money(result.fees)}; ${result.turnover.toFixed(1)} times the mean equity`,
    ],
    [
      'Profit',
      `${money(result.profit)} after fees${result.returnOnStake === null ? '' : `, ${percent(result.returnOnStake)} of what was staked`}`,
    ],
    [
      'A day',
      profitPerDay
        ? `${money(profitPerDay.mean)}, 95 % interval ${money(profitPerDay.low)} to ${money(profitPerDay.high)} over ${result.days} days`
        : `${result.days} days are too few for an interval`,
    ],
    [
      'Equity',
      `${money(result.startCash)} to ${money(result.endEquity)}, deepest fall ${money(maximumDrawdown.amount)} (${percent(maximumDrawdown.share)})`,
    ],
    ['Shuffled', shuffled ? shuffledText(shuffled) : 'not asked for'],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  const facts = lines.map(([name, text]) => `${name.padEnd(width)}  ${text}`).join('\n');
  const parts = [facts];
  if (calibration.length > 0) parts.push(calibrationText(calibration));
  if (result.reasons.length > 0) parts.push(reasonsText(result.reasons));
  return parts.join('\n\n');
}

function shuffledText({ rounds, meanProfit, profitPerDay, asGood, isEarning }: ShuffledSummary): string {
  const found = `${money(meanProfit)} on average of ${rounds} rounds, ${percent(asGood)} of them as good as above`;
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
      count(purchases).padStart(9),
      percent(meanProbability).padStart(9),
      percent(frequency).padStart(9),
      percent(meanBreakEven).padStart(11),
    ].join(' '),
  );
  const head = `${'Forecast'.padEnd(18)} ${'purchases'.padStart(9)} ${'mean'.padStart(9)} ${'paid'.padStart(9)} ${'break-even'.padStart(11)}`;
  return [head, ...rows].join('\n');
}

function reasonsText(reasons: BacktestResult['reasons']): string {
  const rows = reasons.map(({ reason, times }) => `${count(times).padStart(9)}  ${reason}`);
  return ['Not bought, most often because', ...rows].join('\n');
}

const money = (dollars: number): string => `${dollars < 0 ? '−' : ''}$${Math.abs(dollars).toFixed(2)}`;
const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
const count = (n: number): string => n.toLocaleString('en');
