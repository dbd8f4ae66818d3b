import { randomUUID } from 'node:crypto';
import type { Request, RequestHandler, Express, Response } from 'express';
import { AppError } from '../errors.js';
import type { ServiceConfig } from '../config.js';
import { createMask, maskPath } from '../log/log-mask.js';
import type { Context } from './context.js';

/** A browser that shows pages. A client that takes anything (as fetch and curl do by default) gets JSON. */
export const prefersHtml = (req: Request): boolean => req.accepts(['json', 'html']) === 'html';

export const prefersJson = (req: Request): boolean => req.accepts(['html', 'json']) === 'json';

/** A browser on its way to a page, which can be sent somewhere else. */
export const isNavigation = (req: Request): boolean =>
  (req.method === 'GET' || req.method === 'HEAD') && prefersHtml(req);

/**
 * Refuses addresses that stand for no text: percent-encoded bytes that are no UTF-8 (halves of surrogate pairs among
 * them), and NUL, which the database cannot store. Paths and queries need no look of their own for these.
 * @throws AppError invalid_request
 */
export const requireWholeAddress: RequestHandler = (req, _res, next) => {
  if (req.headers.host === undefined && req.httpVersion === '1.1')
    throw new AppError('invalid_request', 'Send the header Host.');
  if (req.url.includes('%') && !isText(req))
    throw new AppError('invalid_request', 'The address must be percent-encoded UTF-8 without NUL.');
  next();
};

function isText(req: Request): boolean {
  const [path = '', query = ''] = req.url.split(/\?(.*)/s, 2);
  try {
    const [decodedPath, decodedQuery] = [decodeURIComponent(path), decodeURIComponent(query)];
    // A page says beside its field what it does not take.
    return !decodedPath.includes('\0') && (prefersHtml(req) || !decodedQuery.includes('\0'));
  } catch {
    return false;
  }
}

/**
 * True if the client has what the tag names (`If-None-Match`, RFC 9110, 13.1.2). Express's `fresh` says no where
 * `Cache-Control: no-cache` is sent as well, as `fetch` does; but that asks to be told anew, which a 304 does.
 */
export function hasCopy(req: Request<object>, etag: string): boolean {
  const header = req.headers['if-none-match'];
  if (header === undefined) return false;
  const opaque = etag.replace(/^W\//, '');
  return header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === opaque);
}

const originSetting = 'own origin';

/**
 * In production people come by https, whatever the last hop to this process speaks: cookies are `Secure` there even if a
 * proxy forgets to say how it was called.
 */
export function setOwnOrigin(
  app: Express,
  { production, publicUrl }: Pick<ServiceConfig, 'production' | 'publicUrl'>,
): void {
  app.set(originSetting, publicUrl);
  if (production)
    Object.defineProperty(app.request, 'protocol', {
      configurable: true,
      enumerable: true,
      get: () => 'https',
    });
}

/** Where people reach the service, for links and to tell its own pages: PUBLIC_URL, or what the request was sent to. */
export const originOf = (req: Request<object>): string =>
  (req.app.get(originSetting) as string | undefined) ?? `${req.protocol}://${req.host}`;

/** False: PUBLIC_URL says where people reach the service, whatever the request was sent to. */
export const isOriginOfRequest = (req: Request<object>): boolean => req.app.get(originSetting) === undefined;

/** The page of ours that a request was sent from; undefined if the browser does not say, or it is another site's. */
export function ownReferer(req: Request): string | undefined {
  const { referer } = req.headers;
  if (referer === undefined || !URL.canParse(referer)) return undefined;
  const { origin, pathname, search } = new URL(referer);
  return origin === originOf(req) ? pathname + search : undefined;
}

const uuidShape = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** True for what a uuid column takes: anything else would be an error of the database. */
export const isUuid = (value: unknown): value is string => typeof value === 'string' && uuidShape.test(value);

/**
 * An id in the address, in lower case. One that cannot be an id is as unknown as any other.
 * @throws AppError not_found, saying that there is no such thing
 */
