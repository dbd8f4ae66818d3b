import { createRecall } from '../../../core/collections.js';
import { DAY_MS, HOUR_MS, type Clock } from '../../../core/time.js';
import { addDays, climateDayAt, climateDayOf } from '../../market/climate-day.js';
import type { DailyKind } from '../../market/market.js';
import { isStation } from '../../market/stations.js';
import { simulateEnsembles, type Estimate } from './ensemble.js';
import { gaussian, smoothNoise } from './random.js';
import type { TemperatureDistribution } from '../../market/distribution.js';
import { cityStationOf, type SimulatedSubject } from './world.js';
import type { Place } from '../../market/place.js';

export interface SimulatedWorld {
  clock: Clock;
  seed: string;
  weather: SimulatedWeather;
  /** When the traders began to notice their error (see `crowd.ts`); undefined means long ago. */
  noticedAt?: Date;
  /** Traders of quiet cities follow it, but not quite (see `crowd.ts`). Default: they make their own. */
  forecast?: (subject: SimulatedSubject, at: Date) => TemperatureDistribution | undefined;
}

/** Seed of the demo's simulated world, the same on every instance. */
const SEED = 'gauge';

export const createWorld = (): Pick<SimulatedWorld, 'seed' | 'weather'> => ({
  seed: SEED,
  weather: simulateWeather(SEED),
});

type Row = [
  id: string,
  maximum: [mean: number, swing: number],
  minimum: [mean: number, swing: number],
  /** Standard deviation of a day's maximum from the seasonal value, °F. */
  spread: number,
];

/** General climatology: monthly almanac means over decades, rounded to whole degrees. */
// oxfmt-ignore
const rows: readonly Row[] = [
  ['KNYC', [63, 22], [49, 21], 7],
  ['KMDW', [60, 26], [44, 25], 9],
  ['KMIA', [84, 7], [71, 8], 3],
  ['KAUS', [81, 17], [57, 18], 7],
  ['KDEN', [65, 23], [38, 21], 10],
  ['KLAX', [72, 6], [57, 8], 5],
  ['KPHL', [65, 22], [48, 21], 7],
  ['KSFO', [66, 7], [51, 6], 5],
  ['KPHX', [87, 19], [65, 19], 5],
  ['KSEA', [61, 15], [46, 10], 6],
  ['KATL', [73, 18], [54, 18], 7],
  ['KBOS', [59, 22], [45, 22], 8],
  ['KDFW', [77, 20], [57, 20], 8],
  ['KDCA', [67, 22], [51, 21], 8],
  ['KLAS', [81, 23], [60, 21], 6],
  ['KHOU', [79, 14], [62, 15], 6],
  ['KMSP', [55, 30], [38, 28], 9],
  ['KOKC', [72, 22], [50, 21], 10],
  ['KMSY', [78, 14], [62, 15], 6],
  ['KSAT', [80, 17], [59, 17], 7],
  ['KSAN', [71, 6], [58, 9], 4],
  ['KTTN', [63, 23], [46, 21], 8],
  ['KEWR', [64, 23], [48, 22], 8],
  ['KSDF', [67, 22], [49, 21], 9],
];

const climates = new Map(
  rows.map(([id, [mean, swing], [coldMean, coldSwing], spread]) => [
    id,
    { maximum: { mean, swing }, minimum: { mean: coldMean, swing: coldSwing }, spread },
  ]),
);

/** @throws Error for a station without a climate, such as one that was added only to the table of stations */
function climateOf(stationId: string) {
  const climate = climates.get(stationId);
  if (!climate) throw new Error(`${stationId} has no climate in the invented world`);
  return climate;
}

const RECENT_DAYS = 30;

/** @param swing amplitude of the annual cycle */
const usualF = ({ mean, swing }: { mean: number; swing: number }, date: string): number =>
  mean - swing * seasonOf(date);

