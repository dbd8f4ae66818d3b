import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Context } from '../../core/http/context.js';
import { perAddressLimit } from '../../core/http/rate-limit.js';
import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { beginning, conditional, defineRoute, excerpt } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample } from '../../core/reference/problem-examples.js';
import { parseDollars } from '../market/money.js';
import { freshness, hasQuery, notLoadedYet, notModified, publicRead, unknownStation } from './public-read.js';
import { marketListSchema, marketsQuerySchema } from './schema.js';
import { signalListSchema, signalsQuerySchema } from './signal-schema.js';
import type { SnapshotReads } from './snapshot-reads.js';
import { readStationId } from '../market/stations.js';

/**
 * The rate limit for reads is divided by this to get the limit for sizings. Sizing for a custom bankroll costs far more
 * than a read, whose answer all callers share.
 */
const READS_PER_SIZING = 10;

export const limitSizings = ({ clock, config }: Pick<Context, 'clock' | 'config'>): RequestHandler =>
  perAddressLimit(
    { clock },
    {
      name: 'sizings',
      perMinute: Math.ceil(config.limits.readsPerMinute / READS_PER_SIZING),
      calls: 'requests for signals of a bankroll',
    },
  );

interface ReadDeps {
  reads: SnapshotReads;
  sizingLimit: RequestHandler;
}

const { today } = exampleWorld.markets;

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
      'If the maximum temperature recorded at New York City (CLINYC) for Jan 31, 2026, is between 47-48° fahrenheit according to The Weather Company, then the market resolves to Yes.',
  },
  status: 'active',
  untradable: null,
  yesBid: '0.3400',
  yesAsk: '0.3600',
  noBid: '0.6400',
  noAsk: '0.6600',
  yesBidSize: 4,
  yesAskSize: 9,
  lastPrice: '0.3400',
  volume: 728,
  volume24h: 728,
  openInterest: 436,
  openTime: '2026-01-30T14:00:00.000Z',
  closeTime: '2026-02-01T05:00:00.000Z',
  tickSize: '0.0100',
  url: '/dashboard/markets?station=KNYC&date=2026-01-31',
  bookState: 'whole',
  bookAsOf: null,
};

const markets = defineRoute({
  ...publicRead,
  path: '/markets',
  operationId: 'listMarkets',
  summary: 'List markets with their prices',
  description: `
Every weather market that is not yet \`finalized\`, with its prices, from the current snapshot. Use \`status\` for finalized markets. All are returned at
once, or in pages with \`limit\`. The subject of a market is taken from its rules alone. A market whose subject is uncertain, or not forecast here (rain),
has \`station\` and \`bracket\` \`null\` and the reason in \`problem\`, and settles by the venue's result.
Prices are the best levels of the book; \`null\` without bids or asks.
`.trim(),
  query: marketsQuerySchema,
  ...conditional('The markets.', marketListSchema),
  errors: ['unavailable'],
  examples: [
    {
      name: 'markets',
      summary: 'Tradable markets of New York (two are shown)',
      request: { query: { station: 'KNYC', status: 'active' } },
      answer: { markets: beginning([excerpt(today.lowest), market]), ...freshness },
    },
    {
      name: 'none',
      summary: 'None of them is disputed',
      request: { query: { status: 'disputed' } },
      answer: { markets: [], ...freshness },
    },
    notModified(),
    invalidExample('An unknown status', { query: { status: 'open' } }),
    unknownStation({ query: { station: 'KJFK' } }),
    notLoadedYet({}),
  ],
  handler: (deps: Pick<ReadDeps, 'reads'>) => (req, res) => {
    const { station, city, ...filter } = hasQuery(req) ? parseInput(marketsQuerySchema, req.query) : {};
    const stationId = station === undefined ? undefined : readStationId(station);
    return sendCachedAnswer(
      req,
      res,
      deps.reads.markets({ stationId, city: city?.toLowerCase(), ...filter }),
    );
  },
});

const signals = defineRoute({
  ...publicRead,
  path: '/signals',
  operationId: 'listSignals',
  summary: 'List trading signals',
  description: `
Purchases that the forecast supports, at their real cost: the asks in the book, level by level, plus the venue's fee.

Exactly one bracket of an event wins, so the brackets are sized together. Kelly's rule finds the purchases of YES and NO over all brackets that make the bankroll grow fastest. A quarter of
that is used, within caps per market, event and climate date. A purchase can therefore be a hedge: it costs more than it is worth alone, and pays where the others lose. Each signal has its
break-even probability, its share of the bankroll, and its reasons.

A signal must pass the \`gate\` of its station and lead, which opens only with enough evidence that calibrated forecasts beat the available prices, including spread and fees. For each event, \`events\` has
the state of the gate, the maximum joint loss of its signals, and the reason why each other side has no signal. If \`isWithheld\` is true, only the closed gate withheld the signal.

A signal is neither advice nor an order: \`POST /trade\` checks everything again.
`.trim(),
  query: signalsQuerySchema,
  ...conditional('The signals.', signalListSchema),
  errors: ['unavailable'],
  examples: [
    {
      name: 'signals',
      summary: 'For a bankroll of 2,500 dollars',
      request: { query: { bankroll: '2500.00' } },
      answer: excerpt({
        bankroll: '2500.0000',
        kellyShare: 0.25,
        marketCap: 0.05,
        eventCap: 0.1,
        dayCap: 0.2,
        sizing: 'joint_event',
        ...freshness,
      }),
    },
    {
      name: 'events',
      summary: 'Where the events are now (one is shown, in part)',
      request: {},
      answer: excerpt({
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
    notModified(),
    notLoadedYet({}),
    invalidExample('A bankroll of 0', { query: { bankroll: '0' } }),
  ],
  handler:
    ({ reads, sizingLimit }: ReadDeps) =>
    async (req, res, next) => {
      const { bankroll } = hasQuery(req) ? parseInput(signalsQuerySchema, req.query) : {};
      if (bankroll === undefined) {
        await sendCachedAnswer(req, res, reads.signals());
        return;
      }
      if (await isWithin(sizingLimit, req, res, next))
        await sendCachedAnswer(req, res, await reads.signalsFor(parseDollars(bankroll)));
    },
});

export const marketRoutes = [markets, signals];

/** Resolves to true if the request is within the limit; to false if the limiter has responded or passed on an error. */
const isWithin = (limit: RequestHandler, req: Request, res: Response, next: NextFunction): Promise<boolean> =>
  new Promise((resolve) => {
    res.once('close', () => resolve(false));
    void limit(req, res, (refused?: unknown) => {
      if (refused) next(refused);
      resolve(!refused);
    });
  });
