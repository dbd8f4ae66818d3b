import type { RequestHandler } from 'express';
import { createRouter } from '../core/http/router.js';
import { requireMarketAccess } from '../accounts/identity/session/session.js';
import { mountRoutes } from '../core/reference/define-route.js';
import type { Context } from '../core/http/context.js';
import type { Section } from '../dashboard/frame.js';
import type { Product, ProductAtWork } from '../product.js';

import { startBackgroundThread } from './background/start-thread.js';
import { tradingRoutes } from './router.js';
import { FREE_FORECASTS, marketsConfig } from './config.js';
import { consolePages, consoleSections, customerTabs } from './console/console.js';
import { auditWording } from './dashboard/audit-wording.js';
import { createAccountReader } from './dashboard/overview.js';
import { createMarketsFinder } from './dashboard/search.js';
import { demo } from './demo/demo.js';
import { greet } from './demo/greeting.js';
import { seedDemoTrading } from './demo/trading.js';
import { marketStatuses } from './errors.js';
import { reconciliationRoutes } from './live/routes.js';
import { createMarketMetrics } from './metrics.js';
import { createOwnMarketsReader } from './own-values.js';
import { marketsPages } from './pages/pages.js';
import { portfolioPages } from './pages/portfolio-pages.js';
import { riskPages } from './pages/risk-pages.js';
import { scoresPages } from './pages/scores-pages.js';
import { marketTypes } from './webhook-types.js';
import { reconciliation } from './portfolio/reconciliation.js';
import { tradingControlRoutes } from './risk/operator/routes.js';
import {
  bookingJobs,
  createTradingServices,
  tradingJobs,
  type TradingOverrides,
  type TradingServices,
} from './services/services.js';

declare module '../product.js' {
  interface Services {
    /** Undefined if the markets are off. */
    trading: TradingServices;
  }
  interface ProductOptions {
    trading?: TradingOverrides;
  }
}

const isShownTo: Section['isShownTo'] = ({ marketAccess }) => marketAccess !== 'none';

const sections: Section[] = [
  {
    id: 'markets',
    href: '/dashboard/markets',
    label: 'Markets',
    words: 'desk',
    isShownTo,
    beginsGroup: true,
  },
  { id: 'scores', href: '/dashboard/scores', label: 'Scores', words: 'forecast accuracy', isShownTo },
  { id: 'portfolio', href: '/dashboard/portfolio', label: 'Portfolio', words: 'positions cash', isShownTo },
];

export const markets: Product = {
  name: 'markets',
  introduction: 'markets/introduction',
  config: marketsConfig,
  errors: marketStatuses,
  webhookTypes: marketTypes,
  createMetrics: createMarketMetrics,
  demo,
  auditWording,
  loadReference: async () => (await import('./reference.js')).marketsReference,
  sections,
  consoleSections,
  customerTabs,
  reconciliation,
  isOn: ({ hasMarkets }) => hasMarkets,
  create(context, calls, { inThreads, trading: overrides }) {
    const { lifecycle } = context;
    let fillDemo: NonNullable<ProductAtWork['fillDemo']> = (asOf, demo, signal) =>
      seedDemoTrading(asOf, demo, (fits) => trading.calibration.replace({ fits }), signal);
    const trading = createTradingServices(context, {
      ...overrides,
      ...(inThreads && {
        startBackground(deps, options) {
          const thread = startBackgroundThread(context, deps, options);
          fillDemo = (asOf, data) => thread.fillDemo(asOf.clock.now(), data.keys.trading);
          return thread;
        },
      }),
    });
    const { refresher, background, live, isReplay } = trading;
    /** Parts of the demo's past that are still being filled in. */
    const filling = { trades: false, forecasts: false };
    return {
      services: { trading },
      readOwnPart: createOwnMarketsReader({ ...context, ...trading }),
      router: tradingRoutes(context, calls, trading),
      pages: [
        createRouter().use(
          ['/markets', '/scores', '/portfolio'],
          requireMarketAccess,
          markInvented(context, filling),
        ),
        ...[marketsPages, scoresPages, portfolioPages, riskPages].map((pages) => pages(context, trading)),
      ],
      consolePages: (deps) => consolePages({ ...deps, live }),
      findForMember: createMarketsFinder(trading),
      readOverviewPanel: createAccountReader(context, trading),
      mountOperator: (router) =>
        mountRoutes(router, '/operator', operatorMarketRoutes, { ...context, ...trading }),
      jobs: tradingJobs(context, trading),
      jobsAfterPast: bookingJobs(trading),
      beginLoading: () => refresher.refresh(),
      async load() {
        warnOfSources(context, trading);
        if (!isReplay) await Promise.all([background.load(), tryToJudgeGates(trading, context)]);
      },
      // Live trading stays closed until orders, fills, positions and cash agree with the venue's.
      start: () => void live?.reconcile(),
      greet: (data, baseUrl) => greet(data, baseUrl, trading.snapshots.current),
      // Trades from before the start of a tape are unknown.
      ...(isReplay
        ? {}
        : {
            async fillDemo(...past) {
              Object.assign(filling, { trades: true, forecasts: true });
              await fillDemo(...past);
              filling.trades = false;
            },
            async afterPast() {
              if (!lifecycle.refusal) await fillPast(trading);
              filling.forecasts = false;
            },
          }),
      stop: () => trading.stop(),
    };
  },
};

/** The demo's pages show that their numbers are invented and which parts are missing. */
function markInvented(
  { config: { production, trading } }: Pick<Context, 'config'>,
  filling: Readonly<Record<'trades' | 'forecasts', boolean>>,
): RequestHandler {
  const isInvented = !production && trading.marketSource === 'simulated';
  return (_req, res, next) => {
    res.locals.isInvented = isInvented;
    res.locals.filling = filling;
    next();
  };
}

const operatorMarketRoutes = [...reconciliationRoutes, ...tradingControlRoutes];

function warnOfSources({ config, log }: Context, { isReplay }: TradingServices): void {
  const { marketSource, hasFreeForecasts, liveOrg } = config.trading;
  if (config.production && marketSource === 'simulated')
    log.warn('market data is simulated; set MARKET_SOURCE=kalshi to read real markets');
  // A replay queries no forecasts.
  if (!isReplay && hasFreeForecasts) log[liveOrg === undefined ? 'info' : 'warn'](FREE_FORECASTS);
}

/** Gates stay closed until judged; a scheduled job retries. */
async function tryToJudgeGates({ background }: TradingServices, { log, lifecycle }: Context): Promise<void> {
  if (lifecycle.refusal) return;
  await background
    .judge()
    .catch((error: unknown) =>
      log.warn({ err: error }, 'the gates could not be judged; the job tries again'),
    );
}

async function fillPast({ background, refresher }: TradingServices): Promise<void> {
  await background.fillPast();
  // Pages need not wait for the next refresh.
  await refresher.refresh();
}
