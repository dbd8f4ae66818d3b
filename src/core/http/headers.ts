import { randomBytes } from 'node:crypto';
import { constants } from 'node:zlib';
import type { RequestHandler, Response, Router } from 'express';
import { createRouter } from './router.js';
import compression from 'compression';
import helmet from 'helmet';
import { compressionLevels } from './encoding.js';

const nonceOf = (_req: unknown, res: unknown) => `'nonce-${(res as Response).locals.nonce as string}'`;

/**
 * The referrer policy is `same-origin`: with helmet's `no-referrer`, Chrome posts forms with `Origin: null`.
 * @param code the source of scripts and styles; modules that they import are also allowed
 */
export const helmetFor = (code: string | typeof nonceOf, ancestors: readonly string[] = []) =>
  helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: [code],
        styleSrc: [code],
        imgSrc: ["'self'"],
        fontSrc: ["'self'"],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        frameAncestors: ancestors.length === 0 ? ["'none'"] : [...ancestors],
        baseUri: ["'none'"],
      },
    },
    referrerPolicy: { policy: 'same-origin' },
    // Would also keep the page out of the ancestors' frames.
    ...(ancestors.length === 0 ? {} : { xFrameOptions: false }),
  });

/** @param ancestors the origins on which a page may be in a frame */
export function pageHeaders(ancestors: readonly string[] = []): Router {
  const router = createRouter();
  const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: compressionLevels.fast.br } };
  router.use(compression({ brotli }));
  router.use((_req, res, next) => {
    res.locals.nonce = randomBytes(16).toString('base64');
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  router.use(helmetFor(nonceOf, ancestors));
  return router;
}

/** A page that shows a secret must not be compressed: its compressed length leaks information about the secret. */
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

/** Helmet's headers do not depend on the request. */
const jsonOnly: [name: string, value: string][] = [];
const recorder = {
  setHeader: (name: string, value: string) => void jsonOnly.push([name, value]),
  removeHeader: () => undefined,
};
secure({} as Parameters<typeof secure>[0], recorder as unknown as Parameters<typeof secure>[1], (error) => {
  if (error) throw error as Error;
});

/** Responses to programs must never render as a page. */
export const jsonHeaders: RequestHandler = (_req, res, next) => {
  for (const [name, value] of jsonOnly) res.setHeader(name, value);
  next();
};
