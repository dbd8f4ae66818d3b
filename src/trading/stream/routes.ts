import type { Router } from 'express';
import { addressOf } from '../../http/address-limit.js';
import { parseInput } from '../../http/validate.js';
import { readStationId } from '../reads/routes.js';
import { streamQuerySchema } from '../reads/schema.js';
import { setStreamHeaders, type MarketStream } from './stream.js';

/** `/stream`: server-sent events. It stands behind `readLayer`. */
export function addStreamRoute(router: Router, { stream }: { stream: MarketStream }): void {
  router.get('/stream', (req, res) => {
    const { station } = parseInput(streamQuerySchema, req.query);
    const stationId = station === undefined ? undefined : readStationId(station);
    if (req.method === 'HEAD') {
      setStreamHeaders(res);
      res.end();
      return;
    }
    const lastEventId = req.headers['last-event-id']?.toString();
    stream.open(res, { address: addressOf(req), stationId, lastEventId });
  });
}
