import { excerpt, type RouteDescription } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import {
  apiKeyProblemExamples,
  apiKeyProblems,
  problemExample,
  serviceProblemExamples,
  serviceProblems,
} from '../../core/reference/problem-examples.js';
import { portfolioAnswerSchema, portfolioQuerySchema } from './portfolio-schema.js';

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
  positions: [],
  isCut: false,
  events: [],
  openOrders: [],
  openOrderCount: 0,
};

export const portfolioDescriptions: RouteDescription[] = [
  {
    method: 'get',
    path: '/portfolio',
    operationId: 'getPortfolio',
    tag: 'Trading',
    summary: 'Positions, profit and loss',
    description: `
What the Organization of the key has: cash, open positions, and profit and loss. The first look opens the paper account with its play money (\`PAPER_CASH\` of the service's configuration); a live
account is as booked from the venue.

**Value.** \`liquidationValue\` is what the positions could be turned into at this moment: each is sold into the whole depth of the bids of its side, after the taker's fee with its roundings. Contracts that
nobody bids for (\`unsellableContracts\`) count as nothing. It is not the middle between bid and ask, at which nobody trades. What the Organization's own paper orders have just taken from the book is not deducted: it
returns with the venue's next book. Where a market has ended, \`valuation\` says what the value rests on.

**Profit and loss** is without fees; \`fees\` stand apart. \`deposits + realisedPnl + unrealisedPnl − fees = equity\`, to the millionth.

**Events.** Exactly one bracket of a day wins, and every threshold of an hour that is passed, so the positions of an event are netted: \`worstCase\` is what they make in the worst of its outcomes. A void market, which gives back what was paid, is not among them.

A test key reads paper portfolios only.

Money is as of this request. The marks are as of \`asOf\`; without any market data they are \`null\`, \`sources\` says why, and the rest is answered all the same.
`.trim(),
    security: 'apiKey',
    scope,
    isLimited: true,
    query: portfolioQuerySchema,
    responses: {
      200: { description: 'The portfolio.', content: { 'application/json': portfolioAnswerSchema } },
    },
    errors: ['invalid_request', ...apiKeyProblems(scope), 'live_trading_disabled', ...serviceProblems],
    examples: [
      {
        name: 'newAccount',
        summary: 'Nothing was traded yet, and the market data are on their way',
        circumstance: 'no_market_data',
        request: { credential: 'traderKey' },
        response: {
          status: 200,
          body: {
            portfolio: { mode: 'paper', ...empty },
            asOf: null,
            ageSeconds: null,
            stale: true,
            sources: [],
          },
        },
      },
      {
        name: 'fresh',
        summary: 'The same a moment later: what there is to know about the marks',
        request: { credential: 'traderKey' },
        response: {
          status: 200,
          body: excerpt({ asOf: exampleWorld.now, ageSeconds: 0, stale: false }),
        },
      },
      problemExample('invalid_request', {
        summary: 'A mode that does not exist',
        detail: '/mode must be paper or live',
        errors: [{ pointer: '/mode', code: 'invalid_request', detail: 'must be paper or live' }],
        request: { credential: 'traderKey', query: { mode: 'test' } },
      }),
      problemExample('live_trading_disabled', {
        summary: 'Live trading, with a test key',
        detail: 'A test key reads paper trading only. Live needs a live key.',
        request: { credential: 'testKey', query: { mode: 'live' } },
      }),
      ...apiKeyProblemExamples({}, scope),
      ...serviceProblemExamples({ credential: 'traderKey' }),
    ],
  },
];
