import { AppError } from '../../core/errors.js';
import type { DailyKind, TemperatureKind } from './market.js';
import type { Place } from './place.js';

/** Case-insensitive. */
export const readStationId = (given: string): string => idOf(findStation(given.toUpperCase()));

/** Case-insensitive. */
export const readAnyPlaceId = (given: string): string => idOf(findPlace(given.toUpperCase()));

/** A station, or for hourly markets an area. The id of the city's station is also accepted for an area. */
export function readPlaceId(given: string, kind: TemperatureKind): string {
  const id = given.toUpperCase();
  const station = findStation(id);
  const found = kind === 'hourly' && station ? findAreaOf(station)?.id : id;
  return idOf(placesOf(kind).find((each) => each.id === found));
}

function idOf(place: Place | undefined): string {
  if (!place) throw new AppError('unknown_station', 'There is no such station.');
  return place.id;
}

interface StationDetails {
  /** In the rules before 2026-08-14, in lower case. */
  formerPlaces: readonly string[];
  evidence?: Evidence;
}

type Row = [
  icao: string,
  city: string,
  rulesCity: string,
  name: string,
  latitude: number,
  longitude: number,
  timeZone: string,
  standardOffsetHours: number,
  office: string,
  maximum: string,
  minimum: string,
  more?: StationDetails,
];

/**
 * Sources: the texts of the venue's rules (station, city, former places); the weather service's station metadata
 * (coordinates, zone, office); for the evidence, winners from 2024-08 to 2025-05, compared with daily highs in the ACIS
 * records.
 */
