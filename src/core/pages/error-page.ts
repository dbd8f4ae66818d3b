import { STATUS_CODES } from 'node:http';
import type { ErrorRequestHandler, Request, Response } from 'express';
import { pageHeaders } from '../http/headers.js';
import { ownReferer, requestIdOf, prefersHtml } from '../http/request.js';
import { beginProblem, problemHandler, statusOf, toAppError } from '../http/problem.js';
import type { ErrorTitles } from '../errors.js';
import { toAddress } from './address.js';
import { pageFrame, renderPage, type PageDeps, type ReadFrame } from './layout.js';

const commonTitles: ErrorTitles = {
  not_signed_in: 'You are signed out',
  not_found: 'Page not found',
  method_not_allowed: 'Method not allowed',
  forbidden_role: 'You do not have access to this',
  cross_site_request: 'This came from another site',
  unavailable: 'Not available at the moment',
  internal: 'Something went wrong',
  rate_limited: 'Too many attempts',
};

export function pageErrorHandler(
  deps: PageDeps,
  readFrame: ReadFrame,
  titles: ErrorTitles,
): ErrorRequestHandler {
  const headers = pageHeaders();
  const frame = pageFrame(readFrame);
  return async (thrown, req, res, next) => {
    if (res.headersSent || !prefersHtml(req)) {
      problemHandler(thrown, req, res, next);
      return;
    }
    if (res.locals.nonce === undefined) {
      frame(req, res, () => undefined);
      headers(req, res, () => undefined);
    }
    await showError({ ...deps, titles: { ...commonTitles, ...titles } }, thrown, req, res);
  };
}

async function showError(
  deps: PageDeps & { titles: ErrorTitles },
  thrown: unknown,
  req: Request,
  res: Response,
): Promise<void> {
  const error = toAppError(thrown);
  const status = statusOf(res, error.code);
  beginProblem(res, error);
  const title = error.pageTitle ?? deps.titles[error.code] ?? STATUS_CODES[status] ?? 'Error';
  const data = {
    status,
    detail: error.message,
    places: error.errors ?? [],
    requestId: requestIdOf(res),
    retryAfterSeconds: error.retryAfterSeconds,
    // If the session cookie is gone, for example after signing out in another tab, the input is lost.
    signInHref: toAddress('/login', { next: ownReferer(req) }),
  };
  const show = () => {
    const frame = res.locals.session === undefined && !res.locals.operator ? 'card' : 'dashboard';
    return renderPage(deps, req, res, { view: 'error', title, frame }, data);
  };
  try {
    await show();
  } catch {
    // The database may be unavailable.
    delete res.locals.session;
    delete res.locals.person;
    await show();
  }
}