export function readPathId(req: Request, name: string, thing: string): string {
  const id = req.params[name];
  if (!isUuid(id)) throw new AppError('not_found', `There is no such ${thing}.`);
  return id.toLowerCase();
}

/** The `X-Request-Id` of a request, as its answer carries it. */
export const requestIdOf = (res: Response): string => String(res.getHeader('X-Request-Id') ?? '');

const clientAddress = Symbol('client address');

/**
 * Lets `req.ip` be worked out once per request. The log, the limits and the audit each ask for it, and Express would
 * read the forwarding headers every time.
 */
export function rememberClientAddress(app: Express): void {
  const express = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(app.request), 'ip')!;
  Object.defineProperty(app.request, 'ip', {
    configurable: true,
    enumerable: true,
    get(this: Request & { [clientAddress]?: string | undefined }) {
      // Without a trusted proxy the headers do not matter.
      return (this[clientAddress] ??=
        app.get('trust proxy') === false
          ? this.socket.remoteAddress
          : (express.get!.call(this) as string | undefined));
    },
  });
}

/** Aborted when the caller hangs up before the answer. Its reason is an error that no caller will be told. */
export function hangUpSignal(res: Response): AbortSignal {
  const gone = new AbortController();
  res.once('close', () => {
    if (!res.writableEnded)
      gone.abort(new AppError('invalid_request', 'The connection ended before the answer.'));
  });
  return gone.signal;
}

const acceptableId = /^[\w.:-]{1,64}$/;

/** Who called, as far as the request showed it: for the log alone. */
export interface Caller {
  orgId?: string | undefined;
  keyId?: string | undefined;
  userId?: string | undefined;
}

/**
 * Gives each request its id (the caller's `X-Request-Id` where it is harmless) and reports it when it has ended: one
 * log line, one observation. Only the path is logged: a query string may hold what should not be kept.
 */
export function requestContext(
  { config, log, accessLog, metrics }: Context,
  callerOf: (req: Request, res: Response) => Caller,
): RequestHandler {
  const mask = createMask(config.secrets);
  return (req, res, next) => {
    const startedAt = performance.now();
    const given = req.headers['x-request-id'];
    const requestId =
      typeof given === 'string' && acceptableId.test(given) && mask(given) === given ? given : randomUUID();
    res.setHeader('X-Request-Id', requestId);
    res.once('close', () => {
      const seconds = (performance.now() - startedAt) / 1000;
      const status = res.writableFinished ? res.statusCode : 499;
      const route = routeOf(req);
      metrics.requestSeconds.observe({ method: req.method, route, status }, seconds);
      const error = res.locals.error as AppError | undefined;
      const line = {
        requestId,
        method: req.method,
        path: maskPath(req.originalUrl, mask),
        status,
        ms: Math.round(seconds * 1e5) / 100,
        // The caller writes X-Forwarded-For where TRUST_PROXY counts more proxies than there are.
        ip: req.ip && mask(req.ip),
        code: error?.code,
        ...callerOf(req, res),
      };
      if (status === 500) log.error({ ...line, err: error?.cause }, 'request failed');
      else accessLog[!error && routine.test(req.originalUrl) ? 'debug' : 'info'](line, 'request');
    });
    next();
  };
}

/** What is asked for all the time and says nothing of its caller. A refusal of it is told. */
const routine = /^\/(?:(?:dashboard|docs)\/assets\/|(?:healthz|readyz|metrics)(?:$|\?))/;

const face = /^\/(?:api|dashboard|operator)(?=\/|$|\?)/;

/**
 * The route as it was mounted; everything unknown is one value, so that a scanner cannot fill the metrics. A request
 * that failed has left its router and lost the place where that was mounted, so the face is read from the address.
 */
function routeOf(req: Request): string {
  const path: unknown = (req.route as { path?: unknown } | undefined)?.path;
  if (typeof path !== 'string') return 'unmatched';
  const mount = req.baseUrl || (face.exec(req.originalUrl)?.[0] ?? '');
  return path.startsWith(mount) && mount !== '' ? path : mount + path;
}
