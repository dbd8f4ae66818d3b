import { createHash, timingSafeEqual } from 'node:crypto';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { namedObject } from '../core/http/fields.js';
import { AppError } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { notFound } from '../core/http/problem.js';
import { defineRoute, json } from '../core/reference/define-route.js';
import { databaseStates, type ReadinessWatch } from './readiness.js';

interface HealthDeps extends Context {
  readiness: ReadinessWatch;
}

const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

const readinessSchema = namedObject('Readiness', {
  status: z.enum(['starting', 'draining', ...databaseStates]),
  reason: z.string().optional().meta({ description: "The problem that needs an operator's attention." }),
  groupsAway: z.array(z.string()).optional().meta({
    description:
      'In a sharded database: the groups that cannot be reached. Calls of their Organizations get 503; all others are served.',
  }),
});

export const healthRoutes = [
  defineRoute({
    at: 'GET /healthz',
    operationId: 'getHealth',
    tag: 'Service',
    credential: 'none',
    responses: { 200: json('Alive.', healthSchema) },
    handler: () => (_req, res) => {
      res.json({ status: 'ok' });
    },
  }),
  defineRoute({
    at: 'GET /readyz',
    operationId: 'getReadiness',
    tag: 'Service',
    credential: 'none',
    responses: {
      200: json('Ready.', readinessSchema),
      503: json('Not ready. Send traffic elsewhere.', readinessSchema),
    },
    handler:
      ({ readiness }: HealthDeps) =>
      async (_req, res) => {
        const answer = await readiness.read();
        res.status(answer.status === 'ready' ? 200 : 503).json(answer);
      },
  }),
  defineRoute({
    at: 'GET /metrics',
    operationId: 'getMetrics',
    tag: 'Service',
    credential: 'none',
    responses: {
      200: { description: 'Prometheus text format, version 0.0.4.', content: { 'text/plain': null } },
    },
    handler: ({ config, metrics }: HealthDeps) => [
      requireMetricsToken(config),
      async (_req, res) => {
        res.type(metrics.registry.contentType).send(await metrics.registry.metrics());
      },
    ],
  }),
];

/** Without a configured token, production hides the metrics. */
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
