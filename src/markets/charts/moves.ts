import { formatCount, formatDecimal } from '../../core/pages/format.js';
import { ticksAround } from '../../core/charts/line-chart.js';
import { formatTick, toPercent, toPixels, type ChartTable } from '../../core/charts/text.js';

/** By whole cents; the first and last steps include all larger moves. */
export interface MoveStep {
  cents: number;
  fills: number;
  contracts: number;
  /** See `markFill`. */
  missed: number;
}

/** Larger moves share a bar. */
export const MAX_MOVE = 8;
const MIN_MOVE = 3;
const HEIGHT = 160;
/** Share of a step's width. */
const BAR = 0.76;

/** In the order's favour. X is in percent of the width, y in pixels. Null without fills. */
export function toMovesChart(name: string, steps: readonly MoveStep[], meanCents: number | null) {
  if (steps.length === 0) return null;
  const cents = steps.map((step) => step.cents);
  const [low, high] = [Math.min(-MIN_MOVE, ...cents), Math.max(MIN_MOVE, ...cents)];
  const count = high - low + 1;
  const ticks = ticksAround(0, Math.max(...steps.map(({ contracts }) => contracts)));
  const top = ticks.at(-1)!;
  return {
    title: `${name}: price move in the minute after a fill`,
    summary: describe(steps),
    height: HEIGHT,
    ticks: ticks.map((tick) => ({ y: toPixels(HEIGHT * (1 - tick / top)), label: formatTick(tick) })),
    bars: steps.map((step) => ({
      x: toPercent((step.cents - low + (1 - BAR) / 2) / count),
      width: toPercent(BAR / count),
      y: toPixels(HEIGHT * (1 - step.contracts / top)),
      height: toPixels(HEIGHT * (step.contracts / top)),
      side: step.cents < 0 ? 'against' : step.cents > 0 ? 'favour' : 'even',
      label: `${formatMove(step.cents)}: ${formatCount(step.contracts, 'contract')} in ${formatCount(step.fills, 'fill')}`,
    })),
    mean:
      meanCents === null ? null : toPercent((Math.min(high, Math.max(low, meanCents)) - low + 0.5) / count),
    axis: Array.from({ length: count }, (_, i) => ({
      x: toPercent((i + 0.5) / count),
      label: formatMove(i + low),
      isMinor: (i + low) % 2 !== 0,
    })),
    table: toTable(name, steps),
  };
}

/** `−3¢`, or `−8¢ or worse` for the outermost step if `isLong`. */
function formatMove(cents: number, isLong = false): string {
  const text = `${cents > 0 ? '+' : cents < 0 ? '−' : ''}${Math.abs(cents)}¢`;
  if (Math.abs(cents) < MAX_MOVE) return text;
  return isLong ? `${text} or ${cents < 0 ? 'worse' : 'better'}` : text;
}

function describe(steps: readonly MoveStep[]): string {
  const contractsOf = (part: readonly MoveStep[]) => part.reduce((sum, { contracts }) => sum + contracts, 0);
  const share = (part: readonly MoveStep[]) =>
    `${Math.round((100 * contractsOf(part)) / contractsOf(steps))}%`;
  const [against, favour] = [steps.filter(({ cents }) => cents < 0), steps.filter(({ cents }) => cents > 0)];
  return `Contracts by price move: against the order for ${share(against)}, in its favour for ${share(favour)}.`;
}

const toTable = (name: string, steps: readonly MoveStep[]): ChartTable => ({
  caption: `${name}: price move in favour of the order, a minute after its fill`,
  columns: ['Move', 'Contracts', 'Fills', 'Would have missed'],
  rows: steps.map(({ cents, contracts, fills, missed }) => [
    formatMove(cents, true),
    formatDecimal(contracts),
    formatDecimal(fills),
    formatDecimal(missed),
  ]),
});
