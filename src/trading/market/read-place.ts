import { AppError } from '../../core/errors.js';
import type { TemperatureKind } from './market.js';
import { findAreaOf, findPlace, findStation, placesOf } from './stations.js';

/**
 * The id of a station, as it is written anywhere.
 * @throws AppError unknown_station
 */
export function readStationId(given: string): string {
  const station = findStation(given.toUpperCase());
  if (!station) throw noSuchStation();
  return station.id;
}

/**
 * The id of what there are markets of a kind of: a station, of hours an area, which may be named by the station of its city.
 * @throws AppError unknown_station
 */
export function readPlaceId(given: string, kind: TemperatureKind): string {
  const id = given.toUpperCase();
  const station = findStation(id);
  const found = kind === 'hourly' && station ? findAreaOf(station)?.id : id;
  const place = placesOf(kind).find((each) => each.id === found);
  if (!place) throw noSuchStation();
  return place.id;
}

/**
 * The id of a station or of an area of the index, as it is written anywhere.
 * @throws AppError unknown_station
 */
export function readAnyPlaceId(given: string): string {
  const place = findPlace(given.toUpperCase());
  if (!place) throw noSuchStation();
  return place.id;
}

const noSuchStation = () => new AppError('unknown_station', 'There is no such station.');
