import type { DayForecast } from '../learning/forecast.js';
import type { MarketEvent } from '../market/event.js';
import { bracketLabel } from '../market/brackets.js';
import { kindLabels } from './labels.js';
import { formatDecimal, formatDegrees, formatExactProbability } from '../../core/pages/format.js';
import type { Holding } from '../ledger/positions.js';
import { degreesOf, impliedProbabilities, possibleDegrees, type Degree } from './probabilities.js';

const CHART_HEIGHT = 90;
const MIN_HEIGHT = 1.5;
const PIN_ROW = 20;

/**
 * One bar per whole degree that the report can still show, or per degree of an hour's index. X positions are
 * percentages, so the chart stretches while its text keeps its size.
 */
export function toDistribution(
  day: DayForecast,
  event: MarketEvent,
  holdings: ReadonlyMap<string, Holding> = new Map(),
) {
  const degrees = degreesOf(day, event);
  const crowd = degreesOfMarket(day, event);
  const first = degrees[0]?.temperature;
  if (first === undefined) return null;
  const step = 100 / degrees.length;
  const pins = toPins(degrees, holdings, step);
  const room = Math.max(0, ...pins.map(({ y }) => y));
  const height = CHART_HEIGHT + room;
  const top = Math.max(...[...degrees, ...crowd].map(({ probability }) => probability), 1e-9) * 1.08;
  const toY = (probability: number) => (height - (CHART_HEIGHT * probability) / top).toFixed(1);
  const likeliest = degrees.reduce((a, b) => (b.probability > a.probability ? b : a));
  const labels = new Map(event.markets.map(({ ticker, bracket }) => [ticker, bracketLabel(bracket)]));
  const isHour = event.kind === 'hourly';
  // A daily bar is centred on its whole degree; an hourly bar starts at its degree.
  const toX = (temperature: number) => (temperature - first + (isHour ? 0 : 0.5)) * step;
  const every = degrees.length > 20 ? 4 : 2;
  const degreeLabel = ({ temperature }: Degree) =>
    isHour
      ? `${formatDegrees(temperature)} to ${formatDegrees(temperature + 0.99, 2)}`
      : formatDegrees(temperature);
  const bracketOf = ({ ticker }: Degree) => (ticker === null ? 'none' : (labels.get(ticker) ?? ''));
  const describe = (degree: Degree) =>
    `${degreeLabel(degree)}: ${formatExactProbability(degree.probability)}, ${isHour ? 'highest threshold passed:' : 'in the bracket'} ${bracketOf(degree)}`;
  return {
    summary: `The forecast’s probability of each ${isHour ? 'degree' : 'whole degree'}. The likeliest ${kindLabels[event.kind].value.toLowerCase()} is ${degreeLabel(likeliest)} with ${formatExactProbability(likeliest.probability)}. The numbers are in the table below.`,
    height,
    bars: degrees.map((degree, i) => {
      const { probability } = degree;
      const tall = probability < 1e-6 ? 0 : Math.max(MIN_HEIGHT, (CHART_HEIGHT * probability) / top);
      return {
        x: percent(step * (i + 0.1)),
        width: percent(step * 0.8),
        y: (height - tall).toFixed(1),
        height: tall.toFixed(1),
        hitX: percent(step * i),
        hitWidth: percent(step),
        label: describe(degree),
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
    /** In units of one hundredth of the width; empty unless every market has a price. */
    steps: crowd
      .map(({ probability }, i) => `${i === 0 ? 'M' : 'L'}${i * step} ${toY(probability)}H${(i + 1) * step}`)
      .join(''),
    pins,
    passed: toPassed(degrees, possibleDegrees(day.observed, event.kind), step),
    observed: day.observed && observedMark(toX(day.observed.extremeF), day.observed.extremeF),
    rows: degrees.map((degree, i) => ({
      degree: degreeLabel(degree),
      probability: formatExactProbability(degree.probability),
      market: crowd[i] ? formatExactProbability(crowd[i].probability) : 'no price',
      bracket: bracketOf(degree),
    })),
    labels: {
      value: kindLabels[event.kind].value,
      bracket: isHour ? 'Highest threshold passed' : 'Bracket',
    },
  };
}

/** In the middle of each bracket that is held, above the bars. Neighbours are in two rows, so that they never touch. */
const toPins = (degrees: readonly Degree[], holdings: ReadonlyMap<string, Holding>, step: number) =>
  degrees
    .flatMap(({ ticker }, i) => {
      const held = ticker !== null && degrees[i - 1]?.ticker !== ticker && holdings.get(ticker);
      if (!held) return [];
      const { contracts, side } = held;
      const width = degrees.filter((degree) => degree.ticker === ticker).length;
      return {
        x: percent(step * (i + width / 2)),
        label: `${formatDecimal(contracts)} ${side.toUpperCase()}`,
      };
    })
    .map((pin, i) => ({ ...pin, y: PIN_ROW + (i % 2) * PIN_ROW }));

/** The prices' probability of each degree, spread within a bracket in the shape of the forecast. */
function degreesOfMarket(day: DayForecast, event: MarketEvent): Degree[] {
  const implied = impliedProbabilities(event);
  const probabilities = new Map([...implied].flatMap(([ticker, p]) => (p === null ? [] : [[ticker, p]])));
  return probabilities.size < event.markets.length ? [] : degreesOf({ ...day, probabilities }, event);
}

/** Observations rule out degrees below the running maximum or above the running minimum. */
function toPassed(
  degrees: readonly Degree[],
  { lowest, highest }: ReturnType<typeof possibleDegrees>,
  step: number,
) {
  const isOut = ({ temperature }: Degree) =>
    (lowest !== null && temperature < lowest) || (highest !== null && temperature > highest);
  const count = degrees.filter(isOut).length;
  if (count === 0) return null;
  const from = degrees.findIndex(isOut);
  return { x: percent(step * from), width: percent(step * count) };
}

/** Null outside the chart: early in the day, temperatures are far from the maximum. */
function observedMark(x: number, extremeF: number) {
  if (x < 0 || x > 100) return null;
  return { x: percent(x), label: `${formatDegrees(extremeF, 1)} so far` };
}

const percent = (value: number): string => `${Number(value.toFixed(2))}%`;
