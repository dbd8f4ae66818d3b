import { formatCount } from '../../src/core/pages/format.js';
import { binomialRange } from '../../src/core/statistics/distributions.js';
import { ticksAround } from '../../src/core/charts/line-chart.js';
import {
  anchorOf,
  formatChance,
  formatFixed,
  formatPercent,
  formatTick,
  toPercent,
  toPixels,
  type Anchor,
} from '../../src/core/charts/text.js';

/**
 * Flat for a calibrated forecast, U-shaped for an overconfident one, hump-shaped for an underconfident one. An outcome
 * in whole degrees is spread over the bins that it overlaps. C. Czado, T. Gneiting, L. Held, Biometrics 65 (2009).
 */
export interface PitHistogram {
  n: number;
  /** Equal-width bins from 0 to 1; the shares sum to 1. */
  shares: readonly number[];
  /** Probability of a histogram at least this uneven from a calibrated forecast; null for too few outcomes. */
  pFlat: number | null;
}

const HEIGHT = 200;
/** Significance level of the test for a flat histogram. */
const SMALL = 0.05;
/** Narrower bars would be too thin to tell apart. */
const MAX_BARS = 60;
const FEWER_BARS = 20;

/** Null without outcomes. Errors within a day are correlated, so `days` counts as independent. */
export function toPitChart(pit: PitHistogram, days = pit.n) {
  return toHistogram(
    pit,
    days,
    unitWords(
      pit.shares.length,
      'Where the outcomes fell in the forecast distributions',
      'Forecast probability of a lower outcome',
    ),
  );
}

/** Large ensembles are merged into fewer bars. */
export function toRankChart(ranks: PitHistogram, days = ranks.n) {
  const count = ranks.shares.length;
  const title = 'Where the observation fell among the members of the raw ensemble';
  if (count > MAX_BARS) {
    const merged = { ...ranks, shares: mergeShares(ranks.shares, FEWER_BARS) };
    return toHistogram(merged, days, unitWords(FEWER_BARS, title, 'Share of members below the observation'));
  }
  const every = Math.ceil(count / 12);
  return toHistogram(ranks, days, {
    title,
    axisLabel: 'Rank: 1 is below all members',
    columns: ['Rank', 'Share of outcomes'],
    bin: (i) => String(i + 1),
    axis: ranks.shares.flatMap((_, i) =>
      i % every === 0 ? [{ x: toPercent((i + 0.5) / count), anchor: 'middle', label: String(i + 1) }] : [],
    ),
  });
}

const unitWords = (count: number, title: string, axisLabel: string): Words => ({
  title,
  axisLabel,
  columns: ['From–to', 'Share of outcomes'],
  bin: (i) => `${formatFixed(i / count, 2)}–${formatFixed((i + 1) / count, 2)}`,
  axis: [0, 0.25, 0.5, 0.75, 1].map((share, i, all) => ({
    x: toPercent(share),
    anchor: anchorOf(i, all.length),
    label: String(share),
  })),
});

/** A share that straddles two bins is split between them. */
function mergeShares(shares: readonly number[], count: number): number[] {
  const width = shares.length / count;
  const merged = Array.from({ length: count }, () => 0);
  for (const [i, share] of shares.entries()) {
    const first = Math.min(count - 1, Math.floor(i / width));
    const firstFraction = Math.min(1, (first + 1) * width - i);
    merged[first]! += share * firstFraction;
    if (firstFraction < 1 && first + 1 < count) merged[first + 1]! += share * (1 - firstFraction);
  }
  return merged;
}

interface Words {
  title: string;
  axisLabel: string;
  columns: readonly string[];
  bin: (index: number) => string;
  axis: { x: string; anchor: Anchor; label: string }[];
}

/** X is in percent of the width, y in pixels. */
function toHistogram(histogram: PitHistogram, independent: number, words: Words) {
  const { n, shares } = histogram;
  const count = shares.length;
  if (n === 0 || count === 0) return null;
  const level = 1 / count;
  const band = binomialRange(independent, level, 0.9);
  const ticks = ticksAround(0, Math.max(...shares, band.high));
  const top = ticks.at(-1)!;
  const toY = (share: number) => HEIGHT * (1 - share / top);
  const isOutside = (share: number) => share < band.low - 1e-12 || share > band.high + 1e-12;
  const verdict = describeShape(histogram, independent);
  return {
    title: words.title,
    summary: `${formatCount(n, 'outcome')} in ${count} bins. ${verdict}`,
    verdict,
    height: HEIGHT,
    bars: shares.map((share, i) => ({
      x: toPercent((i + 0.04) / count),
      width: toPercent(0.92 / count),
      y: toPixels(toY(share)),
      height: toPixels(HEIGHT - toY(share)),
      isOutside: isOutside(share),
      label: `${words.bin(i)}: ${formatPercent(share)}`,
    })),
    flat: toPixels(toY(level)),
    note: independent < n ? 'counting each day once, because errors of one day are alike' : null,
    /** Nine bars in ten of a calibrated forecast end within this band. */
    band: { y: toPixels(toY(band.high)), height: toPixels(toY(band.low) - toY(band.high)) },
    ticks: ticks.map((tick) => ({ y: toPixels(toY(tick)), label: `${formatTick(tick * 100)}%` })),
    axis: words.axis,
    axisLabel: words.axisLabel,
    table: {
      caption: words.title,
      columns: [...words.columns, 'Expected if calibrated'],
      rows: shares.map((share, i) => [
        words.bin(i),
        formatPercent(share),
        `${formatPercent(band.low)} to ${formatPercent(band.high)}`,
      ]),
    },
  };
}

/** The shape is interpreted only if the test finds a deviation. */
function describeShape({ shares, pFlat }: PitHistogram, independent: number): string {
  if (pFlat === null) return 'These are too few to tell whether the bars are level.';
  const chance = formatChance(pFlat);
  if (pFlat >= SMALL)
    return `Chance alone explains the unevenness (${chance}): there is no sign of miscalibration.`;
  return `Chance alone is unlikely to explain the unevenness (${chance}): ${shapeOf(independent, shares)}.`;
}

/**
 * k level bins have mean 1/2 and variance (1 − 1/k²)/12. The shape is named for the moment that deviates more, in units
 * of its own standard error (1/√12n and about 1/√180n).
 */
function shapeOf(n: number, shares: readonly number[]): string {
  const count = shares.length;
  const centre = (i: number) => (i + 0.5) / count;
  const mean = shares.reduce((sum, share, i) => sum + share * centre(i), 0);
  const variance = shares.reduce((sum, share, i) => sum + share * (centre(i) - mean) ** 2, 0);
  const shift = (mean - 0.5) * Math.sqrt(12 * n);
  const spread = (variance - (1 - 1 / count ** 2) / 12) * Math.sqrt(180 * n);
  if (Math.max(Math.abs(shift), Math.abs(spread)) < 1.64)
    return 'the shape is uneven, but shows neither a bias nor a wrong spread';
  if (Math.abs(shift) > Math.abs(spread))
    return shift > 0 ? 'the outcomes are higher than forecast' : 'the outcomes are lower than forecast';
  return spread > 0
    ? 'the forecast is overconfident, its distributions are too narrow'
    : 'the forecast is underconfident, its distributions are too wide';
}
