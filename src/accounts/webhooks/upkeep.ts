import type { ShardGroup, Template, TextRow } from '../../core/db/client.js';
import type { Job } from '../../core/db/jobs.js';
import type { Context } from '../../core/http/context.js';
import { firstIdOf } from '../../core/ids.js';
import { DAY_MS } from '../../core/time.js';
import { ONCE_KEPT_DAYS } from './outbox.js';
import { deleteAttempts, deleteDeliveries, deleteMessages, START, tend } from './statements.js';

const KEPT_MS = 30 * DAY_MS;
/** Rows per endpoint. */
const BATCH = 1_000;
/** The next run processes the rest. */
const MAX_STATEMENTS = 500;

type UpkeepDeps = Pick<Context, 'db' | 'clock' | 'metrics'>;

export const webhookJobs = (deps: UpkeepDeps): Job[] => [
  { name: 'sweep-webhooks', schedule: '*/15 * * * * *', run: () => tendWebhooks(deps) },
  { name: 'delete-old-webhooks', schedule: '0 37 * * * *', run: () => deleteOldWebhooks(deps) },
];

export async function tendWebhooks({ db, clock, metrics }: UpkeepDeps): Promise<void> {
  const now = new Date(clock.now()).toISOString();
  let waiting = 0;
  let overdueSeconds = 0;
  await Promise.all(
    db.shards.groups.map((group) =>
      runForEndpoints(group, tend, [now, BATCH], (row) => {
        if (isFull(row)) return true;
        waiting += Number(row.waiting ?? 0);
        overdueSeconds = Math.max(overdueSeconds, Number(row.overdueSeconds ?? 0));
        return false;
      }),
    ),
  );
  metrics.webhooksWaiting.set(waiting);
  metrics.webhooksOverdue.set(overdueSeconds);
}

/** In small transactions. */
export async function deleteOldWebhooks({ db, clock }: Omit<UpkeepDeps, 'metrics'>): Promise<void> {
  const end = new Date(clock.now() - KEPT_MS);
  const onceEnd = new Date(clock.now() - ONCE_KEPT_DAYS * DAY_MS);
  for (const group of db.shards.groups) {
    for (const template of [deleteAttempts, deleteDeliveries])
      await runForEndpoints(group, template, [firstIdOf(end.getTime()), BATCH], isFull);
    for (let statements = 0; statements < MAX_STATEMENTS; statements++) {
      const [row] = await group.run(deleteMessages, [end.toISOString(), onceEnd.toISOString(), BATCH]);
      if (Number(row?.deleted) < BATCH) break;
    }
  }
}

const isFull = ({ changed }: TextRow): boolean => Number(changed) >= BATCH;

/** @param hasMore the statement must run again for the same endpoints */
async function runForEndpoints(
  group: ShardGroup,
  template: Template,
  values: unknown[],
  hasMore: (row: TextRow) => boolean,
): Promise<void> {
  let cursor = START;
  for (let statements = 0; statements < MAX_STATEMENTS; statements++) {
    const [row] = await group.run(template, [...cursor.split(' '), ...values]);
    if (!row) return;
    if (hasMore(row)) continue;
    if (row.cursor == null) return;
    cursor = row.cursor;
  }
}
