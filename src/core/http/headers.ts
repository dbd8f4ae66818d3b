import { randomBytes } from 'node:crypto';
import { constants } from 'node:zlib';
import { Router, type Response, type RequestHandler } from 'express';
import compression from 'compression';
import helmet from 'helmet';
import { compressionLevels } from './encoding.js';

const nonceOf = (_req: unknown, res: unknown) => `'nonce-${(res as Response).locals.nonce as string}'`;

/**
 * Headers for everything that a browser with a session sees: only our own files may load, nothing may frame the page,
 * and nothing may store it. Uses `same-origin` instead of helmet's `no-referrer`, because Chrome would post forms
 * with `Origin: null`.
 */
export function pageHeaders(): Router {
  const router = Router();
  const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: compressionLevels.fast.br } };
  router.use(compression({ brotli }));
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
          // The nonce also admits modules imported by an admitted script.
          scriptSrc: [nonceOf],
          styleSrc: [nonceOf],
          imgSrc: ["'self'"],
          fontSrc: ["'self'"],
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

/** For a page that shows a secret once: compressed beside other text, its length would help to guess the secret. */
export function beginSecretPage(res: Response, status = 201): void {
  res.status(status).setHeader('Cache-Control', 'no-store, no-transform');
}

const secure = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  crossOriginOpenerPolicy: false,
  crossOriginResourcePolicy: false,
  originAgentCluster: false,
  referrerPolicy: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xFrameOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
});

/** Helmet's headers do not depend on the request, so they are computed once. */
const jsonOnly: [name: string, value: string][] = [];
const recorder = {
  setHeader: (name: string, value: string) => void jsonOnly.push([name, value]),
  removeHeader: () => undefined,
};
secure({} as Parameters<typeof secure>[0], recorder as unknown as Parameters<typeof secure>[1], (error) => {
  if (error) throw error as Error;
});

/** For answers to programs, which must never be displayed as a page; headers that only pages need are omitted. */
export const jsonHeaders: RequestHandler = (_req, res, next) => {
  for (const [name, value] of jsonOnly) res.setHeader(name, value);
  next();
};
