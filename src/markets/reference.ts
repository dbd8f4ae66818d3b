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
import { tradingControlRoutes } from './risk/operator/routes.js';
import { scoresRoutes } from './scores/routes.js';

const tags = {
  'Market data': `Markets, forecasts and signals. No credential is needed. Each address can make 600 reads a minute, including 60 of \`/signals\` with its own bankroll. Pages of the origins in
\`CORS_ORIGINS\` can read from a browser. Every response comes from one in-memory snapshot that is replaced every 30 seconds; no read waits for a venue. \`asOf\` is the time at which the markets were fetched, \`ageSeconds\` their age,
\`stale\` is true if they are older than 30 seconds, and \`sources\` has the state of each source. If a source fails, its last good data stays, so check \`stale\` before you act.

The \`ETag\` changes with the snapshot and when the snapshot becomes stale. Responses are \`no-store\`, because their age would be wrong in a cache. Keep your own copy and send \`If-None-Match\`; the age of the copy
is the time since its \`asOf\`. Responses are compressed with Brotli or gzip if the client accepts it. Prices are decimal strings in dollars, probabilities numbers from 0 to 1, temperatures °F.`,
  Trading: `Weather markets, and the portfolio of the key's Organization. Amounts are decimal strings in dollars. Read them with a decimal parser, never as floats. \`paper\` and \`live\` are two
accounts that never mix. Market data is from the last refresh, and each response has its age.`,
};

const circumstances = {
  no_market_data: 'no market data has been loaded yet',
  old_market_data: 'the last market data is 61 seconds old',
  small_account: 'a paper account begins with one dollar',
  order_rests: 'the Organization has an order resting in the book',
  position_held: 'the Organization had bought 12 contracts of a market',
  read_market_access: 'the Organization may read markets but not trade',
  trading_live: 'the Organization trades live, and ten dollars were withdrawn from its account at the venue',
};

const credentials = { traderKey: 'a live key with `trading:read` and `trading:write`' };

const limits = {
  trading: callsPerKey('600 trading'),
  reads: {
    summary: 'Too many reads from an address in a minute',
    detail: 'Your address can make 600 reads a minute.',
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
        'The Organization of this API key has no access to markets. Ask the operator of this service for access.',
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
  errors: new URL('reference/errors.yaml', import.meta.url),
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
