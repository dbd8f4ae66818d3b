import type { Router } from 'express';
import { AppError } from '../../core/errors.js';
import { addressOf } from '../../core/http/address-limit.js';
import { parseInput } from '../../core/http/validate.js';
import { streamQuerySchema } from '../reads/schema.js';
import { findPlace } from '../market/stations.js';
import { setStreamHeaders, type MarketStream } from './stream.js';

/** `/stream`: server-sent events. It stands behind `readLayer`. */
export function addStreamRoute(router: Router, { stream }: { stream: MarketStream }): void {
  router.get('/stream', (req, res) => {
    const { station } = parseInput(streamQuerySchema, req.query);
    const stationId = station === undefined ? undefined : readPlaceId(station);
    if (req.method === 'HEAD') {
      setStreamHeaders(res);
      res.end();
      return;
    }
    const lastEventId = req.headers['last-event-id']?.toString();
    stream.open(res, { address: addressOf(req), stationId, lastEventId });
  });
}

/**
 * The id of a station or of an area of the index, as it is written anywhere.
 * @throws AppError unknown_station
 */
function readPlaceId(given: string): string {
  const place = findPlace(given.toUpperCase());
  if (!place) throw new AppError('unknown_station', 'There is no such station.');
  return place.id;
}
