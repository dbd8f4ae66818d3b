import { z } from 'zod';
import { addressOf } from '../../core/http/rate-limit.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute } from '../../core/reference/define-route.js';
import { publicRead } from './public-read.js';
import { streamQuerySchema } from './schema.js';
import { readAnyPlaceId } from '../market/stations.js';
import { type MarketStream, setStreamHeaders } from './stream.js';

export const streamRoute = defineRoute({
  ...publicRead,
  at: 'GET /stream',
  operationId: 'streamMarkets',
  query: streamQuerySchema,
  headers: z.object({
    'Last-Event-ID': z.string().optional().meta({ description: 'The `id` of the last received event.' }),
  }),
  responses: {
    200: { description: 'The events, without end.', content: { 'text/event-stream': null } },
  },
  errors: ['unavailable'],
  handler: (deps: { stream: MarketStream }) => (req, res) => {
    const { station } = parseInput(streamQuerySchema, req.query);
    const stationId = station === undefined ? undefined : readAnyPlaceId(station);
    if (req.method === 'HEAD') {
      setStreamHeaders(res);
      res.end();
      return;
    }
    const lastEventId = req.headers['last-event-id']?.toString();
    deps.stream.open(res, { address: addressOf(req), stationId, lastEventId });
  },
});
