import { z } from 'zod';
import { findStation, indexAreas } from '../market/stations.js';
import { toAreaJson, toStationJson } from './station-json.js';
import { beginning, excerpt, generated, type RouteDescription } from '../../core/reference/description.js';
import type { ExampleRequest } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import {
  forecastSchema,
  marketListSchema,
  marketsQuerySchema,
  signalListSchema,
  signalsQuerySchema,
  stationListSchema,
  streamQuerySchema,
} from './schema.js';

const common = {
  method: 'get',
  tag: 'Market data',
  security: 'none',
  isLimited: true,
} as const;

const conditional = z.object({
  'If-None-Match': z.string().optional().meta({ description: 'The `ETag` of the copy at hand.' }),
});

const source = (part: string) => ({
  part,
  name: 'simulated',
  state: 'ok',
  fetchedAt: exampleWorld.now,
  failingSince: null,
  notes: [],
});

const freshness = {
  asOf: exampleWorld.now,
  sources: [source('markets'), source('forecasts')],
  ageSeconds: 0,
  stale: false,
};

const { yesterday, today } = exampleWorld.markets;

const market = {
  ...today.traded,
  eventTicker: today.eventTicker,
  seriesTicker: 'KXHIGHNY',
  kind: 'daily_maximum',
  station: 'KNYC',
  city: 'New York',
  measure: 'daily_maximum_temperature',
  date: '2026-01-31',
  hour: null,
  problem: null,
  settlement: {
    source: 'The Weather Company',
    station: 'KNYC',
    rulesText:
      'If the maximum temperature recorded at New York City (CLINYC) for Jan 31, 2026, is between 49-50° fahrenheit according to The Weather Company, then the market resolves to Yes.',
  },
  status: 'active',
  yesBid: '0.4200',
  yesAsk: '0.4500',
  noBid: '0.5500',
  noAsk: '0.5800',
  yesBidSize: 20,
  yesAskSize: 32,
  lastPrice: '0.4400',
  volume: 301,
  volume24h: 301,
  openInterest: 180,
  openTime: '2026-01-30T14:00:00.000Z',
  closeTime: '2026-02-01T05:00:00.000Z',
  tickSize: '0.0100',
  url: '/dashboard/markets?station=KNYC&date=2026-01-31',
  bookState: 'whole',
  bookAsOf: null,
};

/** What every read answers to a call that comes too often or at the wrong time. */
const refusals = (request: Omit<ExampleRequest, 'credential'>) => {
  const sent: ExampleRequest = { credential: 'none', ...request };
  return [
    problemExample('rate_limited', {
      summary: 'More reads in a minute than the address may make',
      circumstance: 'limit_used_up',
      before: [sent],
      detail: generated('Your address may make 600 reads a minute. Try again in 42 s.'),
      request: sent,
    }),
    problemExample('unavailable', {
      summary: 'The service is about to end',
      circumstance: 'draining',
      detail: 'This instance is shutting down.',
      request: sent,
    }),
  ];
};

const nothingYet = (request: ExampleRequest) =>
  problemExample('market_data_unavailable', {
    summary: 'Nothing could be loaded yet',
    circumstance: 'no_market_data',
    detail: 'No market data could be loaded yet.',
    request,
  });

const notModified = (params?: Record<string, string>) => ({
  name: 'notModified',
  summary: 'Nothing has changed',
  request: { credential: 'none' as const, ...(params ? { params } : {}), headers: { 'if-none-match': '*' } },
  response: { status: 304 },
});

const unchanged = { description: 'The copy at hand is still right.', headers: ['ETag' as const] };

const markets: RouteDescription = {
  ...common,
  path: '/markets',
  operationId: 'listMarkets',
  summary: 'List markets with their prices',
  description: `
Every weather market that is not yet \`finalized\`, with its prices, from the present snapshot. \`status\` reaches the finalized ones, too. All come at
once, or page by page with \`limit\`. What a market settles on is taken from its rules alone; one whose subject is not certain, or not forecast here (rain),
has \`station\` and \`bracket\` \`null\`, says why in \`problem\`, and settles by the venue's word.
Prices are those of the book's best levels; \`null\` where nobody bids or asks.
`.trim(),
  query: marketsQuerySchema,
  headers: conditional,
  responses: {
    200: {
      description: 'The markets.',
      content: { 'application/json': marketListSchema },
      headers: ['ETag'],
    },
    304: unchanged,
  },
  errors: ['invalid_request', 'unknown_station', 'rate_limited', 'unavailable', 'market_data_unavailable'],
  examples: [
    {
      name: 'markets',
      summary: 'Those of New York that can be traded (two are shown)',
      request: { credential: 'none', query: { station: 'KNYC', status: 'active' } },
      response: {
        status: 200,
        body: {
          markets: beginning([excerpt(today.lowest), market]),
          ...freshness,
        },
      },
    },
    {
      name: 'none',
      summary: 'None of them is disputed',
      request: { credential: 'none', query: { status: 'disputed' } },
      response: { status: 200, body: { markets: [], ...freshness } },
    },
    notModified(),
    problemExample('invalid_request', {
      summary: 'A status that there is not',
      detail: generated('/status must be one of initialized, inactive, active, …'),
      errors: [
        {
          pointer: '/status',
          code: 'invalid_request',
          detail:
            'must be one of initialized, inactive, active, closed, determined, disputed, amended, finalized',
        },
      ],
      request: { credential: 'none', query: { status: 'open' } },
    }),
    problemExample('unknown_station', {
      summary: 'A station that nothing settles on',
      detail: 'There is no such station.',
      request: { credential: 'none', query: { station: 'KJFK' } },
    }),
    ...refusals({}),
    nothingYet({ credential: 'none' }),
  ],
};

