import type { NextFunction, Request, RequestHandler, Response, Router } from 'express';
import type { Context } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import { perAddressLimit } from '../../core/http/address-limit.js';
import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { parseDollars } from '../market/money.js';
import type { TemperatureKind } from '../market/market.js';
import { findAreaOf, findStation, indexAreas, placesOf, stations } from '../market/stations.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { marketsQuerySchema, noQuerySchema, signalsQuerySchema } from './schema.js';
import { createSnapshotReads } from './snapshot-reads.js';
import { createStationList, type PlaceFacts } from './station-list.js';

/** Sizes for another bankroll are solved for whoever asks: that costs as much as a hundred other reads. */
const READS_PER_SIZING = 10;

/** The reads that everybody may make. They stand behind `readLayer`. */
export function addReadRoutes(
  router: Router,
  { clock, config }: Pick<Context, 'clock' | 'config'>,
  { snapshots, ...facts }: { snapshots: SnapshotStore } & PlaceFacts,
): void {
  const reads = createSnapshotReads({ store: snapshots, clock });
  const stationList = createStationList(facts);

  router.get('/markets', (req, res) => {
    const { station, city, ...filter } = hasQuery(req) ? parseInput(marketsQuerySchema, req.query) : {};
    const stationId = station === undefined ? undefined : readStationId(station);
    sendCachedAnswer(req, res, reads.markets({ stationId, city: city?.toLowerCase(), ...filter }));
  });

  const perMinute = Math.ceil(config.limits.readsPerMinute / READS_PER_SIZING);
  const limit = perAddressLimit({ clock }, { name: 'sizings', perMinute });

  router.get('/signals', async (req, res, next) => {
    const { bankroll } = hasQuery(req) ? parseInput(signalsQuerySchema, req.query) : {};
    if (bankroll === undefined) {
      sendCachedAnswer(req, res, reads.signals());
      return;
    }
    if (await isWithin(limit, req, res, next))
      sendCachedAnswer(req, res, await reads.signalsFor(parseDollars(bankroll)));
  });

  router.get<{ station: string }>('/forecast/:station', (req, res) => {
    if (hasQuery(req)) parseInput(noQuerySchema, req.query);
    sendCachedAnswer(req, res, reads.forecast(readForecastStation(req.params.station)));
  });

  router.get('/stations', (req, res) => {
    if (hasQuery(req)) parseInput(noQuerySchema, req.query);
    sendCachedAnswer(req, res, { answer: stationList(), end: '}' });
  });
}

/** False where the limit has answered, or passed an error on. */
const isWithin = (limit: RequestHandler, req: Request, res: Response, next: NextFunction): Promise<boolean> =>
  new Promise((resolve) => {
    res.once('close', () => resolve(false));
    void limit(req, res, (refused?: unknown) => {
      if (refused) next(refused);
      resolve(!refused);
    });
  });

const hasQuery = (req: Request<object>): boolean => req.url.includes('?');

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

/** The station whose forecast is asked for: an area's is that of its city's station. */
function readForecastStation(given: string): string {
  const area = indexAreas.find(({ id }) => id === given.toUpperCase());
  const ofCity = area && stations.find(({ city }) => city === area.city);
  return ofCity?.id ?? readStationId(given);
}

const noSuchStation = () => new AppError('unknown_station', 'There is no such station.');
