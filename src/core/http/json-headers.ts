import type { RequestHandler } from 'express';
import helmet from 'helmet';

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
const headers: [name: string, value: string][] = [];
const recorder = {
  setHeader: (name: string, value: string) => void headers.push([name, value]),
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
  for (const [name, value] of headers) res.setHeader(name, value);
  next();
};