/** Returns −1 at the end of July and 1 at the end of January. */
function seasonOf(date: string): number {
  const dayOfYear = (Date.parse(`${date}T00:00:00Z`) - Date.UTC(Number(date.slice(0, 4)), 0, 1)) / DAY_MS;
  return Math.cos(((dayOfYear - 22) / 365.25) * 2 * Math.PI);
}

/** A local extreme of temperature, at an hour of the climate day (local standard time). */
interface Turn {
  hour: number;
  temperatureF: number;
}

function temperatureAt(turns: readonly Turn[], hour: number): number {
  const next = turns.findIndex((turn) => turn.hour > hour);
  if (next < 0) return turns.at(-1)!.temperatureF;
  const [from, to] = [turns[Math.max(0, next - 1)]!, turns[next]!];
  const share = Math.max(0, hour - from.hour) / (to.hour - from.hour || 1);
  return from.temperatureF + (to.temperatureF - from.temperatureF) * ((1 - Math.cos(Math.PI * share)) / 2);
}

function reachedAt(turns: readonly Turn[], hour: number): number[] {
  const behind = turns.filter((turn) => turn.hour <= hour).map(({ temperatureF }) => temperatureF);
  return [...behind, temperatureAt(turns, hour)];
}

/** Maximum number of cached days, enough for the days that every refresh requests, and their neighbors. */
const MAX_KEPT = 1_000;

export type SimulatedWeather = ReturnType<typeof simulateWeather>;

interface Day {
  /** °F. */
  maximum: number;
  peakHour: number;
  /** Morning low in °F. Equals the day's minimum unless one of its midnights is colder. */
  morning: number;
  morningHour: number;
}

/** Temperature at midnight, as a fraction of the way from the morning low to the previous maximum. */
const MIDNIGHT = 0.35;
/** °F by which the temperature at midnight stays below both days' maxima. */
const BELOW_MAXIMUM_F = 0.5;
/** Hour from which the temperature is constant until midnight, so that the day's last report covers the whole day. */
const LAST_TURN_HOUR = 23.75;

/** °F by which an area's index differs from the city's station: a constant part, and noise over a few hours. */
const AREA_OFFSET_F = 0.8;
const AREA_NOISE_F = 0.5;

export function simulateWeather(seed: string) {
  const { dayOf, turnsOf, coldestOf } = createDays(seed);
  const atHour = (station: Place, date: string, hour: number): Date =>
    new Date(climateDayOf(station, date).start.getTime() + hour * HOUR_MS);

  function reached(station: Place, date: string, at: Date): number[] | null {
    const since = at.getTime() - climateDayOf(station, date).start.getTime();
    return since < 0 ? null : reachedAt(turnsOf(station, date), Math.min(24, since / HOUR_MS));
  }

  function temperature(place: Place, at: Date): number {
    const station = cityStationOf(place);
    const { date, start } = climateDayAt(station, at);
    const atStation = temperatureAt(turnsOf(station, date), (at.getTime() - start.getTime()) / HOUR_MS);
    if (isStation(place)) return atStation;
    const noise = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, place.id, 'area');
    return atStation + AREA_OFFSET_F * gaussian(seed, place.id, 'offset') + AREA_NOISE_F * noise;
  }

  function courseOf(station: Place, date: string): (hour: number) => number {
    const turns = turnsOf(station, date);
    return (hour) => temperatureAt(turns, hour);
  }

  const maximum = (station: Place, date: string): number => dayOf(station, date).maximum;
  const minimum = (station: Place, date: string): number => coldestOf(station, date).temperatureF;
  const peak = (station: Place, date: string): Date => atHour(station, date, dayOf(station, date).peakHour);

  function truth({ kind, station, date, span }: SimulatedSubject): number {
    if (kind === 'hourly') return temperature(station, span.end);
    return kind === 'daily_maximum' ? maximum(station, date) : minimum(station, date);
  }

  function decidedAt({ kind, station, date, span }: SimulatedSubject): Date {
    if (kind === 'hourly') return span.end;
    return kind === 'daily_maximum'
      ? peak(station, date)
      : atHour(station, date, coldestOf(station, date).hour);
  }

  return {
    temperature,
    /** Extremes of a climate day in °F, unrounded. */
    maximum,
    minimum,
    peak,
    /** True temperature of a subject, °F, unrounded. */
    truth,
    decidedAt,
    /** A day's maximum by the season of a month ago, as recent days suggest it. */
    usual({ station, date }: SimulatedSubject): Estimate {
      const { maximum, spread } = climateOf(station.id);
      return { mean: usualF(maximum, addDays(date, -RECENT_DAYS)), deviation: spread };
    },
    ...simulateEnsembles(seed, { truth, decidedAt, courseOf }),
    /** Value of the climate report in whole degrees. */
    report: (station: Place, date: string, kind: DailyKind = 'daily_maximum') =>
      Math.round(kind === 'daily_maximum' ? maximum(station, date) : minimum(station, date)),
    /** Settlement value: whole degrees for a day, hundredths for an hour. */
    value(subject: SimulatedSubject): number {
      const rounding = subject.kind === 'hourly' ? 100 : 1;
      return Math.round(truth(subject) * rounding) / rounding;
    },
    /** Extreme of the climate day so far in °F; null before it begins. */
    running(kind: DailyKind, station: Place, date: string, at: Date): number | null {
      const so = reached(station, date, at);
      return so && (kind === 'daily_maximum' ? Math.max : Math.min)(...so);
    },
  };
}

