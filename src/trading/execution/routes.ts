import { authenticateCall, type KeyUse } from '../../api-keys/key-use.js';
import { readHashedSecret, preferKeyError, type KeyReader } from '../../api-keys/bearer-key.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import type { TradingContext } from '../config.js';
import { horizons } from './queries.js';
import { readExecution, toExecutionJson, toPeriod } from './report.js';
import { executionQuerySchema, executionSchema, MOST_DAYS } from './schema.js';

export interface ExecutionRouteDeps extends Pick<TradingContext, 'db' | 'clock' | 'config'> {
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
How far fills can be believed, of the Organization of the key, over days in UTC.

**After a fill.** A minute after each fill the venue's prints and books since are looked at. \`after\` says how far the price had moved after ${horizons.join(', ')} seconds. \`missed\` counts fills that would not have come about:
nobody else traded at their price or better within a minute, and the next book that was seen had nothing left there. Neither is known of every fill: books are read every half minute where they are not streamed, and prints are few.
Resting orders are filled by prints, so they are not judged as missed. Live fills did come about: how many of them are called missed says how harsh the rule is.

**Beside live orders.** With each live order it is recorded what paper would have filled of it on the book that was known when it was sent: \`shadow\` has both, and what each came to.

Profit and loss are as if each fill had been held, for a minute or to the end of its market: what fills are worth by themselves, whatever was bought and sold after them. At most ${MOST_DAYS} days at once; a test key reads paper only.
`.trim(),
    credential: 'apiKey',
    scope,
    limit: 'trading',
    query: executionQuerySchema,
    responses: { 200: json('The comparison.', executionSchema) },
    errors: ['invalid_request'],
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
        },
      },
      {
        name: 'testKey',
        summary: 'A test key',
        request: { ...request, credential: 'testKey' },
        answer: { ...period, paperLatencyMs: 250, paper: noFills, live: null, shadow: null },
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
      const report = await readExecution(deps.db.orm, { orgId, ...days }, { withLive: livemode, limit });
      res.setHeader('Cache-Control', 'no-store');
      sendJson(res, 200, JSON.stringify(toExecutionJson(report, deps.config.trading.paperLatencyMs)));
    },
  }),
];
