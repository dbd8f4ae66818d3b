import { randomUUID } from 'node:crypto';
import type { Express, Request, RequestHandler, Response } from 'express';
import { AppError } from '../errors.js';
import { createMask, maskPath } from '../log/log-mask.js';
import type { Context } from './context.js';

/** The `X-Request-Id` of a request, as its answer carries it. */
export const requestIdOf = (res: Response): string => String(res.getHeader('X-Request-Id') ?? '');

const address = Symbol('client address');

/**
 * Lets `req.ip` be worked out once per request. The log, the limits and the audit each ask for it, and Express would
 * read the forwarding headers every time.
 */
export function rememberClientAddress(app: Express): void {
  const express = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(app.request), 'ip')!;
  Object.defineProperty(app.request, 'ip', {
    configurable: true,
    enumerable: true,
    get(this: Request & { [address]?: string | undefined }) {
      // Without a trusted proxy the headers do not matter.
      return (this[address] ??=
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
const mask = createMask([]);

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
  { log, accessLog, metrics }: Context,
  callerOf: (req: Request, res: Response) => Caller,
): RequestHandler {
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
        ip: req.ip,
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
