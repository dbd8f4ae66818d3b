import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Context } from '../../core/http/context.js';
import { perAddressLimit } from '../../core/http/rate-limit.js';
import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { conditional, defineRoute } from '../../core/reference/define-route.js';
import { parseDollars } from '../market/money.js';
import { hasQuery, publicRead } from './public-read.js';
import { marketListSchema, marketsQuerySchema } from './schema.js';
import { signalListSchema, signalsQuerySchema } from './signal-schema.js';
import type { SnapshotReads } from './snapshot-reads.js';
import { readStationId } from '../market/stations.js';

/** Sizing for a custom bankroll costs far more than a read, whose answer all callers share. */
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

const markets = defineRoute({
  ...publicRead,
  at: 'GET /markets',
  operationId: 'listMarkets',
  query: marketsQuerySchema,
  ...conditional('The markets.', marketListSchema),
  errors: ['unavailable'],
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
  at: 'GET /signals',
  operationId: 'listSignals',
  query: signalsQuerySchema,
  ...conditional('The signals.', signalListSchema),
  errors: ['unavailable'],
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

/** If false, the limiter has responded or passed on an error. */
const isWithin = (limit: RequestHandler, req: Request, res: Response, next: NextFunction): Promise<boolean> =>
  new Promise((resolve) => {
    res.once('close', () => resolve(false));
    void limit(req, res, (refused?: unknown) => {
      if (refused) next(refused);
      resolve(!refused);
    });
  });
