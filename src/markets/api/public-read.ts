import cors from 'cors';
import type { Request, RequestHandler } from 'express';
import { perAddressLimit } from '../../core/http/rate-limit.js';
import { requireReady, type Context } from '../../core/http/context.js';
import { jsonHeaders } from '../../core/http/headers.js';
import type { Example, ExampleRequest } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';

const PREFLIGHT_SECONDS = 3600;

/** JSON headers, CORS and a rate limit per IP address for all reads. Credentials are neither required nor read. */
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
    // Requests without an `Origin` header skip CORS, whose handling costs more than the response itself.
    if (req.headers.origin === undefined && req.method !== 'OPTIONS') void afterOrigin(req, res, next);
    else crossOrigin(req, res, () => void afterOrigin(req, res, next));
  };
}

export const publicRead = { method: 'get', tag: 'Market data', credential: 'none', limit: 'reads' } as const;

const source = (part: string) => ({
  part,
  name: 'simulated',
  state: 'ok',
  fetchedAt: exampleWorld.now,
  failingSince: null,
  notes: [],
});

export const freshness = {
  asOf: exampleWorld.now,
  sources: [source('markets'), source('forecasts')],
  ageSeconds: 0,
  stale: false,
};

export const notModified = (params: Record<string, string> = {}): Example => ({
  name: 'notModified',
  summary: 'Nothing has changed',
  request: { params, headers: { 'if-none-match': '*' } },
  status: 304,
});

export const unknownStation = (request: ExampleRequest): Example =>
  problemExample('unknown_station', {
    summary: 'A station without markets',
    detail: 'There is no such station.',
    request,
  });

export const notLoadedYet = (request: ExampleRequest): Example =>
  problemExample('market_data_unavailable', {
    summary: 'No market data loaded yet',
    circumstance: 'no_market_data',
    detail: 'No market data has been loaded yet.',
    request,
  });

export const unknownParameter = (name: string, request: ExampleRequest): Example =>
  problemExample('invalid_request', {
    summary: 'An unknown parameter',
    at: `/${name}`,
    detail: 'is not a known field',
    request,
  });

export const hasQuery = (req: Request<object>): boolean => req.url.includes('?');
