import type { Source } from '../../accounts/identity/source.js';
import type { Tx } from '../../core/db/client.js';
import { FIRST } from '../../core/db/walk.js';
import type { Context } from '../../core/http/context.js';
import { inChunks } from '../../core/steps.js';
import { SECOND_MS } from '../../core/time.js';
import { moveOrganizations } from './organization-plans.js';
import { countMovable, listMovable, type Movable, type Plan } from './queries.js';

/** In one transaction, which holds locks that events wait for if credits are voided. */
const BATCH = 100;
/** Beside ingestion, one transaction at a time would get a small share of a busy database. */
const AT_ONCE = 4;
/** A call ends before proxies give up on it; the next one continues. */
const MAX_MOVE_MS = 20 * SECOND_MS;

/** Moves to the newest version. Stops at the first transaction that fails, and when the time is up. */
export async function moveAll(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  { slug: plan, version, definition }: Plan,
  which: Pick<Movable, 'from' | 'orgIds'>,
  change: (work: (tx: Tx, source: Source) => Promise<number>) => Promise<number>,
): Promise<{ version: number; moved: number; remaining: number }> {
  const movable = { ...which, plan, version };
  const move = (orgIds: string[]) =>
    change((tx, source) => moveOrganizations(tx, { ...movable, orgIds }, definition, source));
  const until = clock.now() + MAX_MOVE_MS;
  let moved = 0;
  for (let after = FIRST; clock.now() < until;) {
    const orgIds = await listMovable(db.orm, movable, after, BATCH * AT_ONCE);
    if (orgIds.length === 0) break;
    after = orgIds.at(-1)!;
    for (const count of await Promise.all(inChunks(orgIds, BATCH).map(move))) moved += count;
  }
  return { version, moved, remaining: await countMovable(db.orm, movable) };
}
