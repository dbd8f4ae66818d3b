import { randomBytes } from 'node:crypto';
import { Router, type RequestHandler } from 'express';
import { accountPages } from './account/pages.js';
import { apiKeyPages } from './api-keys/pages.js';
import { apiKeyReadRoutes } from './api-keys/routes.js';
import { keyChangeRoutes } from './api-keys/key-change-routes.js';
import { auditPages } from './audit/pages.js';
import { refuseCrossSite } from './auth/cross-site.js';
import { createDevices } from './auth/device-cookie.js';
import { signInPages } from './auth/pages.js';
import { createSecretBox } from './auth/second-factor/secret-box.js';
import { createSessionReader, requireOrganization, requireOwnFactor, requirePerson } from './auth/session.js';
import { hashToken, readToken, sessionCookie } from './auth/session-cookie.js';
import { defaultSignInLimits, type SignInLimits } from './auth/sign-in-limits.js';
import type { Context } from './context.js';
import { entitlementPages } from './entitlements/pages.js';
import { pageHeaders } from './http/page-headers.js';
import { notFound } from './http/problem.js';
import { perKeyLimit } from './http/rate-limit.js';
import { requireWholeAddress } from './http/request-line.js';
import type { JoinLimits } from './members/join-limits.js';
import { joinPages } from './members/join-pages.js';
import { membersPages } from './members/pages.js';
import { mountRoutes } from './openapi/define-route.js';
import { sessionRoutes } from './organizations/routes.js';
import { overviewPages } from './overview/pages.js';
import { pageErrorHandler } from './pages/error-page.js';
import { pageAssets } from './pages/layout.js';
import { pageRouter } from './pages/page-router.js';
import { marketsPages } from './trading/pages/pages.js';
import { portfolioPages } from './trading/portfolio/pages.js';
import { riskPages } from './trading/risk/pages.js';
import { scoresPages } from './trading/scores/pages.js';
import type { TradingServices } from './trading/services.js';
import { usagePages } from './usage/pages.js';

export interface DashboardOptions {
  signInLimits?: Partial<SignInLimits>;
  joinLimits?: Partial<JoinLimits>;
}

/** Where people are, with a browser. */
export const pagePaths = ['/login', '/logout', '/dashboard'];

/** `/login`, `/logout` and `/dashboard`: what people use, with a session cookie. */
export function dashboardRoutes(
  context: Context,
  trading: TradingServices,
  options: DashboardOptions = {},
): Router {
  // Without configured keys, which only production insists on, sessions last as long as the process.
  const keys = context.config.sessionKeys ?? [randomBytes(32).toString('hex')];
  const secrets = createSecretBox(context.config.secretKeys);
  const readSession = createSessionReader(context);
  const limits = { ...defaultSignInLimits, ...options.signInLimits };
  const router = Router();
  router.use(pageRouter().get('/dashboard/assets/:version/:file', pageAssets.serve));
  router.use(pagePaths, pageHeaders(), requireWholeAddress, sessionCookie(keys), refuseCrossSite);
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
    apiKeyPages(context),
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
function sessionLimit(context: Context): RequestHandler {
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
