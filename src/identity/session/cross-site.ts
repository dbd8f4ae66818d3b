import type { Request, RequestHandler } from 'express';
import { AppError } from '../../core/errors.js';
import { originOf } from '../../core/http/own-origin.js';

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/** True for every request that may change something. */
export const isChange = (req: Request): boolean => !safeMethods.has(req.method);

/**
 * Refuses changes that another site makes with a person's cookie. Browsers say where a request comes from in
 * `Sec-Fetch-Site`, older ones and plain-http hosts in `Origin`. A request with neither is from no browser, so it
 * carries no victim's cookie.
 * @throws AppError cross_site_request
 */
export const refuseCrossSite: RequestHandler = (req, _res, next) => {
  if (isChange(req) && !isSameSite(req)) {
    throw new AppError('cross_site_request', 'Changes are accepted from this site’s own pages only.');
  }
  next();
};

function isSameSite(req: Request): boolean {
  const site = req.get('sec-fetch-site');
  // `same-site` is another host of the same domain, and not necessarily ours. `none` is the person themselves.
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const origin = req.get('origin');
  return origin === undefined || isOwnHost(origin, req);
}

/** Compares as URLs do: in lower case and without the scheme's default port. */
function isOwnHost(origin: string, req: Request): boolean {
  const own = originOf(req);
  if (!URL.canParse(origin) || !URL.canParse(own)) return false;
  const { host } = new URL(origin);
  return host !== '' && host === new URL(own).host;
}
