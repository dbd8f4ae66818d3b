import type { Express, Request } from 'express';
import type { ServiceConfig } from '../config.js';

const setting = 'own origin';

/**
 * In production people come by https, whatever the last hop to this process speaks: cookies are `Secure` there even if a
 * proxy forgets to say how it was called.
 */
export function setOwnOrigin(
  app: Express,
  { production, publicUrl }: Pick<ServiceConfig, 'production' | 'publicUrl'>,
): void {
  app.set(setting, publicUrl);
  if (production)
    Object.defineProperty(app.request, 'protocol', {
      configurable: true,
      enumerable: true,
      get: () => 'https',
    });
}

/** Where people reach the service, for links and to tell its own pages: PUBLIC_URL, or what the request was sent to. */
export const originOf = (req: Request<object>): string =>
  (req.app.get(setting) as string | undefined) ?? `${req.protocol}://${req.host}`;

/** The page of ours that a request was sent from; undefined if the browser does not say, or it is another site's. */
export function ownReferer(req: Request): string | undefined {
  const { referer } = req.headers;
  if (referer === undefined || !URL.canParse(referer)) return undefined;
  const { origin, pathname, search } = new URL(referer);
  return origin === originOf(req) ? pathname + search : undefined;
}
