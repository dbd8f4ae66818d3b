import { climateDayAt, climateDayOf } from '../../market/climate-day.js';
import { isStation, type Place } from '../../market/stations.js';
import { climateOf, seasonOf, usualF } from './climate.js';
import { reachedAt, temperatureAt, type Turn } from './curve.js';
import { simulateEnsembles, type Ensembles } from './ensemble.js';
import { gaussian, smoothNoise } from './random.js';
import { createRecall } from './recall.js';
import { cityStationOf, type Subject } from './world.js';
import { addDays } from '../../market/calendar.js';

/** Days are asked for again with every refresh, each with its neighbours. */
const MAX_KEPT = 1_000;

const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = 60 * 60 * 1000;

/** What the weather of an invented world does. Everything follows from its seed. */
export interface SimulatedWeather {
  /** °F at any moment. */
  temperature(place: Place, at: Date): number;
  /** The highest and the lowest temperature of a climate day, °F, before they are rounded to whole degrees. */
  maximum(station: Place, date: string): number;
  minimum(station: Place, date: string): number;
  /** The highest and the lowest temperature of the climate day so far, °F, or null before it has begun. */
  runningMaximum(station: Place, date: string, at: Date): number | null;
  runningMinimum(station: Place, date: string, at: Date): number | null;
  /** When the day's maximum is reached. */
  peak(station: Place, date: string): Date;
  /** What the report says of a day, in whole degrees. */
  report(station: Place, date: string, kind?: 'daily_maximum' | 'daily_minimum'): number;
  /** What a subject's temperature is, °F, before it is rounded. */
  truth(subject: Subject): number;
  /** The same as markets settle on it: whole degrees of a day, hundredths of an hour. */
  value(subject: Subject): number;
  /** When it is decided: a day's maximum when it is reached. */
  decidedAt(subject: Subject): Date;
  /** What forecasts say of it. */
  members: Ensembles;
}

/** A day by itself, as it will be. */
interface Day {
  /** °F. */
  maximum: number;
  peakHour: number;
  /** °F: what the morning cools down to. The day's minimum, unless one of its midnights is colder. */
  morning: number;
  morningHour: number;
}

/** The share of the way from a morning up to the day before's maximum at which the midnight between them is. */
const MIDNIGHT = 0.35;
/** °F: that a midnight stays below the maxima of both of its days. */
const BELOW_MAXIMUM_F = 0.5;
/** From this hour on it is as warm as at the midnight: the day's last report tells of all of it. */
const LAST_TURN_HOUR = 23.75;

/** °F: how far an area's index is from the city's station, on the whole and for a few hours. */
const AREA_OFFSET_F = 0.8;
const AREA_NOISE_F = 0.5;

export function simulateWeather(seed: string): SimulatedWeather {
  const recallDay = createRecall<Day>(MAX_KEPT);
  const recallTurns = createRecall<readonly Turn[]>(MAX_KEPT);
  const dayOf = ({ id }: Place, date: string): Day =>
    recallDay(`${id} ${date}`, () => makeDay(seed, id, date));

  /** The temperature at the midnight at which a day begins. */
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

  /** The day's first turn that is as cold as it gets. */
  function coldestOf(station: Place, date: string): Turn {
    const turns = turnsOf(station, date);
    const lowest = Math.min(...turns.map(({ temperatureF }) => temperatureF));
    return turns.find(({ temperatureF }) => temperatureF === lowest)!;
  }

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

  const maximum = (station: Place, date: string): number => dayOf(station, date).maximum;
  const minimum = (station: Place, date: string): number => coldestOf(station, date).temperatureF;
  const peak = (station: Place, date: string): Date => atHour(station, date, dayOf(station, date).peakHour);

  function truth({ kind, station, date, span }: Subject): number {
    if (kind === 'hourly') return temperature(station, span.end);
    return kind === 'daily_maximum' ? maximum(station, date) : minimum(station, date);
  }

  function decidedAt({ kind, station, date, span }: Subject): Date {
    if (kind === 'hourly') return span.end;
    return kind === 'daily_maximum'
      ? peak(station, date)
      : atHour(station, date, coldestOf(station, date).hour);
  }

  return {
    temperature,
    maximum,
    minimum,
    peak,
    truth,
    decidedAt,
    members: simulateEnsembles(seed, { truth, decidedAt }),
    report: (station, date, kind = 'daily_maximum') =>
      Math.round(kind === 'daily_maximum' ? maximum(station, date) : minimum(station, date)),
    value(subject) {
      const rounding = subject.kind === 'hourly' ? 100 : 1;
      return Math.round(truth(subject) * rounding) / rounding;
    },
    runningMaximum(station, date, at) {
      const so = reached(station, date, at);
      return so && Math.max(...so);
    },
    runningMinimum(station, date, at) {
      const so = reached(station, date, at);
      return so && Math.min(...so);
    },
  };
}

function makeDay(seed: string, id: string, date: string): Day {
  const climate = climateOf(id);
  const usual = usualF(climate.maximum, date);
  // Warm and cold spells last some days.
  const spell = smoothNoise(Date.parse(`${date}T00:00:00Z`) / (4 * DAY_MS), seed, id, 'spell');
  const day = gaussian(seed, id, date, 'day');
  const maximum = usual + climate.spread * (0.8 * spell + 0.6 * day);
  // Clear days are far above their mornings, dull ones hardly.
  const range =
    (usual - usualF(climate.minimum, date)) * (1 + 0.25 * within(2.5, gaussian(seed, id, date, 'range')));
  return {
    maximum,
    // Around 15:00.
    peakHour: 15 + within(2, 0.8 * gaussian(seed, id, date, 'peak')),
    morning: maximum - range,
    // About sunrise: later in winter.
    morningHour: 6.2 + 1.2 * seasonOf(date) + within(1, 0.4 * gaussian(seed, id, date, 'morning')),
  };
}

const within = (most: number, value: number): number => Math.max(-most, Math.min(most, value));
