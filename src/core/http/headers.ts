import { randomBytes } from 'node:crypto';
import { Router, type Response, type RequestHandler } from 'express';
import compression from 'compression';
import helmet from 'helmet';

const nonceOf = (_req: unknown, res: unknown) => `'nonce-${(res as Response).locals.nonce as string}'`;

/**
 * Headers of everything a browser with a session sees: nothing may load but our own files, nothing may frame it and
 * nothing may keep it. `same-origin` instead of helmet's `no-referrer`, with which Chrome posts forms as `Origin: null`.
 */
export function pageHeaders(): Router {
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

/**
 * For a page with a secret that is shown this once. Compressed beside text of another person, it can be guessed from the length
 * of the answer.
 */
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

/** What helmet sets does not depend on the request: it is asked once, not for each answer. */
const jsonOnly: [name: string, value: string][] = [];
const recorder = {
  setHeader: (name: string, value: string) => void jsonOnly.push([name, value]),
  removeHeader: () => undefined,
};
secure({} as Parameters<typeof secure>[0], recorder as unknown as Parameters<typeof secure>[1], (error) => {
  if (error) throw error as Error;
});

/**
 * For answers that are read by programs: nothing in them may ever be shown as a page, so the headers that only pages
 * need are left out.
 */
export const jsonHeaders: RequestHandler = (_req, res, next) => {
  for (const [name, value] of jsonOnly) res.setHeader(name, value);
  next();
};
