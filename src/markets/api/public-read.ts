import cors from 'cors';
import type { Request, RequestHandler } from 'express';
import { perAddressLimit } from '../../core/http/rate-limit.js';
import { requireReady, type Context } from '../../core/http/context.js';
import { jsonHeaders } from '../../core/http/headers.js';

const PREFLIGHT_SECONDS = 3600;

/** Credentials are neither required nor read. */
export function readLayer(context: Context): RequestHandler {
  const ready = requireReady(context.lifecycle);
  const limit = perAddressLimit(context, { name: 'reads', perMinute: context.config.limits.readsPerMinute });
  const crossOrigin = cors({
    origin: context.config.corsOrigins,
    methods: ['GET', 'HEAD'],
    allowedHeaders: ['Accept', 'Cache-Control', 'If-None-Match', 'Last-Event-ID', 'X-Request-Id'],
    exposedHeaders: ['ETag', 'RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id'],
    maxAge: PREFLIGHT_SECONDS,
  });
  const afterOrigin: RequestHandler = (req, res, next) =>
    ready(req, res, (error?: unknown) => (error ? next(error) : void limit(req, res, next)));
  return (req, res, next) => {
    void jsonHeaders(req, res, () => undefined);
    // CORS costs more than the response itself.
    if (req.headers.origin === undefined && req.method !== 'OPTIONS') void afterOrigin(req, res, next);
    else crossOrigin(req, res, () => void afterOrigin(req, res, next));
  };
}

export const publicRead = { tag: 'Market data', credential: 'none', limit: 'reads' } as const;

export const hasQuery = (req: Request<object>): boolean => req.url.includes('?');
