import { authenticateCall, type KeyUse } from '../../accounts/api-keys/key-use.js';
import { readHashedSecret, preferKeyError, type KeyReader } from '../../accounts/api-keys/bearer-key.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import type { Context } from '../../core/http/context.js';
import { horizons } from './queries.js';
import { readExecution, toExecutionJson, toPeriod } from './report.js';
import { executionQuerySchema, executionSchema, MOST_DAYS } from './schema.js';

export interface ExecutionRouteDeps extends Pick<Context, 'db' | 'clock' | 'config'> {
  keys: KeyReader;
  keyUse: KeyUse;
}

const scope = 'trading:read';
const request = { query: { from: '2026-01-25', to: '2026-01-31' } };

const noPrice = { fills: 0, all: null, missed: null };
const noFills = {
  fills: 0,
  contracts: 0,
  fees: '0.0000',
  judged: 0,
  missed: 0,
  missedContracts: 0,
  after: horizons.map((seconds) => ({ seconds, fills: 0, move: null })),
  afterMinute: noPrice,
  settled: noPrice,
};
const period = { from: '2026-01-25T00:00:00.000Z', until: '2026-02-01T00:00:00.000Z' };

export const executionRoutes = [
  defineRoute({
    method: 'get',
    path: '/scores/execution',
    operationId: 'getExecution',
    tag: 'Trading',
    summary: 'How paper fills compare with the market and with live ones',
    description: `
How realistic the fills of the key's Organization are, over days in UTC.

**After a fill.** One minute after each fill, the venue's prints and books since then are examined. \`after\` has the move of the price after ${horizons.join(', ')} seconds. \`missed\` counts fills that would not have happened:
nobody else traded at their price or better within a minute, and the next observed book had nothing left there. Neither is known for every fill: books that are not streamed are read every half minute, and prints are few.
Resting orders are filled by prints, so they never count as missed. Live fills did happen, so the share of them that the rule calls missed shows how strict it is.

**Beside live orders.** For each live order, the fill that paper trading would have made on the book known when it was sent is recorded too: \`shadow\` compares both and their results.

**In the queue.** While a live order rests, the venue's number of contracts ahead of it is read once a minute and after each trade at its price. \`queue\` compares it with the number that the paper queue would have, and has the correction of paper
orders that is learned from the difference.

Profit and loss assume that each fill was held, for a minute or to the end of its market: the value of the fills themselves, whatever was traded afterwards. At most ${MOST_DAYS} days per request; a test key reads paper only.
`.trim(),
    credential: 'apiKey',
    scope,
    limit: 'trading',
    query: executionQuerySchema,
    responses: { 200: json('The comparison.', executionSchema) },
    examples: [
      {
        name: 'nothing',
        summary: 'Nothing was traded in these days',
        request,
        answer: {
          ...period,
          paperLatencyMs: 250,
          paper: noFills,
          live: noFills,
          shadow: {
            count: 0,
            live: { contracts: 0, fees: '0.0000' },
            paper: { contracts: 0, fees: '0.0000' },
            afterMinute: { orders: 0, live: null, paper: null },
            settled: { orders: 0, live: null, paper: null },
            roundTripMs: null,
            orders: [],
          },
          queue: {
            orders: 0,
            places: 0,
            medianError: null,
            p90Error: null,
            correction: { orders: 0, factor: 1 },
          },
        },
      },
      {
        name: 'testKey',
        summary: 'A test key',
        request: { ...request, credential: 'testKey' },
        answer: { ...period, paperLatencyMs: 250, paper: noFills, live: null, shadow: null, queue: null },
      },
      problemExample('invalid_request', {
        summary: 'More days than are added up at once',
        at: '/from',
        detail: `must be within ${MOST_DAYS} days of the last day`,
        request: { query: { from: '2025-01-01', to: '2026-01-31' } },
      }),
    ],
    handler: (deps: ExecutionRouteDeps) => async (req, res) => {
      const hashedSecret = readHashedSecret(req);
      const authenticate = () => authenticateCall(deps, hashedSecret, scope);
      const { days, limit } = await preferKeyError(authenticate, () => {
        const query = parseInput(executionQuerySchema, req.query);
        const most = query.limit === undefined ? undefined : Number(query.limit);
        return { days: toPeriod(query, deps.clock.now()), limit: most };
      });
      const { orgId, livemode } = await authenticate();
      const report = await readExecution(
        deps.db.orm,
        { orgId, ...days },
        {
          withLive: livemode,
          limit,
          now: new Date(deps.clock.now()),
        },
      );
      res.setHeader('Cache-Control', 'no-store');
      sendJson(res, 200, JSON.stringify(toExecutionJson(report, deps.config.trading.paperLatencyMs)));
    },
  }),
];
