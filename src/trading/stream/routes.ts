import type { Router } from 'express';
import { addressOf } from '../../core/http/address-limit.js';
import { parseInput } from '../../core/http/validate.js';
import { streamQuerySchema } from '../reads/schema.js';
import { readAnyPlaceId } from '../market/read-place.js';
import { setStreamHeaders, type MarketStream } from './stream.js';

/** `/stream`: server-sent events. It stands behind `readLayer`. */
export function addStreamRoute(router: Router, { stream }: { stream: MarketStream }): void {
  router.get('/stream', (req, res) => {
    const { station } = parseInput(streamQuerySchema, req.query);
    const stationId = station === undefined ? undefined : readAnyPlaceId(station);
    if (req.method === 'HEAD') {
      setStreamHeaders(res);
      res.end();
      return;
    }
    const lastEventId = req.headers['last-event-id']?.toString();
    stream.open(res, { address: addressOf(req), stationId, lastEventId });
  });
}
