import { z } from 'zod';
import { addressOf } from '../../core/http/rate-limit.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { publicRead, unknownParameter, unknownStation } from './public-read.js';
import { streamQuerySchema } from './schema.js';
import { readAnyPlaceId } from '../market/stations.js';
import { type MarketStream, setStreamHeaders } from './stream.js';

const { yesterday } = exampleWorld.markets;

export const streamRoute = defineRoute({
  ...publicRead,
  path: '/stream',
  operationId: 'streamMarkets',
  summary: 'Follow the markets',
  description: `
Server-sent events (\`text/event-stream\`), for \`EventSource\`. The first event is \`snapshot\` with all markets; after it each refresh sends \`changes\` with the markets that
changed, and in \`removed\` the tickers that are no longer listed. Where the venue's own stream keeps the order books up to date, changes to them are sent within 100 ms, in batches. A refresh that changed nothing sends an empty one, so that \`asOf\` and \`sources\` are always the latest; the age is the time since \`asOf\`.

\`data\` is \`{ "asOf", "sources", "markets": [ … ], "removed"? }\`, and each market \`{ "ticker", "status", "yesBid", "yesAsk", "noBid", "noAsk", "yesBidSize", "yesAskSize", "lastPrice", "probability", "bookState" }\` as
in \`GET /markets\`, with the forecast's probability that YES pays (\`null\` without a forecast). Everything else about a market is there.

Every event has an \`id\`. A client that reconnects with it as \`Last-Event-ID\` (\`EventSource\` does so by itself) gets the \`changes\` since then, or a \`snapshot\` if this instance does not know
the id. Every 15 seconds a comment keeps the connection alive. A client that leaves 1 MB unread is disconnected. An address may open 20 streams, an instance 2,000.
`.trim(),
  query: streamQuerySchema,
  headers: z.object({
    'Last-Event-ID': z.string().optional().meta({ description: 'The `id` of the last received event.' }),
  }),
  responses: {
    200: { description: 'The events, without end.', content: { 'text/event-stream': null } },
  },
  errors: ['unavailable'],
  examples: [
    {
      name: 'events',
      summary: 'The first event, in part',
      request: { query: { station: 'KNYC' } },
      answer: `"markets":[{"ticker":"${yesterday.lowest.ticker}","status":"closed",`,
    },
    unknownParameter('city', { query: { city: 'Boston' } }),
    unknownStation({ query: { station: 'KJFK' } }),
  ],
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
