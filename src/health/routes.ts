import { createHash, timingSafeEqual } from 'node:crypto';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { notFound } from '../core/http/problem.js';
import { defineRoute, json } from '../core/reference/define-route.js';
import { problemExample } from '../core/reference/problem-examples.js';
import { databaseStates, type ReadinessWatch } from './readiness.js';

interface HealthDeps extends Context {
  readiness: ReadinessWatch;
}

const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

const readinessSchema = z
  .object({
    status: z.enum(['starting', 'draining', ...databaseStates]),
    reason: z.string().optional().meta({ description: "The problem that needs an operator's attention." }),
    groupsAway: z.array(z.string()).optional().meta({
      description:
        'In a sharded database: the groups that cannot be reached. Calls of their Organizations get 503; all others are served.',
    }),
  })
  .meta({ id: 'Readiness' });

/** `/healthz` (process is alive), `/readyz` (ready for traffic), `/metrics` (Prometheus). */
export const healthRoutes = [
  defineRoute({
    method: 'get',
    path: '/healthz',
    operationId: 'getHealth',
    tag: 'Service',
    summary: 'Is the process alive?',
    description:
      'For liveness probes. Responds as long as the process runs, whatever the state of the database.',
    credential: 'none',
    responses: { 200: json('Alive.', healthSchema) },
    examples: [{ name: 'alive', summary: 'Alive', request: {}, answer: { status: 'ok' } }],
    handler: () => (_req, res) => {
      res.json({ status: 'ok' });
    },
  }),
  defineRoute({
    method: 'get',
    path: '/readyz',
    operationId: 'getReadiness',
    tag: 'Service',
    summary: 'Is the service ready?',
    description:
      'For load balancers. Also queries the database, at most once a second. 503 while the service starts or drains before it stops; while the database is unreachable, read-only, lacks a migration or needs a newer version of Gauge (`outdated`); and while the clocks of the instance and the database differ by more than a minute. In the last two cases, every other call to the instance is 503 as well. A difference of more than 5 seconds is reported in `reason`.',
    credential: 'none',
    responses: {
      200: json('Ready.', readinessSchema),
      503: json('Not ready. Send traffic elsewhere.', readinessSchema),
    },
    examples: [
      { name: 'ready', summary: 'Ready', request: {}, answer: { status: 'ready' } },
      {
        name: 'databaseUnreachable',
        summary: 'The database cannot be reached',
        circumstance: 'database_unreachable',
        request: {},
        status: 503,
        answer: { status: 'database_unreachable', reason: 'the database cannot be reached' },
      },
      {
        name: 'draining',
        summary: 'The service is shutting down',
        circumstance: 'draining',
        request: {},
        status: 503,
        answer: { status: 'draining' },
      },
    ],
    handler:
      ({ readiness }: HealthDeps) =>
      async (_req, res) => {
        const answer = await readiness.read();
        res.status(answer.status === 'ready' ? 200 : 503).json(answer);
      },
  }),
  defineRoute({
    method: 'get',
    path: '/metrics',
    operationId: 'getMetrics',
    tag: 'Service',
    summary: 'Metrics for Prometheus',
    description:
      'Request durations by route and status, usage events by outcome, sizes and durations of ingestion statements, job runs by outcome, the state of the limit store, and process metrics. Names of Organizations, products or keys never appear. If METRICS_TOKEN is set, it is the bearer token. Without it, this route is 404 in production.',
    credential: 'none',
    responses: {
      200: { description: 'Prometheus text format, version 0.0.4.', content: { 'text/plain': null } },
    },
    examples: [
      {
        name: 'metrics',
        summary: 'One of many lines',
        request: {},
        answer: '# HELP gauge_usage_events_total Usage events by outcome: accepted, deduped, rejected.',
      },
      problemExample('missing_key', {
        summary: 'No token',
        circumstance: 'metrics_protected',
        detail: 'Send the token of METRICS_TOKEN as `Authorization: Bearer …`.',
        request: {},
      }),
      problemExample('invalid_key', {
        summary: 'A wrong token',
        circumstance: 'metrics_protected',
        detail: 'Send the token of METRICS_TOKEN as `Authorization: Bearer …`.',
        request: { credential: 'wrongOperator' },
      }),
    ],
    handler: ({ config, metrics }: HealthDeps) => [
      requireMetricsToken(config),
      async (_req, res) => {
        res.type(metrics.registry.contentType).send(await metrics.registry.metrics());
      },
    ],
  }),
];

/** Requires the configured token. Without one, production hides the metrics. */
function requireMetricsToken({ metricsToken, production }: Context['config']): RequestHandler {
  if (metricsToken === undefined && production) return notFound;
  const expected = metricsToken === undefined ? undefined : digest(metricsToken);
  return (req, _res, next) => {
    const given = /^bearer +(.+)$/i.exec(req.headers.authorization ?? '')?.[1];
    if (expected && !(given !== undefined && timingSafeEqual(digest(given), expected)))
      throw new AppError(
        given === undefined ? 'missing_key' : 'invalid_key',
        'Send the token of METRICS_TOKEN as `Authorization: Bearer …`.',
      );
    next();
  };
}

const digest = (value: string) => createHash('sha256').update(value).digest();