function createDays(seed: string) {
  const recallDay = createRecall<Day>(MAX_KEPT);
  const recallTurns = createRecall<readonly Turn[]>(MAX_KEPT);
  const dayOf = ({ id }: Place, date: string): Day =>
    recallDay(`${id} ${date}`, () => makeDay(seed, id, date));

  function midnightOf(station: Place, date: string): number {
    const { maximum, morning } = dayOf(station, date);
    const before = dayOf(station, addDays(date, -1)).maximum;
    return Math.min(morning + MIDNIGHT * (before - morning), Math.min(before, maximum) - BELOW_MAXIMUM_F);
  }

  const turnsOf = (station: Place, date: string): readonly Turn[] =>
    recallTurns(`${station.id} ${date}`, () => {
      const { maximum, peakHour, morning, morningHour } = dayOf(station, date);
      const midnight = midnightOf(station, addDays(date, 1));
      return [
        { hour: 0, temperatureF: midnightOf(station, date) },
        { hour: morningHour, temperatureF: morning },
        { hour: peakHour, temperatureF: maximum },
        { hour: LAST_TURN_HOUR, temperatureF: midnight },
        { hour: 24, temperatureF: midnight },
      ];
    });

  function coldestOf(station: Place, date: string): Turn {
    const turns = turnsOf(station, date);
    const lowest = Math.min(...turns.map(({ temperatureF }) => temperatureF));
    return turns.find(({ temperatureF }) => temperatureF === lowest)!;
  }

  return { dayOf, turnsOf, coldestOf };
}

function makeDay(seed: string, id: string, date: string): Day {
  const climate = climateOf(id);
  const usual = usualF(climate.maximum, date);
  // Warm and cold spells last several days.
  const spell = smoothNoise(Date.parse(`${date}T00:00:00Z`) / (4 * DAY_MS), seed, id, 'spell');
  const day = gaussian(seed, id, date, 'day');
  // Without a limit, there is a record of a century every few weeks.
  const maximum = usual + climate.spread * within(2, 0.8 * spell + 0.6 * day);
  // On clear days, the temperature rises far above the morning low; on overcast days, only a little.
  const range =
    (usual - usualF(climate.minimum, date)) * (1 + 0.25 * within(2.5, gaussian(seed, id, date, 'range')));
  return {
    maximum,
    peakHour: 15 + within(2, 0.8 * gaussian(seed, id, date, 'peak')),
    morning: maximum - range,
    // Around sunrise, which is later in winter.
    morningHour: 6.2 + 1.2 * seasonOf(date) + within(1, 0.4 * gaussian(seed, id, date, 'morning')),
  };
}

const within = (most: number, value: number): number => Math.max(-most, Math.min(most, value));
