import cors from 'cors';
import type { RequestHandler } from 'express';
import type { Context } from '../../core/http/context.js';
import { perAddressLimit } from '../../core/http/address-limit.js';
import { requireReady } from '../../core/http/availability.js';
import { jsonHeaders } from '../../core/http/json-headers.js';

/** Browsers ask again after this long whether they may ask. */
const PREFLIGHT_SECONDS = 3600;

/**
 * What stands before every read of market data, in one layer: the headers of JSON, other sites' permission to read,
 * and the limit of the address. No credential is needed, and none is looked at.
 */
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
    // Without an origin there is nothing to permit, and asking the library costs more than the answer.
    if (req.headers.origin === undefined && req.method !== 'OPTIONS') void afterOrigin(req, res, next);
    else crossOrigin(req, res, () => void afterOrigin(req, res, next));
  };
}
