import PQueue from 'p-queue';
import { FIRST } from '../../core/db/walk.js';
import type { Context } from '../../core/http/context.js';
import { SECOND_MS } from '../../core/time.js';
import { listMovable, type Movable } from './queries.js';

/** In one transaction. */
const BATCH = 25;
const AT_ONCE = 4;
/** A call ends before proxies give up on it; the next one continues. */
const MAX_MOVE_MS = 20 * SECOND_MS;

/** Several transactions of bounded size. Stops at the first that fails, and when the time is up. */
export async function moveAll(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  movable: Movable,
  move: (orgIds: string[]) => Promise<number>,
): Promise<number> {
  const queue = new PQueue({ concurrency: AT_ONCE });
  const until = clock.now() + MAX_MOVE_MS;
  let moved = 0;
  for (let after = FIRST; clock.now() < until;) {
    const orgIds = await listMovable(db.orm, movable, after, BATCH * AT_ONCE);
    if (orgIds.length === 0) break;
    after = orgIds.at(-1)!;
    const batches = Array.from({ length: AT_ONCE }, (_, i) => orgIds.slice(i * BATCH, (i + 1) * BATCH));
    const counts = await queue.addAll(
      batches.filter((batch) => batch.length > 0).map((batch) => () => move(batch)),
    );
    moved += counts.reduce((sum, count) => sum + count, 0);
  }
  return moved;
}