// oxfmt-ignore
const stationRows: readonly Row[] = [
  ['KNYC', 'New York', 'New York City', 'Central Park', 40.78333, -73.96667, 'America/New_York', -5, 'OKX', 'KXHIGHNY', 'KXLOWTNYC', { formerPlaces: ['central park'], evidence: { matched: 251, compared: 252 } }],
  ['KMDW', 'Chicago', 'Chicago', 'Midway Airport', 41.78417, -87.75528, 'America/Chicago', -6, 'LOT', 'KXHIGHCHI', 'KXLOWTCHI', { formerPlaces: ['midway'] }],
  ['KMIA', 'Miami', 'Miami', 'Miami International Airport', 25.79056, -80.31639, 'America/New_York', -5, 'MFL', 'KXHIGHMIA', 'KXLOWTMIA', { formerPlaces: ['miami'], evidence: { matched: 250, compared: 252 } }],
  ['KAUS', 'Austin', 'Austin', 'Austin-Bergstrom International Airport', 30.18304, -97.67987, 'America/Chicago', -6, 'EWX', 'KXHIGHAUS', 'KXLOWTAUS', { formerPlaces: ['bergstrom'], evidence: { matched: 255, compared: 255 } }],
  ['KDEN', 'Denver', 'Denver', 'Denver International Airport', 39.84658, -104.65622, 'America/Denver', -7, 'BOU', 'KXHIGHDEN', 'KXLOWTDEN', { formerPlaces: ['denver'], evidence: { matched: 159, compared: 159 } }],
  ['KLAX', 'Los Angeles', 'Los Angeles', 'Los Angeles International Airport', 33.93806, -118.38889, 'America/Los_Angeles', -8, 'LOX', 'KXHIGHLAX', 'KXLOWTLAX', { formerPlaces: ['los angeles'] }],
  ['KPHL', 'Philadelphia', 'Philadelphia', 'Philadelphia International Airport', 39.87327, -75.22678, 'America/New_York', -5, 'PHI', 'KXHIGHPHIL', 'KXLOWTPHIL', { formerPlaces: ['philadelphia'] }],
  ['KSFO', 'San Francisco', 'San Francisco', 'San Francisco International Airport', 37.61961, -122.36558, 'America/Los_Angeles', -8, 'MTR', 'KXHIGHTSFO', 'KXLOWTSFO'],
  ['KPHX', 'Phoenix', 'Phoenix', 'Phoenix Sky Harbor International Airport', 33.4278, -112.00347, 'America/Phoenix', -7, 'PSR', 'KXHIGHTPHX', 'KXLOWTPHX'],
  ['KSEA', 'Seattle', 'Seattle', 'Seattle-Tacoma International Airport', 47.44472, -122.31361, 'America/Los_Angeles', -8, 'SEW', 'KXHIGHTSEA', 'KXLOWTSEA'],
  ['KATL', 'Atlanta', 'Atlanta', 'Hartsfield-Jackson Atlanta International Airport', 33.64028, -84.42694, 'America/New_York', -5, 'FFC', 'KXHIGHTATL', 'KXLOWTATL'],
  ['KBOS', 'Boston', 'Boston', 'Boston Logan International Airport', 42.36056, -71.01056, 'America/New_York', -5, 'BOX', 'KXHIGHTBOS', 'KXLOWTBOS'],
  ['KDFW', 'Dallas', 'Dallas', 'Dallas/Fort Worth International Airport', 32.89743, -97.02196, 'America/Chicago', -6, 'FWD', 'KXHIGHTDAL', 'KXLOWTDAL'],
  ['KDCA', 'Washington DC', 'Washington DC', 'Reagan Washington National Airport', 38.84833, -77.03417, 'America/New_York', -5, 'LWX', 'KXHIGHTDC', 'KXLOWTDC'],
  ['KLAS', 'Las Vegas', 'Las Vegas', 'Harry Reid International Airport', 36.07188, -115.1634, 'America/Los_Angeles', -8, 'VEF', 'KXHIGHTLV', 'KXLOWTLV'],
  ['KHOU', 'Houston', 'Houston', 'William P. Hobby Airport', 29.6375, -95.2825, 'America/Chicago', -6, 'HGX', 'KXHIGHTHOU', 'KXLOWTHOU'],
  ['KMSP', 'Minneapolis', 'Minneapolis', 'Minneapolis-Saint Paul International Airport', 44.88306, -93.22889, 'America/Chicago', -6, 'MPX', 'KXHIGHTMIN', 'KXLOWTMIN'],
  ['KOKC', 'Oklahoma City', 'Oklahoma City', 'Will Rogers International Airport', 35.38861, -97.60028, 'America/Chicago', -6, 'OUN', 'KXHIGHTOKC', 'KXLOWTOKC'],
  ['KMSY', 'New Orleans', 'New Orleans', 'Louis Armstrong New Orleans International Airport', 29.99278, -90.25083, 'America/Chicago', -6, 'LIX', 'KXHIGHTNOLA', 'KXLOWTNOLA'],
  ['KSAT', 'San Antonio', 'San Antonio', 'San Antonio International Airport', 29.53278, -98.46361, 'America/Chicago', -6, 'EWX', 'KXHIGHTSATX', 'KXLOWTSATX'],
  ['KSAN', 'San Diego', 'San Diego', 'San Diego International Airport', 32.73361, -117.18306, 'America/Los_Angeles', -8, 'SGX', 'KXHIGHTSAN', 'KXLOWTSAN'],
  ['KTTN', 'Trenton', 'Trenton', 'Trenton-Mercer Airport', 40.27639, -74.81639, 'America/New_York', -5, 'PHI', 'KXHIGHTTTN', 'KXLOWTTTN'],
  ['KEWR', 'Newark', 'Newark', 'Newark Liberty International Airport', 40.6825, -74.16944, 'America/New_York', -5, 'OKX', 'KXHIGHTEWR', 'KXLOWTEWR'],
  ['KSDF', 'Louisville', 'Louisville', 'Louisville Muhammad Ali International Airport', 38.17406, -85.7365, 'America/Kentucky/Louisville', -5, 'LMK', 'KXHIGHTSDF', 'KXLOWTSDF'],
];

/** Days on which the station's report was in the winning bracket, of those `compared`. */
type Evidence = { matched: number; compared: number } | 'rules text only';

/** Taken only from the rules: a nearby airport's report differs on half of the days. */
export interface Station extends Place {
  /** The National Weather Service's product, such as `CLINYC`, named in rules since 2026-08-15. */
  report: string;
  office: string;
  /** As written in the rules since 2026-08-14. */
  rulesCity: string;
  /** In earlier rules, in lower case; empty if there were no markets then. */
  formerPlaces: readonly string[];
  /** Used only for queries: these never determine a market's subject. */
  series: { maximum: string; minimum: string; formerMaximum: string | null };
  /** Daily maxima settled before The Weather Company became the source. */
  evidence: Evidence;
}

