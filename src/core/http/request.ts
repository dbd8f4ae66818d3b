import { randomUUID } from 'node:crypto';
import type { Request, RequestHandler, Express, Response } from 'express';
import type { Clock } from '../time.js';
import { AppError } from '../errors.js';
import type { ServiceConfig } from '../config.js';
import { createMask, maskPath } from '../log/log-mask.js';
import type { Context } from './context.js';

/** A client that accepts anything, like fetch and curl by default, gets JSON. */
export const prefersHtml = (req: Request): boolean => req.accepts(['json', 'html']) === 'html';

export const prefersJson = (req: Request): boolean => req.accepts(['html', 'json']) === 'json';

/** A redirect can answer it. */
export const isNavigation = (req: Request): boolean =>
  (req.method === 'GET' || req.method === 'HEAD') && prefersHtml(req);

/** Rejects bytes that are not UTF-8, and NUL, which the database cannot store, so handlers can trust the address. */
export const requireWholeAddress: RequestHandler = (req, _res, next) => {
  if (req.headers.host === undefined && req.httpVersion === '1.1')
    throw new AppError('invalid_request', 'Send a Host header.');
  if (hasTwoHosts(req)) throw new AppError('invalid_request', 'Send only one Host header.');
  if (req.url.includes('%') && !isText(req))
    throw new AppError('invalid_request', 'The address must be percent-encoded UTF-8 without NUL.');
  next();
};

/** Node keeps the first Host header, and a proxy may have read the second (RFC 9112, 3.2). */
function hasTwoHosts({ rawHeaders }: Request): boolean {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.length === 4 && rawHeaders[i]!.toLowerCase() === 'host') count++;
  return count > 1;
}

function isText(req: Request): boolean {
  const [path = '', query = ''] = req.url.split(/\?(.*)/s, 2);
  try {
    const [decodedPath, decodedQuery] = [decodeURIComponent(path), decodeURIComponent(query)];
    // Pages report NUL in the query themselves, beside the field.
    return !decodedPath.includes('\0') && (prefersHtml(req) || !decodedQuery.includes('\0'));
  } catch {
    return false;
  }
}

/**
 * RFC 9110, 13.1.2. Express's `fresh` returns false if `Cache-Control: no-cache` is sent, as `fetch` does; that header
 * only asks for revalidation, which a 304 provides.
 */
export function hasCopy(req: Request<object>, etag: string): boolean {
  const header = req.headers['if-none-match'];
  if (header === undefined) return false;
  const opaque = etag.replace(/^W\//, '');
  return header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === opaque);
}

const clockSetting = 'clock';

export const setClock = (app: Express, clock: Clock): void => void app.set(clockSetting, clock);

export const clockOf = (req: Request<object>): Clock => req.app.get(clockSetting) as Clock;

const originSetting = 'own origin';

/** A proxy may not forward the protocol, and cookie-session would then refuse to set `Secure` cookies. */
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

/** PUBLIC_URL, or the request's own origin. */
export const originOf = (req: Request<object>): string =>
  (req.app.get(originSetting) as string | undefined) ?? `${req.protocol}://${req.host}`;

/** The URL of the requested page for other sites, without its query. Undefined without PUBLIC_URL. */
export const publicAddressOf = (req: Request<object>): string | undefined =>
  isOriginOfRequest(req) ? undefined : originOf(req) + req.baseUrl + req.path;

export const isOriginOfRequest = (req: Request<object>): boolean => req.app.get(originSetting) === undefined;

/** Undefined for a page of another site, or without `Referer`. */
export function ownReferer(req: Request): string | undefined {
  const { referer } = req.headers;
  if (referer === undefined || !URL.canParse(referer)) return undefined;
  const { origin, pathname, search } = new URL(referer);
  return origin === originOf(req) ? pathname + search : undefined;
}

const uuidShape = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** Any other value would cause a database error. */
export const isUuid = (value: unknown): value is string => typeof value === 'string' && uuidShape.test(value);

/** Lower case. A malformed id is reported like an unknown one. */
export function readPathId(req: Request, name: string, thing: string): string {
  const id = req.params[name];
  if (!isUuid(id)) throw new AppError('not_found', `There is no such ${thing}.`);
  return id.toLowerCase();
}

export const requestIdOf = (res: Response): string => String(res.getHeader('X-Request-Id') ?? '');

const clientAddress = Symbol('client address');

/**
 * The log, limits and audit read `req.ip`, and Express parses the headers each time: 0.6 ms for the longest header
 * ("JSON and HTTP by hand" in bench/README.md).
 */
export function rememberClientAddress(app: Express): void {
  const trust = app.get('trust proxy fn') as (address: string, hop: number) => boolean;
  app.set('trust proxy fn', (address: string, hop: number) => trust(withoutPort(address), hop));
  const express = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(app.request), 'ip')!;
  Object.defineProperty(app.request, 'ip', {
    configurable: true,
    enumerable: true,
    get(this: Request & { [clientAddress]?: string | undefined }) {
      return (this[clientAddress] ??= app.get('trust proxy')
        ? withoutPort(express.get!.call(this) as string | undefined)
        : this.socket.remoteAddress);
    },
  });
}

const bracketed = /^"?\[([\da-f:.]+)\](?::\d{1,5})?"?$/i;
const withPort = /^((?:::ffff:)?\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/i;

/** Some proxies append the port, which differs for each connection, so limits per address would never be reached. */
const withoutPort = <Address extends string | undefined>(address: Address): Address | string =>
  (address && (bracketed.exec(address) ?? withPort.exec(address))?.[1]) ?? address;

/** The abort reason is an error that no caller sees. */
export function hangUpSignal(res: Response): AbortSignal {
  const gone = new AbortController();
  res.once('close', () => {
    if (!res.writableEnded)
      gone.abort(new AppError('invalid_request', 'The connection closed before the response was complete.'));
  });
  return gone.signal;
}

const acceptableId = /^[\w.:-]{1,64}$/;

export interface Caller {
  orgId?: string | undefined;
  keyId?: string | undefined;
  userId?: string | undefined;
}

/** Logs only the path, because query strings may contain secrets. */
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
      metrics.requestSeconds.observe({ method: req.method, route: routeOf(req), status }, seconds);
      const error = res.locals.error as AppError | undefined;
      const line = {
        requestId,
        method: req.method,
        path: maskPath(req.originalUrl, mask),
        status,
        ms: Math.round(seconds * 1e5) / 100,
        // The caller controls X-Forwarded-For if TRUST_PROXY is higher than the number of proxies.
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

/** Frequent requests of little interest are logged at `debug` unless they fail. */
const routine = /^\/(?:(?:dashboard|docs)\/assets\/|(?:healthz|readyz|metrics)(?:$|\?))/;

const face = /^\/(?:api|dashboard|operator)(?=\/|$|\?)/;

/**
 * Unknown routes share one value, so that scanners cannot flood the metrics. A failed request has left its router, so
 * its mount point is read from the URL.
 */
function routeOf(req: Request): string {
  const path: unknown = (req.route as { path?: unknown } | undefined)?.path;
  if (typeof path !== 'string') return 'unmatched';
  const mount = req.baseUrl || (face.exec(req.originalUrl)?.[0] ?? '');
  return path.startsWith(mount) && mount !== '' ? path : mount + path;
}
