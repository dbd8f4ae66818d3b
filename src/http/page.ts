import { randomBytes } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { Router, type ErrorRequestHandler, type Response } from 'express';
import helmet from 'helmet';
import { prefersHtml } from './accepts.js';
import { problemHandler, setProblemHeaders, statusByCode, toAppError } from './problem.js';

/**
 * Headers of everything a browser with a session sees: nothing may load, frame or be kept but our own styles.
 * `same-origin` instead of helmet's `no-referrer`, with which Chrome posts forms as `Origin: null`.
 */
export function pageHeaders(): Router {
  const router = Router();
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
          styleSrc: [(_req, res) => `'nonce-${(res as Response).locals.nonce as string}'`],
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

/** The last handler of the dashboard: a page for a browser, a problem for everybody else. */
export const pageErrorHandler: ErrorRequestHandler = (thrown, req, res, next) => {
  if (res.headersSent || !prefersHtml(req)) {
    problemHandler(thrown, req, res, next);
    return;
  }
  const error = toAppError(thrown);
  res.locals.error = error;
  const status = statusByCode[error.code];
  setProblemHeaders(res, error);
  res.status(status).render('error', {
    title: STATUS_CODES[status] ?? 'Error',
    nonce: res.locals.nonce as string,
    status,
    detail: error.message,
    requestId: String(res.getHeader('X-Request-Id') ?? ''),
  });
};
