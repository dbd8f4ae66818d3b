import { randomBytes } from 'node:crypto';
import { Router } from 'express';
import { apiKeyRoutes } from './api-keys/routes.js';
import { refuseCrossSite } from './auth/cross-site.js';
import { signInPages } from './auth/pages.js';
import { createSessionReader, requireSession } from './auth/session.js';
import { sessionCookie } from './auth/session-cookie.js';
import { defaultSignInLimits, type SignInLimits } from './auth/sign-in-limits.js';
import type { Context } from './context.js';
import { pageErrorHandler, pageHeaders } from './http/page.js';
import { notFound } from './http/problem.js';
import { organizationRoutes } from './organizations/routes.js';

export interface DashboardOptions {
  signInLimits?: Partial<SignInLimits>;
}

/** `/login`, `/logout` and `/dashboard`: what people use, with a session cookie. */
export function dashboardRoutes(context: Context, options: DashboardOptions = {}): Router {
  const paths = ['/login', '/logout', '/dashboard'];
  // Without configured keys, which only production insists on, sessions last as long as the process.
  const keys = context.config.sessionKeys ?? [randomBytes(32).toString('hex')];
  const readSession = createSessionReader(context);
  const router = Router();
  router.use(paths, pageHeaders(), sessionCookie(keys), refuseCrossSite);
  router.use(signInPages(context, readSession, { ...defaultSignInLimits, ...options.signInLimits }));
  router.use('/dashboard', requireSession(readSession), organizationRoutes(context), apiKeyRoutes(context));
  router.use(paths, notFound, pageErrorHandler);
  return router;
}
