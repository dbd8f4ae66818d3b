import type { Request, Router } from 'express';
import type { Context } from '../../context.js';
import { AppError } from '../../errors.js';
import { perAddressLimit } from '../../http/address-limit.js';
import { createCachedAnswer, sendCachedAnswer } from '../../http/cached-answer.js';
import { parseInput } from '../../http/validate.js';
import { parseDollars } from '../money.js';
import { findStation, stations } from '../settlement/stations.js';
import type { SnapshotStore } from '../snapshot.js';
import { marketsQuerySchema, noQuerySchema, signalsQuerySchema } from './schema.js';
import { createSnapshotReads } from './snapshot-reads.js';
import { toStationJson } from './station-json.js';

/** Sizes for another bankroll are solved for whoever asks: that costs as much as a hundred other reads. */
const READS_PER_SIZING = 10;

/** The reads that everybody may make. They stand behind `readLayer`. */
export function addReadRoutes(
  router: Router,
  { clock, config }: Pick<Context, 'clock' | 'config'>,
  { snapshots }: { snapshots: SnapshotStore },
): void {
  const reads = createSnapshotReads({ store: snapshots, clock });
  const stationList = createCachedAnswer(`{"stations":${JSON.stringify(stations.map(toStationJson))}`);

  router.get('/markets', (req, res) => {
    const { station, city, ...filter } = hasQuery(req) ? parseInput(marketsQuerySchema, req.query) : {};
    const stationId = station === undefined ? undefined : readStationId(station);
    sendCachedAnswer(req, res, reads.markets({ stationId, city: city?.toLowerCase(), ...filter }));
  });

  const perMinute = Math.ceil(config.limits.readsPerMinute / READS_PER_SIZING);
  const limit = perAddressLimit({ clock }, { name: 'sizings', perMinute });

  router.get('/signals', (req, res, next) => {
    const { bankroll } = hasQuery(req) ? parseInput(signalsQuerySchema, req.query) : {};
    if (bankroll === undefined) {
      sendCachedAnswer(req, res, reads.signals(undefined));
      return;
    }
    limit(req, res, (refused?: unknown) => {
      if (refused) next(refused);
      else sendCachedAnswer(req, res, reads.signals(parseDollars(bankroll)));
    });
  });

  router.get<{ station: string }>('/forecast/:station', (req, res) => {
    if (hasQuery(req)) parseInput(noQuerySchema, req.query);
    sendCachedAnswer(req, res, reads.forecast(readStationId(req.params.station)));
  });

  router.get('/stations', (req, res) => {
    if (hasQuery(req)) parseInput(noQuerySchema, req.query);
    sendCachedAnswer(req, res, { answer: stationList, end: '}' });
  });
}

const hasQuery = (req: Request<object>): boolean => req.url.includes('?');

/**
 * The id of a station, as it is written anywhere.
 * @throws AppError unknown_station
 */
export function readStationId(given: string): string {
  const station = findStation(given.toUpperCase());
  if (!station) throw new AppError('unknown_station', 'There is no such station.');
  return station.id;
}
