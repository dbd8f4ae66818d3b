import { stationRows } from './station-rows.js';

/** A point whose temperature markets are about. */
export interface Place {
  /** ICAO id of a station, `INDEX-MIAMI` of an area. */
  id: string;
  city: string;
  name: string;
  latitude: number;
  longitude: number;
  /** IANA name, for what the venue says by the clock. */
  timeZone: string;
  /** Of local standard time from UTC, all year: climate days know no summer time. */
  standardOffsetHours: number;
}

/** How well a rule was checked: days on which the station's report is in the winning bracket, of all that were compared. */
export type Evidence = { matched: number; compared: number } | 'rules text only';

/**
 * A station whose daily climate report markets settle on. The airport next to it gives another answer on half of the days,
 * so it is taken from the rules' own words and from nowhere else.
 */
export interface Station extends Place {
  /** The National Weather Service's product: `CLINYC`. The rules name it in parentheses from 2026-08-15 on. */
  report: string;
  /** The weather service's office that issues it. */
  office: string;
  /** The city as the rules have written it since 2026-08-14. */
  rulesCity: string;
  /** Words of the place that the rules named before, in lower case; empty where there were no markets then. */
  formerPlaces: readonly string[];
  /** What the venue calls its series: for asking about them, never as evidence of what they are about. */
  series: { maximum: string; minimum: string; formerMaximum: string | null };
  /** Of daily maxima settled before The Weather Company became the source. */
  evidence: Evidence;
}

/**
 * An area of the venue's own temperature index: several stations, weighed and corrected as the venue publishes it. The
 * coordinates are the middle of its stations where they are known.
 */
export interface IndexArea extends Place {
  /** As `/live_data/weather/:city` takes it. */
  indexId: string;
  /** What the venue calls its hours' series: a name for old positions, never evidence of what they are about. */
  series: string;
  /** How rules may write it, in lower case. */
  rulesPlaces: readonly string[];
}

export const stations: readonly Station[] = stationRows.map(
  ([icao, city, rulesCity, name, latitude, longitude, timeZone, offset, office, maximum, minimum, more]) => ({
    id: icao,
    city,
    name,
    latitude,
    longitude,
    timeZone,
    standardOffsetHours: offset,
    report: `CLI${icao.slice(1)}`,
    office,
    rulesCity,
    formerPlaces: more?.formerPlaces ?? [],
    series: { maximum, minimum, formerMaximum: more?.formerPlaces ? maximum.replace(/^KX/, '') : null },
    evidence: more?.evidence ?? 'rules text only',
  }),
);

/** Miami's and New York's stations are in the venue's filing; the others' areas are placed at the city's daily station. */
export const indexAreas: readonly IndexArea[] = [
  area('miami', 'KXTEMPMIAH', 'KMIA', ['miami', 'miami, fl'], [26.044, -80.206]),
  area(
    'nyc',
    'KXTEMPNYCHS',
    'KNYC',
    ['new york city', 'new york city, ny', 'new york', 'new york, ny', 'nyc'],
    [40.801, -73.91],
  ),
  area('chicago', 'KXTEMPCHIHS', 'KMDW', ['chicago', 'chicago, il']),
  area('la-coastal', 'KXTEMPLAXHS', 'KLAX', [
    'la coastal',
    'la coastal, ca',
    'los angeles',
    'los angeles, ca',
    'los angeles coastal',
  ]),
];

function area(
  indexId: string,
  series: string,
  dailyStation: string,
  rulesPlaces: readonly string[],
  middle?: readonly [latitude: number, longitude: number],
): IndexArea {
  const { city, latitude, longitude, timeZone, standardOffsetHours } = stations.find(
    ({ id }) => id === dailyStation,
  )!;
  return {
    id: `INDEX-${indexId.toUpperCase()}`,
    city,
    name: `${city} temperature index`,
    latitude: middle?.[0] ?? latitude,
    longitude: middle?.[1] ?? longitude,
    timeZone,
    standardOffsetHours,
    indexId,
    series,
    rulesPlaces,
  };
}

interface KnownSeries {
  station: Station;
  kind: 'daily_maximum' | 'daily_minimum';
}

/** Everything that there may be a forecast of. */
export const places: readonly Place[] = [...stations, ...indexAreas];

const byId = new Map(stations.map((station) => [station.id, station]));
const placeById = new Map(places.map((place) => [place.id, place]));
const byReport = new Map(stations.map((station) => [station.report, station]));
const bySeries = new Map<string, KnownSeries>(
  stations.flatMap((station): [string, KnownSeries][] => {
    const { maximum, minimum, formerMaximum } = station.series;
    const ofMaximum: KnownSeries = { station, kind: 'daily_maximum' };
    return [
      [maximum, ofMaximum],
      [minimum, { station, kind: 'daily_minimum' }],
      ...(formerMaximum === null ? [] : [[formerMaximum, ofMaximum] satisfies [string, KnownSeries]]),
    ];
  }),
);

/** The station with this ICAO id, in upper case; undefined if none is known. */
export const findStation = (id: string): Station | undefined => byId.get(id);

/** The station or area with this id, in upper case; undefined if none is known. */
export const findPlace = (id: string): Place | undefined => placeById.get(id);

/** What there are markets of a kind of. */
export const placesOf = (kind: 'daily_maximum' | 'daily_minimum' | 'hourly'): readonly Place[] =>
  kind === 'hourly' ? indexAreas : stations;

/** The area of a station's city, whose hours are forecast; undefined where there is none. */
export const findAreaOf = ({ city }: Station): IndexArea | undefined =>
  indexAreas.find((each) => each.city === city);

/** The station of a climate report (`CLINYC`); undefined if none is known. */
export const findStationOfReport = (report: string): Station | undefined => byReport.get(report);

/** The station whose place the rules named before they named reports; undefined unless exactly one is known by it. */
export function findStationOfPlace(place: string): Station | undefined {
  const text = place.toLowerCase();
  const found = stations.filter(({ formerPlaces }) => formerPlaces.some((name) => text.includes(name)));
  return found.length === 1 ? found[0] : undefined;
}

/** The station of the city as the rules write it today; undefined if none is known. */
export const findStationOfCity = (city: string): Station | undefined =>
  stations.find(({ rulesCity }) => rulesCity.toLowerCase() === city.toLowerCase());

/** The area that rules name; undefined if none is known. */
export const findIndexArea = (place: string): IndexArea | undefined =>
  indexAreas.find(({ rulesPlaces }) => rulesPlaces.includes(place.toLowerCase()));

/** What a series is known to be about, by its present or former ticker: a name for old positions, never evidence. */
export const findSeries = (ticker: string): KnownSeries | undefined => bySeries.get(ticker);

/** The area that a series of hours is known to be about: a name for old positions, never evidence. */
export const findAreaOfSeries = (ticker: string): IndexArea | undefined =>
  indexAreas.find(({ series }) => series === ticker);

/** True if the place is a station with a climate report, and not an area. */
export const isStation = (place: Place): place is Station => byId.get(place.id) === place;
