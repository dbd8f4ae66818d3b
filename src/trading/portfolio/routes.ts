import type { Request, RequestHandler, Router } from 'express';
import type { KeyUse } from '../../api-keys/key-use.js';
import { readHashedSecret } from '../../api-keys/bearer-key.js';
import { keyFirst } from '../../api-keys/key-first.js';
import type { KeyReader } from '../../api-keys/key-reader.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import type { LiveTrading } from '../live/live.js';
import { requireLiveKey } from '../orders/live-mode.js';
import type { TradeMode } from '../ledger/orders-table.js';
import { toPortfolioAnswer } from './portfolio-json.js';
import { portfolioQuerySchema } from './portfolio-schema.js';
import { readPortfolio, type PortfolioDeps } from './portfolio.js';

export interface PortfolioRouteDeps extends PortfolioDeps {
  keys: KeyReader;
  keyUse: KeyUse;
  /** Undefined where nobody trades live. */
  live: Pick<LiveTrading, 'reportOf'> | undefined;
  /** Stands before the route: only keys that exist get through, and only so many times a minute. */
  callLimit: RequestHandler;
}

/** `GET /portfolio`: what the Organization of the key has, valued at what it could be turned into now. */
export function addPortfolioRoutes(router: Router, deps: PortfolioRouteDeps): void {
  const { keys, keyUse, live, snapshots, clock, callLimit } = deps;

  router.get('/portfolio', callLimit, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const authenticate = async () => {
      const principal = await keys.authenticate(hashedSecret, 'trading:read');
      keyUse.touch(hashedSecret, 'trading:read');
      return principal;
    };
    const mode = await keyFirst(authenticate, () => readMode(req));
    const principal = await authenticate();
    requireLiveKey(principal, mode);
    const { orgId } = principal;
    const portfolio = await readPortfolio(deps, orgId, mode);
    // What is booked changes with each order.
    res.setHeader('Cache-Control', 'no-store');
    const answer = toPortfolioAnswer(portfolio, live?.reportOf(orgId), snapshots, clock.now());
    sendJson(res, 200, JSON.stringify(answer));
  });
}

const readMode = ({ query }: Request): TradeMode => parseInput(portfolioQuerySchema, query).mode ?? 'paper';
