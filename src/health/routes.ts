import { createHash, timingSafeEqual } from 'node:crypto';
import { Router, type RequestHandler } from 'express';
import type { Context } from '../core/http/context.js';
import { AppError } from '../core/errors.js';
import { notFound } from '../core/http/problem.js';
import { createReadiness } from './readiness.js';

/** `/healthz` (the process), `/readyz` (may traffic come), `/metrics` (Prometheus). */
export function healthRoutes({ config, db, lifecycle, log, metrics }: Context): Router {
  const router = Router();
  const readDatabase = createReadiness({ db, log });
  router.get('/healthz', (_req, res) => {
    res.json({ status: 'ok' });
  });
  router.get('/readyz', async (_req, res) => {
    const readiness = lifecycle.state === 'ready' ? await readDatabase() : { status: lifecycle.state };
    res.status(readiness.status === 'ready' ? 200 : 503).json(readiness);
  });
  router.get('/metrics', requireMetricsToken(config), async (_req, res) => {
    res.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
  return router;
}

/** Where there is a token in the configuration, it is needed. Without one, production shows nothing here. */
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
