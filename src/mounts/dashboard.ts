import { randomBytes } from 'node:crypto';
import compression from 'compression';
import { Router, type RequestHandler, type Response } from 'express';
import helmet from 'helmet';
import { keyChangeRoutes } from '../api-keys/key-change-routes.js';
import { apiKeyPages } from '../api-keys/pages.js';
import { apiKeyReadRoutes } from '../api-keys/routes.js';
import { notFound } from '../core/http/problem.js';
import { perKeyLimit } from '../core/http/rate-limit.js';
import { requireWholeAddress } from '../core/http/request-line.js';
import { pageErrorHandler } from '../core/pages/error-page.js';
import { pageAssets, pageFrame } from '../core/pages/layout.js';
import { pageRouter } from '../core/pages/page-router.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { auditPages } from '../dashboard/audit-log/pages.js';
import { createFrame } from '../dashboard/frame.js';
import { overviewPages } from '../dashboard/overview/pages.js';
import { entitlementPages } from '../entitlements/pages.js';
import { findLiveProduct } from '../entitlements/queries.js';
import { accountPages } from '../identity/account/pages.js';
import { joinPages, type JoinLimits } from '../identity/members/join-pages.js';
import { membersPages } from '../identity/members/pages.js';
import { sessionRoutes } from '../identity/organizations/routes.js';
import { createSecretBox } from '../identity/second-factor/secret-box.js';
import { hashToken, readToken, sessionCookie } from '../identity/session/session-cookie.js';
import {
  createSessionReader,
  refuseCrossSite,
  requireOrganization,
  requireOwnFactor,
  requirePerson,
} from '../identity/session/session.js';
import { signInPages } from '../identity/sign-in/pages.js';
import { createDevices, defaultSignInLimits, type SignInLimits } from '../identity/sign-in/sign-in-limits.js';
import type { TradingContext } from '../trading/config.js';
import { marketsPages } from '../trading/pages/pages.js';
import { portfolioPages } from '../trading/pages/portfolio-pages.js';
import { riskPages } from '../trading/pages/risk-pages.js';
import { scoresPages } from '../trading/pages/scores-pages.js';
import type { TradingServices } from '../trading/services/services.js';
import { usagePages } from '../usage/pages.js';

const nonceOf = (_req: unknown, res: unknown) => `'nonce-${(res as Response).locals.nonce as string}'`;

/**
 * Headers of everything a browser with a session sees: nothing may load but our own files, nothing may frame it and
 * nothing may keep it. `same-origin` instead of helmet's `no-referrer`, with which Chrome posts forms as `Origin: null`.
 */
function pageHeaders(): Router {
  const router = Router();
  router.use(compression());
  router.use((_req, res, next) => {
    res.locals.nonce = randomBytes(16).toString('base64');
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  router.use(
    helmet({
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'none'"],
          // Modules that a script with the nonce imports are let in with it.
          scriptSrc: [nonceOf],
          styleSrc: [nonceOf],
          imgSrc: ["'self'"],
          connectSrc: ["'self'"],
          formAction: ["'self'"],
          frameAncestors: ["'none'"],
          baseUri: ["'none'"],
        },
      },
      referrerPolicy: { policy: 'same-origin' },
    }),
  );
  return router;
}

export interface DashboardOptions {
  signInLimits?: Partial<SignInLimits>;
  joinLimits?: Partial<JoinLimits>;
}

export const pagePaths = ['/login', '/logout', '/dashboard'];

/** `/login`, `/logout` and `/dashboard`: what people use, with a session cookie. */
export function dashboardRoutes(
  context: TradingContext,
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
