import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { readHashedSecret, preferKeyError } from '../../accounts/api-keys/bearer-key.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import type { Context } from '../../core/http/context.js';
import { readExecution, toExecutionJson, toPeriod } from './report.js';
import { executionQuerySchema, executionSchema } from './schema.js';

const scope = 'trading:read';

export const executionRoutes = [
  defineRoute({
    at: 'GET /scores/execution',
    operationId: 'getExecution',
    tag: 'Trading',
    credential: 'apiKey',
    scope,
    limit: 'trading',
    query: executionQuerySchema,
    responses: { 200: json('The comparison.', executionSchema) },
    handler: (deps: CallDeps & Pick<Context, 'db' | 'clock' | 'config'>) => async (req, res) => {
      const hashedSecret = readHashedSecret(req);
      const authenticate = () => authenticateCall(deps, hashedSecret, scope);
      const { days, limit } = await preferKeyError(authenticate, () => {
        const query = parseInput(executionQuerySchema, req.query);
        const most = query.limit === undefined ? undefined : Number(query.limit);
        return { days: toPeriod(query, deps.clock.now()), limit: most };
      });
      const { orgId, livemode } = await authenticate();
      const now = new Date(deps.clock.now());
      const report = await readExecution(deps.db.orm, { orgId, ...days }, { withLive: livemode, limit, now });
      res.setHeader('Cache-Control', 'no-store');
      sendJson(res, 200, JSON.stringify(toExecutionJson(report, deps.config.trading.paperLatencyMs)));
    },
  }),
];
