import { Router, type RequestHandler } from 'express';
import { accountPages } from '../identity/account/pages.js';
import { apiKeyPages } from '../api-keys/pages.js';
import { apiKeyReadRoutes } from '../api-keys/routes.js';
import { keyChangeRoutes } from '../api-keys/key-change-routes.js';
import { auditPages } from '../dashboard/audit-log/pages.js';
import {
  createSessionReader,
  refuseCrossSite,
  requireOrganization,
  requireOwnFactor,
  requirePerson,
} from '../identity/session/session.js';
import { createDevices, defaultSignInLimits, type SignInLimits } from '../identity/sign-in/sign-in-limits.js';
import { signInPages } from '../identity/sign-in/pages.js';
import { createSecretBox } from '../identity/second-factor/secret-box.js';
import { hashToken, readToken, sessionCookie } from '../identity/session/session-cookie.js';
import type { TradingContext } from '../trading/config.js';
import { entitlementPages } from '../entitlements/pages.js';
import { pageHeaders } from '../core/http/page-headers.js';
import { createFrame } from '../dashboard/frame.js';
import { notFound } from '../core/http/problem.js';
import { perKeyLimit } from '../core/http/rate-limit.js';
import { requireWholeAddress } from '../core/http/request-line.js';
import { joinPages, type JoinLimits } from '../identity/members/join-pages.js';
import { membersPages } from '../identity/members/pages.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { sessionRoutes } from '../identity/organizations/routes.js';
import { overviewPages } from '../dashboard/overview/pages.js';
import { pageErrorHandler } from '../core/pages/error-page.js';
import { pageAssets, pageFrame } from '../core/pages/layout.js';
import { pageRouter } from '../core/pages/page-router.js';
import { marketsPages } from '../trading/pages/pages.js';
import { portfolioPages } from '../trading/pages/portfolio-pages.js';
import { riskPages } from '../trading/pages/risk-pages.js';
import { scoresPages } from '../trading/pages/scores-pages.js';
import type { TradingServices } from '../trading/services/services.js';
import { usagePages } from '../usage/pages.js';
import { findLiveProduct } from '../entitlements/queries.js';

export interface DashboardOptions {
  signInLimits?: Partial<SignInLimits>;
  joinLimits?: Partial<JoinLimits>;
}

/** Where people are, with a browser. */
export const pagePaths = ['/login', '/logout', '/dashboard'];

/** `/login`, `/logout` and `/dashboard`: what people use, with a session cookie. */
export function dashboardRoutes(
  context: TradingContext,
  trading: TradingServices,
  keys: readonly string[],
  options: DashboardOptions = {},
): Router {
  const secrets = createSecretBox(context.config.secretKeys);
  const readSession = createSessionReader(context);
  const limits = { ...defaultSignInLimits, ...options.signInLimits };
  const router = Router();
  router.use(pageRouter().get('/dashboard/assets/:version/:file', pageAssets.serve));
  router.use(
    pagePaths,
    pageFrame(createFrame(context)),
    pageHeaders(),
    requireWholeAddress,
    sessionCookie(keys),
    refuseCrossSite,
  );
  router.use('/dashboard', sessionLimit(context));
  router.use(signInPages(context, readSession, { limits, secrets, devices: createDevices(keys) }));
  router.use(joinPages(context, readSession, options.joinLimits));
  router.use(
    '/dashboard',
    requirePerson(readSession),
    accountPages(context, { limits, secrets }),
    requireOrganization,
    mountRoutes(Router(), '/dashboard', sessionRoutes, context),
    requireOwnFactor,
    apiKeyPages({ ...context, findLiveProduct }),
    mountRoutes(Router(), '/dashboard', [...apiKeyReadRoutes, ...keyChangeRoutes], context),
    auditPages(context),
    usagePages(context),
    entitlementPages(context),
    marketsPages(context, trading),
    scoresPages(context, trading),
    portfolioPages(context, trading),
    riskPages(context, trading),
    membersPages(context),
    overviewPages(context),
  );
  router.use(pagePaths, notFound, pageErrorHandler(context));
  return router;
}

/** Requests a minute of each session. Before anything is looked up: only a cookie that we signed is ever counted. */
function sessionLimit(context: TradingContext): RequestHandler {
  const limit = perKeyLimit(context, {
    name: 'dashboard',
    perMinute: context.config.limits.dashboardPerMinute,
    keyOf: (req) => hashToken(readToken(req)!),
    caller: 'This session',
    calls: 'requests',
    isQuiet: true,
  });
  return (req, res, next) => (readToken(req) === undefined ? next() : limit(req, res, next));
}
