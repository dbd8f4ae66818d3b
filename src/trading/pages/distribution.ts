import type { DayForecast } from '../forecast/forecast.js';
import type { MarketEvent } from '../markets/event.js';
import { bracketLabel } from '../settlement/brackets.js';
import { degreesOf, lowestPossible } from './probabilities.js';
import { formatDegrees, formatExactProbability } from './price-text.js';

/** Positions along the x axis are in percent, so that the drawing takes any width while its letters keep their size. */
export interface DistributionChart {
  summary: string;
  height: number;
  bars: {
    x: string;
    width: string;
    y: string;
    height: string;
    hitX: string;
    hitWidth: string;
    label: string;
    isLikeliest: boolean;
  }[];
  axis: { x: string; label: string; isMinor: boolean }[];
  /** Between brackets. */
  borders: string[];
  /** Degrees that the day has left behind: their share of the width; null while there are none. */
  passedWidth: string | null;
  members: string[];
  observed: { x: string; label: string; isRight: boolean } | null;
  rows: { degree: string; probability: string; bracket: string }[];
}

export const CHART_HEIGHT = 170;
/** A bar that stands for anything at all can be seen. */
const LEAST_HEIGHT = 1.5;

/** The forecast's distribution as bars, one for each whole degree that the report can say. */
export function toDistribution(day: DayForecast, event: MarketEvent): DistributionChart | null {
  const degrees = degreesOf(day, event);
  const first = degrees[0]?.temperature;
  if (first === undefined) return null;
  const step = 100 / degrees.length;
  const top = Math.max(...degrees.map(({ probability }) => probability), 1e-9) * 1.08;
  const likeliest = degrees.reduce((a, b) => (b.probability > a.probability ? b : a));
  const labels = new Map(event.markets.map(({ ticker, bracket }) => [ticker, bracketLabel(bracket)]));
  const toX = (temperature: number) => (temperature - first + 0.5) * step;
  const every = degrees.length > 20 ? 4 : 2;
  const possible = lowestPossible(day.observed);
  const passed = degrees.filter(({ temperature }) => possible !== null && temperature < possible).length;
  const describe = ({ temperature, probability, ticker }: (typeof degrees)[number]) =>
    `${formatDegrees(temperature)}: ${formatExactProbability(probability)}, in the bracket ${labels.get(ticker)}`;
  return {
    summary: `The forecast’s probability of each whole degree. The likeliest maximum is ${formatDegrees(likeliest.temperature)} with ${formatExactProbability(likeliest.probability)}. The numbers are in the table below.`,
    height: CHART_HEIGHT,
    bars: degrees.map((degree, i) => {
      const { probability } = degree;
      const height = probability < 1e-6 ? 0 : Math.max(LEAST_HEIGHT, (CHART_HEIGHT * probability) / top);
      return {
        x: percent(step * (i + 0.1)),
        width: percent(step * 0.8),
        y: (CHART_HEIGHT - height).toFixed(1),
        height: height.toFixed(1),
        hitX: percent(step * i),
        hitWidth: percent(step),
        label: describe(degree),
        isLikeliest: degree === likeliest,
      };
    }),
    axis: degrees.map(({ temperature }) => ({
      x: percent(toX(temperature)),
      label: formatDegrees(temperature),
      isMinor: (temperature - first) % every !== 0,
    })),
    borders: degrees.flatMap(({ ticker }, i) =>
      i > 0 && degrees[i - 1]!.ticker !== ticker ? [percent(step * i)] : [],
    ),
    passedWidth: passed === 0 ? null : percent(step * passed),
    members: day.membersF
      .map(toX)
      .filter((x) => x >= 0 && x <= 100)
      .map(percent),
    observed: day.observed && observedMark(toX(day.observed.extremeF), day.observed.extremeF),
    rows: degrees.map(({ temperature, probability, ticker }) => ({
      degree: formatDegrees(temperature),
      probability: formatExactProbability(probability),
      bracket: labels.get(ticker) ?? '',
    })),
  };
}

/** Null where it lies outside of what is drawn: the first hours of a day are far below its maximum. */
function observedMark(x: number, extremeF: number): DistributionChart['observed'] {
  if (x < 0 || x > 100) return null;
  return { x: percent(x), label: `${formatDegrees(extremeF, 1)} so far`, isRight: x > 60 };
}

const percent = (value: number): string => `${Number(value.toFixed(2))}%`;
