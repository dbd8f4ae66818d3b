import type { ReferencePart, ScopeExamples } from '../core/reference/described.js';
import { callsPerKey } from '../core/reference/part.js';
import { problemExample } from '../core/reference/problem-examples.js';
import { forecastRoutes } from './api/forecast-routes.js';
import { marketRoutes } from './api/market-routes.js';
import { streamRoute } from './api/stream-routes.js';
import { executionRoutes } from './execution/routes.js';
import { reconciliationRoutes } from './live/routes.js';
import { placeOrderRoute } from './orders/order-routes.js';
import { changeOrderRoutes, tradeRoutes } from './orders/trade-routes.js';
import { portfolioRoutes } from './portfolio/routes.js';
import { marketStatuses } from './errors.js';
import { errorGuide } from './reference/error-guide.js';
import { tradingControlRoutes } from './risk/operator/routes.js';
import { scoresRoutes } from './scores/routes.js';

const tags = {
  'Market data': `Markets, forecasts and signals: no credential is needed. Each address may make 600 reads a minute, of them 60 of \`/signals\` for a bankroll of its own, and pages of the origins in
\`CORS_ORIGINS\` may read from a browser. Every answer comes from one snapshot in memory that a refresh swaps whole every 30 seconds; no read waits for a venue. It says \`asOf\` when the markets were fetched, \`ageSeconds\`, whether they
are \`stale\` (older than 30 seconds), and the state of each of the \`sources\`. A source that fails keeps its last good part, so look at \`stale\` before you act.

An answer's \`ETag\` changes with the snapshot and when it goes stale. Answers are \`no-store\`, because their age would be wrong in a cache: keep a copy yourself and send \`If-None-Match\`; its age then
is the time since its \`asOf\`. Answers are compressed with Brotli or gzip for clients that accept it. Prices are decimal strings in dollars, probabilities numbers from 0 to 1, temperatures °F.`,
  Trading: `Weather markets and what the Organization of the key has in them. Amounts are decimal strings in dollars: read them with a decimal parser, never as floats. \`paper\` and \`live\` are two
accounts that never mix. Everything about markets is as of the last refresh, and says how old it is.`,
};

const circumstances = {
  no_market_data: 'no market data could be loaded yet',
  old_market_data: 'the last market data is 61 seconds old',
  small_account: 'a paper account begins with one dollar',
  order_rests: 'an order of the Organization stands in the book',
  read_market_access: 'the Organization may read markets, and not trade',
  trading_live: 'the Organization trades live, and ten dollars were taken out of its account at the venue',
};

const credentials = { traderKey: 'a live key with `trading:read` and `trading:write`' };

const limits = {
  trading: callsPerKey('600 trading'),
  reads: {
    summary: 'More reads in a minute than the address may make',
    detail: 'Your address may make 600 reads a minute.',
  },
};

declare module '../core/reference/names.js' {
  interface Tags extends Record<keyof typeof tags, string> {}
  interface Circumstances extends Record<keyof typeof circumstances, string> {}
  interface Credentials extends Record<keyof typeof credentials, string> {}
  interface Limits extends Record<keyof typeof limits, string> {}
}

const tradingScope: ScopeExamples = {
  holder: 'traderKey',
  outsider: 'usageKey',
  refusals: (good) => [
    problemExample('entitlement_required', {
      summary: 'A key of an Organization without access to markets',
      circumstance: 'no_market_access',
      detail:
        'The Organization of this API key has no access to markets. The operator of this service can give it.',
      request: good,
    }),
  ],
};

export const marketsReference: ReferencePart = {
  tags,
  circumstances,
  credentials,
  limits,
  scopes: { 'trading:read': tradingScope, 'trading:write': tradingScope },
  statuses: marketStatuses,
  errors: errorGuide,
  routes: [
    ...marketRoutes,
    ...forecastRoutes,
    streamRoute,
    placeOrderRoute,
    ...tradeRoutes,
    ...changeOrderRoutes,
    ...portfolioRoutes,
    ...executionRoutes,
    ...scoresRoutes,
    ...reconciliationRoutes,
    ...tradingControlRoutes,
  ],
};
