import { formatCount, formatDecimal } from '../../src/core/pages/format.js';
import { ticksAround } from '../../src/core/charts/line-chart.js';
import {
  formatFixed,
  formatSigned,
  formatTick,
  toPercent,
  toPixels,
  type ChartTable,
} from '../../src/core/charts/text.js';

export interface Pair {
  forecast: number;
  observed: number;
}

const HEIGHT = 320;
/** Per axis. Pairs in a cell share a dot, so the markup does not grow with the number of pairs. */
const CELLS = 70;
const MIN_RADIUS = 3;
const MAX_RADIUS = 6;
const GROUPS = 10;

/** X is in percent of the width, y in pixels. Null without pairs. */
export function toScatterChart(pairs: readonly Pair[], unit: string) {
  if (pairs.length === 0) return null;
  let [min, max] = [Infinity, -Infinity];
  for (const { forecast, observed } of pairs) {
    min = Math.min(min, forecast, observed);
    max = Math.max(max, forecast, observed);
  }
  // Equal values get a margin on both sides.
  const ticks = max > min ? ticksAround(min, max) : ticksAround(min - 1, min + 1);
  const [low, high] = [ticks[0]!, ticks.at(-1)!];
  const share = (value: number) => (value - low) / (high - low);
  return {
    title: 'Observed against forecast',
    summary: describe(pairs, unit),
    height: HEIGHT,
    ticks: ticks.map((tick, i) => ({
      x: toPercent(share(tick)),
      y: toPixels(HEIGHT * (1 - share(tick))),
      label: formatTick(tick),
      isMinor: i % 2 === 1,
    })),
    dots: toDots(pairs, share),
    table: toTable(pairs, unit),
  };
}

function toDots(pairs: readonly Pair[], share: (value: number) => number) {
  const cells = new Map<string, { x: number; y: number; n: number }>();
  for (const { forecast, observed } of pairs) {
    const [x, y] = [share(forecast), share(observed)];
    const key = `${Math.floor(x * CELLS)} ${Math.floor(y * CELLS)}`;
    const cell = cells.get(key) ?? { x: 0, y: 0, n: 0 };
    cells.set(key, { x: cell.x + x, y: cell.y + y, n: cell.n + 1 });
  }
  const most = Math.max(...[...cells.values()].map(({ n }) => n));
  const growth = most > 1 ? (MAX_RADIUS - MIN_RADIUS) / (Math.sqrt(most) - 1) : 0;
  return [...cells.values()].map(({ x, y, n }) => ({
    x: toPercent(x / n),
    y: toPixels(HEIGHT * (1 - y / n)),
    radius: toPixels(MIN_RADIUS + Math.min(1, growth) * (Math.sqrt(n) - 1)),
  }));
}

function describe(pairs: readonly Pair[], unit: string): string {
  const error = pairs.reduce((sum, { forecast, observed }) => sum + forecast - observed, 0) / pairs.length;
  const unitText = unit && `\u00a0${unit}`;
  const bias =
    Math.abs(error) < 0.005
      ? 'neither too high nor too low'
      : `${formatFixed(Math.abs(error), 2)}${unitText} too ${error > 0 ? 'high' : 'low'}`;
  return `${formatCount(pairs.length, 'forecast')}, on average ${bias}.`;
}

function toTable(pairs: readonly Pair[], unit: string): ChartTable {
  const sorted = [...pairs].sort((a, b) => a.forecast - b.forecast);
  const groups = Math.min(GROUPS, sorted.length);
  const parts = Array.from({ length: groups }, (_, i) =>
    sorted.slice(Math.round((i * sorted.length) / groups), Math.round(((i + 1) * sorted.length) / groups)),
  );
  const mean = (part: readonly Pair[], of: (pair: Pair) => number) =>
    part.reduce((sum, pair) => sum + of(pair), 0) / part.length;
  return {
    caption: unit === '' ? 'Observed against forecast' : `Observed against forecast, ${unit}`,
    columns: ['Forecast from–to', 'Count', 'Mean forecast', 'Mean observed', 'Difference'],
    rows: parts.map((part) => {
      const [forecast, observed] = [mean(part, (pair) => pair.forecast), mean(part, (pair) => pair.observed)];
      return [
        `${formatFixed(part[0]!.forecast, 1)} to ${formatFixed(part.at(-1)!.forecast, 1)}`,
        formatDecimal(part.length),
        formatFixed(forecast, 2),
        formatFixed(observed, 2),
        formatSigned(observed - forecast, 2),
      ];
    }),
  };
}