const signals: RouteDescription = {
  ...common,
  path: '/signals',
  operationId: 'listSignals',
  summary: 'List trading signals',
  description: `
Purchases that the forecast speaks for, at what they would really cost: the asks that stand in the book, level by level, and the venue's fee.

Of an event's brackets exactly one wins, so they are sized together: by Kelly's rule, for the purchase of YES and NO over all brackets that makes the bankroll grow fastest; a quarter of
that is used, within caps per market, event and climate date. So a purchase may be a hedge: it costs more than it is worth by itself, and pays where the others lose. Each says from which
probability on it is worth its cost, how much of the bankroll it takes, and why.

A signal is let through by the \`gate\` of its station and lead: only where calibrated forecasts have scored better than the market's own prices, by more than chance explains. \`events\` says for each
event how its gate stands, what its signals can lose together, and for every side without a signal why; what \`isWithheld\` would have been one.

A signal is no advice and no order: \`POST /trade\` checks everything anew.
`.trim(),
  query: signalsQuerySchema,
  headers: conditional,
  responses: {
    200: {
      description: 'The signals.',
      content: { 'application/json': signalListSchema },
      headers: ['ETag'],
    },
    304: unchanged,
  },
  errors: ['invalid_request', 'rate_limited', 'unavailable', 'market_data_unavailable'],
  examples: [
    {
      name: 'signals',
      summary: 'For a bankroll of 2,500 dollars',
      request: { credential: 'none', query: { bankroll: '2500.00' } },
      response: {
        status: 200,
        body: excerpt({
          bankroll: '2500.0000',
          kellyShare: 0.25,
          marketCap: 0.05,
          eventCap: 0.1,
          dayCap: 0.2,
          sizing: 'joint_event',
          ...freshness,
        }),
      },
    },
    {
      name: 'events',
      summary: 'How the events stand (one is shown, in part)',
      request: { credential: 'none' },
      response: {
        status: 200,
        body: excerpt({
          events: beginning([
            excerpt({
              eventTicker: today.eventTicker,
              station: 'KNYC',
              city: 'New York',
              date: '2026-01-31',
              gate: excerpt({ leadHours: 12 }),
            }),
          ]),
        }),
      },
    },
    notModified(),
    problemExample('invalid_request', {
      summary: 'A bankroll of nothing',
      detail: '/bankroll must be an amount in dollars above 0, like 2500.00',
      errors: [
        {
          pointer: '/bankroll',
          code: 'invalid_request',
          detail: 'must be an amount in dollars above 0, like 2500.00',
        },
      ],
      request: { credential: 'none', query: { bankroll: '0' } },
    }),
    ...refusals({}),
    nothingYet({ credential: 'none' }),
  ],
};

const forecast: RouteDescription = {
  ...common,
  path: '/forecast/{station}',
  operationId: 'getForecast',
  summary: 'Read the forecast for a station',
  description: `
For each local climate day that has markets: the distribution of the day's maximum temperature, the probability of each bracket, what the station has
reported so far, and what the forecast was made from. \`asOf\`, \`ageSeconds\` and \`stale\` are those of the markets, as everywhere; forecasts have a slower pace of their own,
and \`forecastAgeSeconds\` is their age.

Forecasts are corrected by how earlier ones came out: each day says by which fit (\`method\`, \`fit\`), what the members themselves said (\`rawMeanF\`, \`rawStandardDeviationF\`), and,
where it was not the station's own fit, why not (\`fallback\`). A fit knows only what was known before it was made (\`knownThrough\`).
`.trim(),
  params: z.object({
    station: z.string().meta({ description: 'The id of the station, in upper or lower case.' }),
  }),
  headers: conditional,
  responses: {
    200: {
      description: 'The forecast.',
      content: { 'application/json': forecastSchema },
      headers: ['ETag'],
    },
    304: unchanged,
  },
  errors: ['invalid_request', 'unknown_station', 'rate_limited', 'unavailable', 'market_data_unavailable'],
  examples: [
    {
      name: 'forecast',
      summary: 'New York, in parts',
      request: { credential: 'none', params: { station: 'KNYC' } },
      response: {
        status: 200,
        body: excerpt({
          station: 'KNYC',
          city: 'New York',
          name: 'Central Park',
          unit: 'fahrenheit',
          source: 'simulated',
          days: beginning([
            excerpt({
              date: '2026-01-30',
              eventTicker: yesterday.eventTicker,
              brackets: beginning([excerpt(yesterday.lowest)]),
              method: 'raw_ensemble',
              isCalibrated: false,
              fallback: 'nothing has been learned yet; not corrected',
              fit: null,
              modelRunAt: generated('2026-01-31T06:00:00.000Z'),
            }),
          ]),
          ...freshness,
          forecastAgeSeconds: 0,
        }),
      },
    },
    notModified({ station: 'KNYC' }),
    problemExample('invalid_request', {
      summary: 'A parameter that the route does not know',
      detail: '/days is not a known field',
      errors: [{ pointer: '/days', code: 'invalid_request', detail: 'is not a known field' }],
      request: { credential: 'none', params: { station: 'KNYC' }, query: { days: '2' } },
    }),
    problemExample('unknown_station', {
      summary: 'A station that nothing settles on',
      detail: 'There is no such station.',
      request: { credential: 'none', params: { station: 'KJFK' } },
    }),
    ...refusals({ params: { station: 'KNYC' } }),
    nothingYet({ credential: 'none', params: { station: 'KNYC' } }),
  ],
};

