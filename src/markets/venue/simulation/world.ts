import { DAY_MS, HOUR_MS } from '../../../core/time.js';
import { spanOf, temperatureKinds, type Market, type TemperatureKind } from '../../market/market.js';
import {
  addDays,
  climateDayAt,
  climateDayOf,
  clockAt,
  daysBetween,
  type ClimateDay,
} from '../../market/climate-day.js';
import { indexAreas, isStation, stations, type Station } from '../../market/stations.js';
import type { Place } from '../../market/place.js';

export interface StationDay {
  station: Station;
  day: ClimateDay;
}

/** Subject of simulated markets: an extreme of a climate day at a station, or the temperature of an area at an hour. */
export interface SimulatedSubject extends Pick<Market, 'kind' | 'station' | 'date' | 'hour'> {
  /** The climate day; for an hour, start and end are equal. */
  span: { start: Date; end: Date };
}

export interface Selection {
  stations: readonly Station[];
  kinds: readonly TemperatureKind[];
}

export const everything: Selection = { stations, kinds: temperatureKinds };

/** Cities with the longest market history; expensive data is built for them first. */
export const leadingStations = stations.filter(({ series }) => series.formerMaximum !== null);

const HOURS = Array.from({ length: 13 }, (_, i) => 8 + i);
/** Hourly markets open a day ahead and stay listed for a few hours after settlement. */
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

export const subjectsOf = (days: readonly StationDay[], kinds: Selection['kinds'] = everything.kinds) =>
  [...new Set(days.map(({ station }) => station))].flatMap((station) =>
    kinds
      .filter((kind) => kind !== 'hourly')
      .flatMap((kind) =>
        days.filter((each) => each.station === station).map((each) => dailySubject(kind, each)),
      ),
  );

export const stationDaysBetween = (
  { from, to }: { from: string; to: string },
  of: readonly Station[] = stations,
): StationDay[] =>
  daysBetween(from, to).flatMap((date) =>
    of.map((station) => ({ station, day: climateDayOf(station, date) })),
  );

export function subjectsOn(date: string, { stations, kinds }: Selection): SimulatedSubject[] {
  const days = subjectsOf(stationDaysBetween({ from: date, to: date }, stations), kinds);
  const hours = areasOf({ stations, kinds }).flatMap((area) =>
    HOURS.map((hour) => hourSubject(area, date, hour)),
  );
  return [...days, ...hours];
}

const areasOf = ({ stations, kinds }: Selection): readonly Place[] =>
  kinds.includes('hourly') ? indexAreas.filter((area) => stations.includes(cityStationOf(area))) : [];

export function stationDaysAround(at: Date, of: readonly Station[] = stations): StationDay[] {
  return of.flatMap((station) =>
    [-1, 0, 1].map((offset) => ({
      station,
      day: climateDayAt(station, new Date(at.getTime() + offset * DAY_MS)),
    })),
  );
}

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

export const subjectsAround = (at: Date, selection: Selection): SimulatedSubject[] => [
  ...subjectsOf(stationDaysAround(at, selection.stations), selection.kinds),
  ...hoursAround(at, selection),
];

export const cityStationOf = (place: Place): Station =>
  isStation(place) ? place : stations.find(({ city }) => city === place.city)!;
