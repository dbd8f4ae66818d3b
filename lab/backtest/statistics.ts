import { sumCounts } from '../../src/markets/market/contracts.js';
import type { Micros } from '../../src/markets/market/money.js';
import { inDollars } from '../../src/markets/sizing/offers.js';
import { blockBootstrap, type Interval } from '../../src/markets/scores/bootstrap.js';
import type { Purchase, Trail } from './run.js';

/** Weather persists for several days. All cities count as one day per date. */
const BLOCK_DAYS = 5;
/** With fewer days, an interval would be a guess. */
const MIN_DAYS = 15;
const BINS = 5;
const MAX_REASONS = 6;

/** Amounts are in dollars. */
export function summarise(trail: Trail) {
  const { purchases, equity } = trail;
  const settled = purchases.filter(({ payout }) => payout !== null);
  const staked = sum(purchases.map(({ cost }) => cost));
  const profit = sum(settled.map(profitOf));
  const settledStake = sum(settled.map(({ cost }) => cost));
  const daily = dailyProfits(trail);
  const meanEquity =
    equity.length === 0 ? 0 : inDollars(sum(equity.map(({ amount }) => amount))) / equity.length;
  return {
    startCash: inDollars(trail.start),
    endCash: inDollars(trail.endCash),
    /** After fees. End equity is this plus cash. */
    openWorth: inDollars(trail.end - trail.endCash),
    endEquity: inDollars(trail.end),
    /** Settled and open purchases. */
    equityChange: equityChangeOf(trail),
    /** Settled purchases, after fees. `profitPerDay` is the mean per climate date, with its 95% interval. */
    profit: inDollars(profit),
    days: daily.length,
    profitPerDay: intervalOf(daily),
    /** Not included in `profit`. */
    openPurchases: purchases.length - settled.length,
    purchases: purchases.length,
    contracts: sumCounts(purchases.map(({ contracts }) => contracts)),
    staked: inDollars(staked),
    fees: inDollars(sum(purchases.map(({ fee }) => fee))),
    returnOnStake: settledStake === 0n ? null : inDollars(profit) / inDollars(settledStake),
    turnover: meanEquity === 0 ? 0 : inDollars(staked) / meanEquity,
    /** In dollars and as a share of the peak. */
    maximumDrawdown: drawdownOf(trail),
    decisions: trail.decisions,
    signals: trail.signals,
    withheld: trail.withheld,
    reasons: [...trail.reasons]
      .map(([reason, times]) => ({ reason, times }))
      .sort((a, b) => b.times - a.times || (a.reason < b.reason ? -1 : 1))
      .slice(0, MAX_REASONS),
    calibration: calibrationOf(settled),
  };
}

const sum = (amounts: readonly Micros[]): Micros => amounts.reduce((total, amount) => total + amount, 0n);
export const equityChangeOf = ({ start, end }: Pick<Trail, 'start' | 'end'>): number =>
  inDollars(end - start);

const profitOf = ({ payout, cost }: Purchase): Micros => payout! - cost;

/** In dollars per climate date; a date without purchases counts as zero. */
export function dailyProfits({ purchases, dates }: Pick<Trail, 'purchases' | 'dates'>): number[] {
  const settled = purchases.filter(({ payout }) => payout !== null);
  const profits = new Map<string, Micros>(dates.map((date) => [date, 0n]));
  for (const purchase of settled)
    profits.set(purchase.date, (profits.get(purchase.date) ?? 0n) + profitOf(purchase));
  return [...profits].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, profit]) => inDollars(profit));
}

/** Null for too few days. */
export function intervalOf(daily: readonly number[]): (Interval & { confidence: number }) | null {
  const confidence = 0.95;
  if (daily.length < MIN_DAYS) return null;
  if (daily.every((profit) => profit === daily[0]))
    return { mean: daily[0]!, low: daily[0]!, high: daily[0]!, confidence };
  return {
    ...blockBootstrap(daily, { blockLength: BLOCK_DAYS, resamples: 2_000, confidence, seed: 1 }),
    confidence,
  };
}

function drawdownOf({ start, equity }: Trail): { amount: number; share: number } {
  let highest = start;
  let deepest = { amount: 0, share: 0 };
  for (const { amount } of equity) {
    if (amount > highest) highest = amount;
    const fall = inDollars(highest - amount);
    if (fall > deepest.amount) deepest = { amount: fall, share: fall / inDollars(highest) };
  }
  return deepest;
}

function calibrationOf(settled: readonly Purchase[]) {
  return Array.from({ length: BINS }, (_, bin) => bin / BINS).flatMap((from) => {
    const to = from + 1 / BINS;
    const found = settled.filter(({ probability: p }) => p >= from && (p < to || (to > 0.999 && p <= 1)));
    if (found.length === 0) return [];
    const mean = (pick: (purchase: Purchase) => number) =>
      found.reduce((total, purchase) => total + pick(purchase), 0) / found.length;
    return {
      from,
      to,
      purchases: found.length,
      meanProbability: mean(({ probability }) => probability),
      frequency: mean(({ payout, contracts }) => inDollars(payout!) / contracts),
      meanBreakEven: mean(({ breakEven }) => breakEven),
    };
  });
}