const stations: RouteDescription = {
  ...common,
  path: '/stations',
  operationId: 'listStations',
  summary: 'List stations',
  description:
    'Where the markets settle: the station, the report that decides, the day that it is about, and how well that was checked on settled markets, before and since another company relays the report. The airport next door has another maximum on half of the days. Hours settle on the areas of the venue’s own index.',
  headers: conditional,
  responses: {
    200: {
      description: 'The stations.',
      content: { 'application/json': stationListSchema },
      headers: ['ETag'],
    },
    304: unchanged,
  },
  errors: ['invalid_request', 'rate_limited', 'unavailable'],
  examples: [
    {
      name: 'stations',
      summary: 'All of them (one is shown)',
      request: { credential: 'none' },
      response: {
        status: 200,
        body: {
          stations: beginning([toStationJson(findStation('KNYC')!)]),
          areas: beginning([toAreaJson(indexAreas[0]!, undefined)]),
        },
      },
    },
    notModified(),
    problemExample('invalid_request', {
      summary: 'A parameter that the route does not know',
      detail: '/city is not a known field',
      errors: [{ pointer: '/city', code: 'invalid_request', detail: 'is not a known field' }],
      request: { credential: 'none', query: { city: 'Boston' } },
    }),
    ...refusals({}),
  ],
};

const stream: RouteDescription = {
  ...common,
  path: '/stream',
  operationId: 'streamMarkets',
  summary: 'Follow the markets',
  description: `
Server-sent events (\`text/event-stream\`), for \`EventSource\`. The first event is \`snapshot\` with all markets; after it each refresh sends \`changes\` with those that it
changed, and the tickers in \`removed\` that are listed no longer. Where the venue's own stream keeps the order books, each change of them is told within 100 ms, many together. A refresh that changed nothing sends an empty one, so that \`asOf\` and \`sources\` are always the latest; the age is the time since \`asOf\`.

\`data\` is \`{ "asOf", "sources", "markets": [ … ], "removed"? }\`, and each market \`{ "ticker", "status", "yesBid", "yesAsk", "noBid", "noAsk", "yesBidSize", "yesAskSize", "lastPrice", "probability", "bookState" }\` as
in \`GET /markets\`, with the forecast's probability that YES pays (\`null\` without a forecast). Everything else about a market is there.

Every event has an \`id\`. Who comes back with it as \`Last-Event-ID\` (\`EventSource\` does so by itself) gets the \`changes\` since; if this instance does not know
it, a \`snapshot\`. Every 15 seconds a comment shows that the connection lives. A reader who leaves 1 MB unread is dropped. An address may hold 20 streams, an instance 2,000.
`.trim(),
  query: streamQuerySchema,
  headers: z.object({
    'Last-Event-ID': z.string().optional().meta({ description: 'The `id` of the last event that was seen.' }),
  }),
  responses: {
    200: { description: 'The events, without end.', content: { 'text/event-stream': null } },
  },
  errors: ['invalid_request', 'unknown_station', 'rate_limited', 'unavailable'],
  examples: [
    {
      name: 'events',
      summary: 'The first event, in part',
      request: { credential: 'none', query: { station: 'KNYC' } },
      response: { status: 200, body: `"markets":[{"ticker":"${yesterday.lowest.ticker}","status":"closed",` },
    },
    problemExample('invalid_request', {
      summary: 'A parameter that the route does not know',
      detail: '/city is not a known field',
      errors: [{ pointer: '/city', code: 'invalid_request', detail: 'is not a known field' }],
      request: { credential: 'none', query: { city: 'Boston' } },
    }),
    problemExample('unknown_station', {
      summary: 'A station that nothing settles on',
      detail: 'There is no such station.',
      request: { credential: 'none', query: { station: 'KJFK' } },
    }),
    ...refusals({}),
  ],
};

export const marketDataDescriptions: RouteDescription[] = [markets, signals, forecast, stations, stream];
