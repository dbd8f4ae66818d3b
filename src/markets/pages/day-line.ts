import { toLineChart } from '../../core/charts/line-chart.js';
import { formatFixed, formatTick } from '../../core/charts/text.js';
import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { DayForecast } from '../learning/forecast.js';
import type { MinuteFeed } from '../weather/minutes.js';
import { formatHour, kindLabels } from './labels.js';
import { CHART_HEIGHT } from './price-line.js';

const HOURS = 24;
/** Points in an hour. One-minute readings are drawn at the points around them. */
const PER_HOUR = 4;
const STEP_MS = HOUR_MS / PER_HOUR;

type LineDay = Pick<DayForecast, 'kind' | 'observed' | 'curveF' | 'extremeHours'>;

/** A day's temperatures in the weather model, the station's reports so far and the bounds of its one-minute readings. Null without any hour. */
export function toDayLine(
  { kind, observed, curveF, extremeHours }: LineDay,
  feed: Pick<MinuteFeed, 'changes' | 'latestAt' | 'problem'> | null,
  start: Date,
) {
  const hoursF = observed?.hoursF ?? [];
  if (!curveF && hoursF.every((temperatureF) => temperatureF === null)) return null;
  const spanOf = spanReader(feed);
  const points = Array.from({ length: HOURS * PER_HOUR }, (_, i) => {
    const at = start.getTime() + i * STEP_MS;
    const [hour, isHour] = [Math.floor(i / PER_HOUR), i % PER_HOUR === 0];
    const { lowestF = null, highestF = null } = spanOf(at - STEP_MS, at + STEP_MS) ?? {};
    return {
      forecast: between(curveF, i / PER_HOUR),
      report: isHour ? (hoursF[hour] ?? null) : null,
      lowestF,
      highestF,
    };
  });
  const chart = toLineChart({
    summary: describeHours(kind, extremeHours),
    labels: points.map(() => ''),
    // Every six hours.
    axis: points.map((_, i) => formatHour(Math.floor(i / PER_HOUR / 6) * 6)),
    height: CHART_HEIGHT,
    lines: [
      { name: 'low', values: points.map(({ lowestF }) => lowestF) },
      { name: 'high', values: points.map(({ highestF }) => highestF) },
      { name: 'market', values: points.map(({ forecast }) => forecast) },
      { name: 'model', values: points.map(({ report }) => report) },
    ],
    formatTick,
    hasZero: false,
  });
  const [low, high, ...lines] = chart.lines;
  return {
    ...chart,
    lines,
    bands: high!.paths.map((path, i) => toArea(path, low!.paths[i]!)),
    hits: [],
    marks: [],
    endLabels: [],
    title: 'The day so far',
    isBrief: true,
    period: 'day',
    note: [
      feed && 'Shaded: what one-minute readings in whole °C prove.',
      feed?.problem && `They are left out of the forecast: ${feed.problem}.`,
    ]
      .filter(Boolean)
      .join(' '),
    legend: [
      { name: 'model', label: 'Reports', kind: 'point' },
      { name: 'market', label: 'Model, not corrected' },
    ],
    table: {
      caption: 'The day so far, °F, in local standard time',
      columns: ['Hour', 'Report', 'One-minute readings', 'Weather model'],
      rows: Array.from({ length: HOURS }, (_, hour) => {
        const at = start.getTime() + hour * HOUR_MS;
        const span = spanOf(at, at + HOUR_MS - 1);
        return [
          formatHour(hour),
          format(hoursF[hour]),
          span ? `${span.lowestF} to ${span.highestF}` : 'none',
          format(curveF?.[hour]),
        ];
      }),
    },
  };
}

const format = (temperatureF: number | null | undefined): string =>
  temperatureF == null ? 'none' : formatFixed(temperatureF, 1);

function describeHours(kind: DayForecast['kind'], hours: DayForecast['extremeHours']): string {
  if (!hours) return 'Temperatures of the day.';
  const why = hours.days === 0 ? 'not yet learned for this station' : `learned from ${hours.days} days`;
  const [name, times] = [
    kindLabels[kind].value.toLowerCase(),
    `from ${formatHour(hours.from)} to ${formatHour(hours.to)}`,
  ];
  return hours.to - hours.from > HOURS / 2
    ? `The ${name} can occur at almost any hour (${why}); resting orders near it are cancelled ${times}.`
    : `The ${name} usually occurs ${times} (${why}); resting orders near it are cancelled then.`;
}

/** Each change holds until the next one, the last until the newest reading. */
function spanReader(feed: Pick<MinuteFeed, 'changes' | 'latestAt'> | null) {
  const { changes = [], latestAt = null } = feed ?? {};
  const spans = changes.map(({ at, ...span }, i) => ({
    ...span,
    from: at.getTime(),
    to: changes[i + 1]?.at.getTime() ?? (latestAt ?? at).getTime() + MINUTE_MS,
  }));
  return (from: number, to: number) => {
    const found = spans.filter((span) => span.from <= to && span.to > from);
    if (found.length === 0) return undefined;
    return {
      lowestF: Math.min(...found.map(({ lowestF }) => lowestF)),
      highestF: Math.max(...found.map(({ highestF }) => highestF)),
    };
  };
}

function between(curveF: readonly number[] | undefined, hour: number): number | null {
  const [before, after] = [curveF?.[Math.floor(hour)], curveF?.[Math.ceil(hour)]];
  if (before === undefined || after === undefined) return null;
  return before + (after - before) * (hour % 1);
}

function toArea(high: string, low: string): string {
  const pointsOf = (path: string) => path.replace(/^M|h0$/g, '').split('L');
  return `M${[...pointsOf(high), ...pointsOf(low).toReversed()].join('L')}Z`;
}
