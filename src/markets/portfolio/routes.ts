import type { Request } from 'express';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { readHashedSecret, preferKeyError } from '../../accounts/api-keys/bearer-key.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { requireLiveKey } from '../orders/trade.js';
import type { LiveTrading } from '../live/live.js';
import type { TradeMode } from '../ledger/orders-table.js';
import { toPortfolioAnswer } from './portfolio-json.js';
import { portfolioAnswerSchema, portfolioQuerySchema } from './portfolio-schema.js';
import { type PortfolioDeps, readPortfolio } from './portfolio.js';

export interface PortfolioRouteDeps extends PortfolioDeps, CallDeps {
  live: Pick<LiveTrading, 'reportOf'> | undefined;
}

const scope = 'trading:read';

export const portfolioRoutes = [
  defineRoute({
    at: 'GET /portfolio',
    operationId: 'getPortfolio',
    tag: 'Trading',
    credential: 'apiKey',
    scope,
    limit: 'trading',
    query: portfolioQuerySchema,
    responses: { 200: json('The portfolio.', portfolioAnswerSchema) },
    handler: (deps: PortfolioRouteDeps) => async (req, res) => {
      const hashedSecret = readHashedSecret(req);
      const authenticate = () => authenticateCall(deps, hashedSecret, scope);
      const mode = await preferKeyError(authenticate, () => readMode(req));
      const principal = await authenticate();
      requireLiveKey(principal, mode);
      const { orgId } = principal;
      const portfolio = await readPortfolio(deps, orgId, mode);
      // Each order changes the portfolio.
      res.setHeader('Cache-Control', 'no-store');
      const answer = toPortfolioAnswer(
        portfolio,
        deps.live?.reportOf(orgId),
        deps.snapshots,
        deps.clock.now(),
      );
      sendJson(res, 200, JSON.stringify(answer));
    },
  }),
];

const readMode = ({ query }: Request): TradeMode => parseInput(portfolioQuerySchema, query).mode ?? 'paper';
