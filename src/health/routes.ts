import { Router } from 'express';
import type { Context } from '../context.js';
import { isMigrated } from '../db/migrate.js';

/** `/healthz` (the process), `/readyz` (may traffic come), `/metrics` (Prometheus). */
export function healthRoutes({ db, lifecycle, metrics }: Context): Router {
  const router = Router();
  router.get('/healthz', (_req, res) => {
    res.json({ status: 'ok' });
  });
  router.get('/readyz', async (_req, res) => {
    const status = lifecycle.state === 'ready' ? await databaseState(db) : lifecycle.state;
    res.status(status === 'ready' ? 200 : 503).json({ status });
  });
  router.get('/metrics', async (_req, res) => {
    res.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
  return router;
}

async function databaseState(db: Context['db']): Promise<'ready' | 'database_unreachable' | 'not_migrated'> {
  try {
    return (await isMigrated(db)) ? 'ready' : 'not_migrated';
  } catch {
    return 'database_unreachable';
  }
}
