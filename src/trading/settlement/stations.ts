/**
 * Where each series settles. The venue's rules name a place; the report for that place is made at one station, and the
 * airport next to it gives another answer on half of the days.
 */
export interface Station {
  /** ICAO id, as `/forecast/:station` takes it. */
  id: string;
  city: string;
  /** The station's own name. */
  name: string;
  latitude: number;
  longitude: number;
  /** Of local standard time from UTC, all year: climate days know no summer time. */
  standardOffsetHours: number;
  series: SeriesRule;
}

/** What a series of markets settles on. */
export interface SeriesRule {
  ticker: string;
  /** The name that the series had before; old events still carry it. */
  formerTicker: string;
  measure: 'daily_maximum_temperature';
  unit: 'fahrenheit';
  /** The report that decides: the NWS Climatological Report (Daily), whole degrees. */
  report: string;
  /** The places that the rules may name. Rules that name none of them are about another station. */
  places: readonly string[];
  /** How well this was checked: days on which the station's report is in the winning bracket, of all that were compared. */
  evidence: { matched: number; compared: number } | 'rules text only';
}

const highTemperature = (
  ticker: string,
  report: string,
  places: readonly string[],
  evidence: SeriesRule['evidence'],
): SeriesRule => ({
  ticker,
  formerTicker: ticker.replace(/^KX/, ''),
  measure: 'daily_maximum_temperature',
  unit: 'fahrenheit',
  report,
  places,
  evidence,
});

/**
 * Sources: the rules texts of the markets; comparison of the winners of 2024-08 to 2025-05 with the daily highs of the
 * same stations in the ACIS records. Coordinates are the NWS station metadata's.
 */
export const stations: readonly Station[] = [
  {
    id: 'KNYC',
    city: 'New York',
    name: 'Central Park',
    latitude: 40.7789,
    longitude: -73.9692,
    standardOffsetHours: -5,
    series: highTemperature('KXHIGHNY', 'CLINYC', ['Central Park'], { matched: 251, compared: 252 }),
  },
  {
    id: 'KMDW',
    city: 'Chicago',
    name: 'Midway Airport',
    latitude: 41.7842,
    longitude: -87.7553,
    standardOffsetHours: -6,
    series: highTemperature('KXHIGHCHI', 'CLIMDW', ['Midway'], 'rules text only'),
  },
  {
    id: 'KMIA',
    city: 'Miami',
    name: 'Miami International Airport',
    latitude: 25.7906,
    longitude: -80.3164,
    standardOffsetHours: -5,
    series: highTemperature('KXHIGHMIA', 'CLIMIA', ['Miami'], { matched: 250, compared: 252 }),
  },
  {
    id: 'KAUS',
    city: 'Austin',
    name: 'Austin-Bergstrom International Airport',
    latitude: 30.1831,
    longitude: -97.6799,
    standardOffsetHours: -6,
    series: highTemperature('KXHIGHAUS', 'CLIAUS', ['Bergstrom'], { matched: 255, compared: 255 }),
  },
  {
    id: 'KDEN',
    city: 'Denver',
    name: 'Denver International Airport',
    latitude: 39.8466,
    longitude: -104.6562,
    standardOffsetHours: -7,
    series: highTemperature('KXHIGHDEN', 'CLIDEN', ['Denver'], { matched: 159, compared: 159 }),
  },
  {
    id: 'KLAX',
    city: 'Los Angeles',
    name: 'Los Angeles International Airport',
    latitude: 33.9381,
    longitude: -118.3889,
    standardOffsetHours: -8,
    series: highTemperature('KXHIGHLAX', 'CLILAX', ['Los Angeles'], 'rules text only'),
  },
  {
    id: 'KPHL',
    city: 'Philadelphia',
    name: 'Philadelphia International Airport',
    latitude: 39.8733,
    longitude: -75.2268,
    standardOffsetHours: -5,
    series: highTemperature('KXHIGHPHIL', 'CLIPHL', ['Philadelphia'], 'rules text only'),
  },
];

const byId = new Map(stations.map((station) => [station.id, station]));
const bySeries = new Map(
  stations.flatMap((station) => [
    [station.series.ticker, station],
    [station.series.formerTicker, station],
  ]),
);

/** The station with this ICAO id, in upper case; undefined if none is known. */
export const findStation = (id: string): Station | undefined => byId.get(id);

/** The station that a series (by its present or former ticker) settles on; undefined if none is known. */
export const findStationOfSeries = (seriesTicker: string): Station | undefined => bySeries.get(seriesTicker);

/** True if the venue's rules text is about the station: a market whose rules say otherwise must not be traded. */
export function rulesNameStation(station: Station, rules: string): boolean {
  const text = rules.toLowerCase();
  return station.series.places.some((place) => text.includes(place.toLowerCase()));
}
