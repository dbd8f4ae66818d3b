import { DAY_MS, HOUR_MS, type Clock } from '../../../core/time.js';
import { spanOf, temperatureKinds, type TemperatureKind } from '../../market/market.js';
import {
  addDays,
  climateDayAt,
  climateDayOf,
  clockAt,
  daysBetween,
  type ClimateDay,
} from '../../market/climate-day.js';
import { indexAreas, isStation, stations, type Place, type Station } from '../../market/stations.js';
import type { SimulatedWeather } from './weather.js';

/** What the sources of an invented world are made of. With the same seed and clock every process sees the same. */
export interface SimulatedWorld {
  clock: Clock;
  seed: string;
  /** Of the same seed. */
  weather: SimulatedWeather;
}

export interface StationDay {
  station: Station;
  day: ClimateDay;
}

/** What markets of the invented world are about: an extreme of a climate day at a station, or an hour of an area. */
export interface SimulatedSubject {
  kind: TemperatureKind;
  station: Place;
  date: string;
  /** By the clock of the place; of an hour only. */
  hour?: number;
  /** The climate day; of an hour its time twice. */
  span: { start: Date; end: Date };
}

/** Whose temperatures are asked for: those of stations, and of the areas in their cities. */
export interface Selection {
  stations: readonly Station[];
  kinds: readonly TemperatureKind[];
}

export const everything: Selection = { stations, kinds: temperatureKinds };

/** The cities that have had markets the longest: what takes time is made for them first. */
export const leadingStations = stations.filter(({ series }) => series.formerMaximum !== null);

/** The hours of the day that there are markets about, by the clock. */
const HOURS = Array.from({ length: 13 }, (_, i) => 8 + i);
/** An hour's markets open a day ahead, and are shown until some hours after they are settled. */
export const HOUR_OPENS_BEFORE_MS = DAY_MS;
const HOUR_SHOWN_MS = 2 * HOUR_MS;

export const dailySubject = (kind: TemperatureKind, { station, day }: StationDay): SimulatedSubject => ({
  kind,
  station,
  date: day.date,
  span: day,
});

export const hourSubject = (station: Place, date: string, hour: number): SimulatedSubject => ({
  kind: 'hourly',
  station,
  date,
  hour,
  span: spanOf(station, { date, hour }),
});

/** Maxima and minima of some days: those of a station together. */
export const subjectsOf = (
  days: readonly StationDay[],
  kinds: Selection['kinds'] = everything.kinds,
): SimulatedSubject[] =>
  [...new Set(days.map(({ station }) => station))].flatMap((station) =>
    kinds
      .filter((kind) => kind !== 'hourly')
      .flatMap((kind) =>
        days.filter((each) => each.station === station).map((each) => dailySubject(kind, each)),
      ),
  );

/** The climate days of stations between two dates, both included. */
export const stationDaysBetween = (
  { from, to }: { from: string; to: string },
  of: readonly Station[] = stations,
): StationDay[] =>
  daysBetween(from, to).flatMap((date) =>
    of.map((station) => ({ station, day: climateDayOf(station, date) })),
  );

/** All that is selected of a date. */
export function subjectsOn(date: string, { stations, kinds }: Selection): SimulatedSubject[] {
  const days = subjectsOf(stationDaysBetween({ from: date, to: date }, stations), kinds);
  const hours = areasOf({ stations, kinds }).flatMap((area) =>
    HOURS.map((hour) => hourSubject(area, date, hour)),
  );
  return [...days, ...hours];
}

const areasOf = ({ stations, kinds }: Selection): readonly Place[] =>
  kinds.includes('hourly') ? indexAreas.filter((area) => stations.includes(cityStationOf(area))) : [];

/** Yesterday, today and tomorrow at each station. */
export function stationDaysAround(at: Date, of: readonly Station[] = stations): StationDay[] {
  return of.flatMap((station) =>
    [-1, 0, 1].map((offset) => ({
      station,
      day: climateDayAt(station, new Date(at.getTime() + offset * DAY_MS)),
    })),
  );
}

/** The hours of a day ahead and of the last few, at each area. */
function hoursAround(at: Date, selection: Selection): SimulatedSubject[] {
  return areasOf(selection).flatMap((area) => {
    const today = clockAt(area, at).date;
    return [addDays(today, -1), today, addDays(today, 1)]
      .flatMap((date) => HOURS.map((hour) => hourSubject(area, date, hour)))
      .filter(({ span: { end } }) => {
        const aheadMs = end.getTime() - at.getTime();
        return aheadMs <= HOUR_OPENS_BEFORE_MS && aheadMs > -HOUR_SHOWN_MS;
      });
  });
}

/** What there are markets and forecasts of at a time. */
export const subjectsAround = (at: Date, selection: Selection): SimulatedSubject[] => [
  ...subjectsOf(stationDaysAround(at, selection.stations), selection.kinds),
  ...hoursAround(at, selection),
];

/** The station that an area's city has; a station itself. */
export const cityStationOf = (place: Place): Station =>
  isStation(place) ? place : stations.find(({ city }) => city === place.city)!;
