import type { Request } from 'express';
import type { Example, ExampleRequest } from '../../core/reference/define-route.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';

/** What every route has that anyone may read. It stands behind `readLayer`. */
export const publicRead = { method: 'get', tag: 'Market data', credential: 'none', limit: 'reads' } as const;

const source = (part: string) => ({
  part,
  name: 'simulated',
  state: 'ok',
  fetchedAt: exampleWorld.now,
  failingSince: null,
  notes: [],
});

/** How old the market data are in the example world. */
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
    summary: 'A station that nothing settles on',
    detail: 'There is no such station.',
    request,
  });

export const unknownParameter = (name: string, request: ExampleRequest): Example =>
  problemExample('invalid_request', {
    summary: 'A parameter that the route does not know',
    at: `/${name}`,
    detail: 'is not a known field',
    request,
  });

export const hasQuery = (req: Request<object>): boolean => req.url.includes('?');