/** Several stations, weighted and corrected by a published method. Coordinates are those of the center if known. */
export interface IndexArea extends Place {
  /** The `:city` in `/live_data/weather/:city`. */
  indexId: string;
  /** Names old positions: it never determines a market's subject. */
  series: string;
  /** In the rules, in lower case. */
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

/** Returns the other stations within a great-circle distance. */
export const stationsNear = (station: Station, farthestKm: number): Station[] =>
  stations.filter((other) => other.id !== station.id && distanceKm(station, other) <= farthestKm);

const EARTH_KM = 6371;

function distanceKm(a: Station, b: Station): number {
  const [latA, latB, apart] = [a.latitude, b.latitude, a.longitude - b.longitude].map(
    (degrees) => (degrees * Math.PI) / 180,
  ) as [number, number, number];
  const cosine = Math.sin(latA) * Math.sin(latB) + Math.cos(latA) * Math.cos(latB) * Math.cos(apart);
  return EARTH_KM * Math.acos(Math.min(1, cosine));
}

/** The stations of Miami and New York are from the venue's filing; other areas use the city's daily station. */
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

export interface KnownSeries {
  station: Station;
  kind: DailyKind;
}

export const places: readonly Place[] = [...stations, ...indexAreas];

const byId = new Map(stations.map((station) => [station.id, station]));
const placeById = new Map(places.map((place) => [place.id, place]));
const byReport = new Map(stations.map((station) => [station.report, station]));
const bySeries = new Map<string, KnownSeries>(
  stations.flatMap((station): [string, KnownSeries][] => {
    const { maximum, minimum, formerMaximum } = station.series;
    const maximumSeries: KnownSeries = { station, kind: 'daily_maximum' };
    return [
      [maximum, maximumSeries],
      [minimum, { station, kind: 'daily_minimum' }],
      ...(formerMaximum === null ? [] : [[formerMaximum, maximumSeries] satisfies [string, KnownSeries]]),
    ];
  }),
);

export const dailySeriesOf = ({ series }: Station, kind: TemperatureKind): string =>
  kind === 'daily_minimum' ? series.minimum : series.maximum;

/** @param id upper case */
export const findStation = (id: string): Station | undefined => byId.get(id);

/** @param id upper case */
export const findPlace = (id: string): Place | undefined => placeById.get(id);

export const placesOf = (kind: TemperatureKind): readonly Place[] =>
  kind === 'hourly' ? indexAreas : stations;

export const findAreaOf = ({ city }: Station): IndexArea | undefined =>
  indexAreas.find((each) => each.city === city);

interface SeriesChoice {
  /** Undefined: all, as for `kind`. */
  city: string | undefined;
  kind: TemperatureKind | undefined;
}

/** Highs, lows, hours, and highs under their former name. */
export const seriesOf = (wanted: SeriesChoice): string[] =>
  [
    ...[...bySeries].map(([ticker, { station, kind }]) => ({ ticker, city: station.city, kind })),
    ...indexAreas.map(({ series, city }) => ({ ticker: series, city, kind: 'hourly' as const })),
  ].flatMap(({ ticker, city, kind }) =>
    (wanted.city ?? city) === city && (wanted.kind ?? kind) === kind ? [ticker] : [],
  );

export const findStationOfReport = (report: string): Station | undefined => byReport.get(report);

/** From rules that do not name the report; undefined unless exactly one matches. */
export function findStationOfPlace(place: string): Station | undefined {
  const text = place.toLowerCase();
  const found = stations.filter(({ formerPlaces }) => formerPlaces.some((name) => text.includes(name)));
  return found.length === 1 ? found[0] : undefined;
}

/** The city is written as in current rules. */
export const findStationOfCity = (city: string): Station | undefined =>
  stations.find(({ rulesCity }) => rulesCity.toLowerCase() === city.toLowerCase());

export const findIndexArea = (place: string): IndexArea | undefined =>
  indexAreas.find(({ rulesPlaces }) => rulesPlaces.includes(place.toLowerCase()));

/** Current or former. Names old positions; never determines a market's subject. */
export const findSeries = (ticker: string): KnownSeries | undefined => bySeries.get(ticker);

/** Names old positions; never determines a market's subject. */
export const findAreaOfSeries = (ticker: string): IndexArea | undefined =>
  indexAreas.find(({ series }) => series === ticker);

export const isStation = (place: Place): place is Station => byId.get(place.id) === place;
