import { setTimeout } from 'node:timers/promises';
import { byService, change } from '../../audit/change.js';
import type { Clock } from '../../core/clock.js';
import { retryOnConflict } from '../../core/db/conflict.js';
import type { Database, Template } from '../../core/db/client.js';
import { endStep } from './backfills.js';
import { listUnfinished, type Backfill } from './queries.js';
import { applyNext, discardNext, revertNext } from './statements.js';
import type { BackfillState } from './table.js';

const statements: Partial<Record<BackfillState, Template>> = {
  applying: applyNext,
  reverting: revertNext,
  discarding: discardNext,
};

/** Of one turn, a little less than the job's schedule. */
const TURN_MS = 1_500;
const BACKFILLS = 20;

interface Deps {
  db: Database;
  clock: Clock;
}

/**
 * Makes a turn of the work on backfills: chunk by chunk, each a commit of its own, with a rest as long as each took, which leaves
 * the database to others. What a turn leaves, the next one goes on with, on whichever instance.
 */
export function createBackfillRunner(
  { db, clock }: Deps,
  // The embedded database blocks the event loop for the time of a statement.
  { chunk = db.kind === 'embedded' ? 200 : 1_000, turnMs = TURN_MS } = {},
): () => Promise<void> {
  return async () => {
    const until = performance.now() + turnMs;
    for (const backfill of await listUnfinished(db.orm, BACKFILLS))
      if (!(await work({ db, clock }, backfill, chunk, until))) return;
  };
}

/** False if the turn is over. */
async function work(
  { db, clock }: Deps,
  backfill: Pick<Backfill, 'orgId' | 'id' | 'state'>,
  chunk: number,
  until: number,
): Promise<boolean> {
  const { orgId, id, state } = backfill;
  for (;;) {
    const startedAt = performance.now();
    if (startedAt > until) return false;
    const group = await db.shards.locateOrganization(orgId);
    const values = [orgId, id, chunk, new Date(clock.now()).toISOString()];
    const [row] = await retryOnConflict(() => group.run(statements[state]!, values));
    // Another instance is at it, or has ended it.
    if (!row) return true;
    if (row[0] === '0') {
      await change({ db, clock }, byService, (tx) => endStep(tx, backfill, new Date(clock.now())));
      return true;
    }
    await setTimeout(performance.now() - startedAt);
  }
}
