import { formatPercent, toPercent, toPixels, type ChartTable } from './text.js';

/** What was given against what came of it, for a number of forecasts that belong together. Shares from 0 to 1. */
export interface Spot {
  given: number;
  found: number;
  n: number;
  /** Where a reliable forecast is found nine times of ten. */
  expected: { low: number; high: number } | null;
  /** In full, for the pointer that rests on it. */
  label: string;
}

export interface DiagonalSide {
  /** Says the shape and the colour of its points. */
  name: 'model' | 'market' | 'raw';
  label: string;
  spots: readonly Spot[];
}

/** Given to the right, found upwards: a reliable forecast lies on the diagonal. Along x in percent of the width, else in pixels. */
export interface DiagonalChart {
  title: string;
  summary: string;
  xLabel: string;
  yLabel: string;
  height: number;
  ticks: { x: string; y: string; label: string; isMinor: boolean }[];
  sides: {
    name: string;
    label: string;
    line: string;
    points: {
      x: string;
      y: string;
      /** Half of its size: its area grows with the number of forecasts. */
      radius: string;
      bar: { y: string; height: string } | null;
      label: string;
    }[];
  }[];
  tables: ChartTable[];
}

const HEIGHT = 320;
/** User units of the lines from left to right. */
const WIDTH = 1000;
const LEAST_RADIUS = 3;
const MOST_RADIUS = 8;

/** Null where there is nothing to be drawn. */
export function toDiagonalChart({
  sides,
  ...words
}: Pick<DiagonalChart, 'title' | 'summary' | 'xLabel' | 'yLabel' | 'tables'> & {
  sides: readonly DiagonalSide[];
}): DiagonalChart | null {
  const most = Math.max(0, ...sides.flatMap(({ spots }) => spots.map(({ n }) => n)));
  if (most === 0) return null;
  return {
    ...words,
    height: HEIGHT,
    ticks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => ({
      x: toPercent(share),
      y: toPixels(toY(share)),
      label: formatPercent(share, 0),
      isMinor: share !== 0 && share !== 1,
    })),
    sides: sides
      .filter(({ spots }) => spots.length > 0)
      .map(({ name, label, spots }) => ({
        name,
        label,
        line: `M${spots.map(({ given, found }) => `${toPixels(given * WIDTH)} ${toPixels(toY(found))}`).join('L')}`,
        points: spots.map((spot) => toPoint(spot, most)),
      })),
  };
}

const toY = (share: number): number => HEIGHT * (1 - share);

const toPoint = ({ given, found, n, expected, label }: Spot, most: number) => ({
  x: toPercent(given),
  y: toPixels(toY(found)),
  radius: toPixels(LEAST_RADIUS + (MOST_RADIUS - LEAST_RADIUS) * Math.sqrt(n / most)),
  bar: expected && {
    y: toPixels(toY(expected.high)),
    // One that is narrower than a line can still be seen.
    height: toPixels(Math.max(2, HEIGHT * (expected.high - expected.low))),
  },
  label,
});

export const isOutside = ({ found, expected }: Pick<Spot, 'found' | 'expected'>): boolean =>
  expected !== null && (found < expected.low - 1e-12 || found > expected.high + 1e-12);
