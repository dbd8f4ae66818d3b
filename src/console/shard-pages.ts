import type { Router } from 'express';
import { listPlacements, sumByServer, type Placement } from '../core/db/placement.js';
import { renderPage } from '../core/pages/layout.js';
import { pageRouter } from '../core/pages/page-router.js';
import { findGroupsAway } from '../health/shards.js';
import type { ConsoleDeps } from './page.js';

/** `/console/shards`: where the groups of a sharded database are, what they hold, and which cannot be reached. */
export function shardPages(deps: ConsoleDeps): Router {
  const { db } = deps;
  const router = pageRouter();
  router.get('/shards', async (req, res) => {
    const away = await findGroupsAway(db.shards);
    // Sizes are had from all servers or not at all.
    const placements = away?.groups.length === 0 ? await listPlacements(db.orm) : [];
    const known = new Map(placements.map((placement): [string, Placement] => [placement.id, placement]));
    const groups = db.shards.groups.map(({ id, worker, load }) => ({
      id,
      worker,
      load,
      held: known.get(id),
      isAway: away?.groups.includes(id) ?? false,
    }));
    const page = { view: 'console/shards', title: 'Shard groups', section: 'shards' };
    const workers = sumByServer(placements);
    const mean = workers.reduce((sum, { bytes }) => sum + bytes, 0) / Math.max(1, workers.length);
    await renderPage(deps, req, res, page, {
      isSharded: away !== undefined,
      groups: groups.sort((a, b) => a.worker.localeCompare(b.worker) || a.id.localeCompare(b.id)),
      workers: workers.map((worker) => ({ ...worker, timesMean: worker.bytes / Math.max(1, mean) })),
    });
  });
  return router;
}
