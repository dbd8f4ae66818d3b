import type { Request } from 'express';
import { authenticateCall, type KeyUse } from '../../accounts/api-keys/key-use.js';
import { readHashedSecret, preferKeyError, type KeyReader } from '../../accounts/api-keys/bearer-key.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, excerpt, json } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { requireLiveKey } from '../orders/trade.js';
import type { LiveTrading } from '../live/live.js';
import type { TradeMode } from '../ledger/orders-table.js';
import { toPortfolioAnswer } from './portfolio-json.js';
import { portfolioAnswerSchema, portfolioQuerySchema } from './portfolio-schema.js';
import { type PortfolioDeps, readPortfolio } from './portfolio.js';

export interface PortfolioRouteDeps extends PortfolioDeps {
  keys: KeyReader;
  keyUse: KeyUse;
  live: Pick<LiveTrading, 'reportOf'> | undefined;
}

const scope = 'trading:read';

const empty = {
  cash: '1000.0000',
  reserved: '0.0000',
  available: '1000.0000',
  equity: '1000.0000',
  liquidationValue: '0.0000',
  cost: '0.0000',
  realisedPnl: '0.0000',
  unrealisedPnl: '0.0000',
  fees: '0.0000',
  deposits: '1000.0000',
  transfers: '0.0000',
  positions: [],
  isCut: false,
  events: [],
  openOrders: [],
  openOrderCount: 0,
};

export const portfolioRoutes = [
  defineRoute({
    method: 'get',
    path: '/portfolio',
    operationId: 'getPortfolio',
    tag: 'Trading',
    summary: 'Positions, profit and loss',
    description: `
The Organization's cash, open positions, and profit and loss. The first request opens the paper account with its play money (\`PAPER_CASH\` of the service's configuration); a live
account is as booked from the venue.

**Value.** \`liquidationValue\` is the proceeds of selling all positions now into the full depth of the bids, after the taker's fee and rounding. Contracts without
bids (\`unsellableContracts\`) count as 0. It is not the mid price, at which no trade happens. Contracts that the Organization's own paper orders just took from the book are not deducted; they
return with the venue's next book. For a market that has ended, \`valuation\` names the basis of the value.

**Profit and loss** excludes fees; \`fees\` are separate. \`deposits + transfers + realisedPnl + unrealisedPnl − fees = equity\`, to the millionth.

**Events.** Exactly one bracket of a day wins, and for an hour every threshold passed, so the positions of an event are netted: \`worstCase\` is their profit or loss in the worst outcome. A void market, which refunds the cost, is not included.

A test key reads paper portfolios only.

Cash is as of this request, and marks are as of \`asOf\`. Without market data the marks are \`null\`, \`sources\` shows why, and the other fields are still returned.
`.trim(),
    credential: 'apiKey',
    scope,
    limit: 'trading',
    query: portfolioQuerySchema,
    responses: {
      200: json('The portfolio.', portfolioAnswerSchema),
    },
    examples: [
      {
        name: 'newAccount',
        summary: 'No trades yet, and no market data yet',
        circumstance: 'no_market_data',
        request: {},
        answer: {
          portfolio: { mode: 'paper', ...empty },
          asOf: null,
          ageSeconds: null,
          stale: true,
          sources: [],
        },
      },
      {
        name: 'fresh',
        summary: 'The same a moment later: what there is to know about the marks',
        request: {},
        answer: excerpt({ asOf: exampleWorld.now, ageSeconds: 0, stale: false }),
      },
      invalidExample('A mode that does not exist', { query: { mode: 'test' } }),
      problemExample('live_trading_disabled', {
        summary: 'Live trading, with a test key',
        detail: 'A test key can read only paper trading. Use a live key for live trading.',
        request: { credential: 'testKey', query: { mode: 'live' } },
      }),
    ],
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
