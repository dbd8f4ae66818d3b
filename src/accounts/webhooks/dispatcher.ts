import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { intArray, textArray } from '../../core/db/sql.js';
import type { ShardGroup, TextRow } from '../../core/db/client.js';
import { describeOutage } from '../../core/db/outage.js';
import { MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { createAttempts, logOf, type Delivery, type DispatcherDeps } from './attempts.js';
import { bodyOf, createReceivers } from './send.js';
import { claim, giveBack, START } from './statements.js';

/** An instance that has not said how an attempt went by then is taken to be gone. Longer than an attempt and its recording. */
const LEASE_MS = MINUTE_MS;
const POLL_MS = 500;
/** Between two looks for more. */
const GAP_MS = 20;
const MAX_CLAIMED = 200;
/** What is under way may finish when the service stops; then it is given back. */
const FINISH_MS = 5 * SECOND_MS;

/** Sends what is due. Several instances share the work; what one was sending when it ended is sent again, with the same `webhook-id`. */
export function createDispatcher(deps: DispatcherDeps) {
  const { db, log } = deps;
  const stopping = new AbortController();
  // Each group of a sharded database waits with it.
  setMaxListeners(0, stopping.signal);
  const sweeper = createSweeper(deps, stopping.signal);
  const loops = new Map<ShardGroup, Promise<void>>();

  /** A group that cannot be reached keeps only its own deliveries waiting. */
  async function watch(group: ShardGroup): Promise<void> {
    let failure: string | undefined;
    while (!stopping.signal.aborted && db.shards.groups.includes(group)) {
      let begun = 0;
      try {
        begun = await sweeper.sweep(group);
        if (failure !== undefined) log.info('webhooks are read again');
        failure = undefined;
      } catch (error) {
        const reason = describeOutage(error) ?? String(error);
        if (reason !== failure) log.error({ reason }, 'webhooks cannot be read; they wait');
        failure = reason;
      }
      await nextLook(begun);
    }
    loops.delete(group);
  }

  /** Soon after a look that found something, and when an endpoint has room again; otherwise with the next poll. */
  async function nextLook(begun: number): Promise<void> {
    const waitMs = begun > 0 ? GAP_MS : POLL_MS;
    const poll = pause(waitMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    if (begun > 0 || sweeper.underWay.size === 0) return poll;
    await Promise.race([poll, sweeper.nextFinished()]);
    await pause(GAP_MS);
  }

  const watchAll = () => {
    for (const group of db.shards.groups) if (!loops.has(group)) loops.set(group, watch(group));
  };
  let supervisor: NodeJS.Timeout | undefined;

  return {
    /** Delivers what is due now, and resolves when that is recorded. */
    async sweep(): Promise<void> {
      await Promise.all(db.shards.groups.map((group) => sweeper.sweep(group)));
      await Promise.all(sweeper.underWay.values());
    },
    start(): void {
      watchAll();
      supervisor = setInterval(watchAll, SECOND_MS);
    },
    /** Finishes what is under way, or gives it back to other instances. */
    async stop(): Promise<void> {
      clearInterval(supervisor);
      stopping.abort();
      await Promise.all(loops.values());
      await Promise.race([
        Promise.all(sweeper.underWay.values()),
        pause(FINISH_MS, undefined, { ref: false }),
      ]);
      await sweeper.close();
    },
  };
}

/** Claims what is due, and keeps what is under way. */
function createSweeper(deps: DispatcherDeps, stopping: AbortSignal) {
  const { db, clock, log } = deps;
  const attempts = createAttempts(deps);
  const receivers = createReceivers();
  const underWay = new Map<Delivery, Promise<void>>();
  const waiting: (() => void)[] = [];
  const nextFinished = () => new Promise<void>((resolve) => waiting.push(resolve));
  const tellFinished = () => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  stopping.addEventListener('abort', tellFinished);

  function begin(group: ShardGroup, delivery: Delivery): void {
    const { endpointId } = delivery;
    receivers.begin(endpointId);
    const work = attempts
      .make(group, delivery, (answer) => receivers.finish(endpointId, answer))
      .catch((error: unknown) =>
        log.error(
          { ...logOf(delivery), err: error },
          'a webhook is sent again: how it went could not be recorded',
        ),
      )
      .finally(() => {
        underWay.delete(delivery);
        tellFinished();
      });
    underWay.set(delivery, work);
  }

  async function giveLeaseBack({ orgId, endpointId, messageId, attempt }: Delivery): Promise<void> {
    try {
      const group = await db.shards.locateOrganization(orgId);
      const ids = [[orgId], [endpointId], [messageId]].map(textArray);
      await group.run(giveBack, [...ids, intArray([attempt]), new Date(clock.now()).toISOString()]);
    } catch (error) {
      log.warn({ err: error }, 'a webhook waits for the end of its lease');
    }
  }

  return {
    underWay,
    nextFinished,
    /** Goes through the endpoints of a group once. @returns how many deliveries it began */
    async sweep(group: ShardGroup): Promise<number> {
      let begun = 0;
      let cursor: string | null | undefined = START;
      while (typeof cursor === 'string' && !stopping.aborted) {
        const free = Math.min(MAX_CLAIMED, receivers.free());
        if (free === 0) {
          await nextFinished();
          continue;
        }
        const { ids, rooms, others } = receivers.rooms();
        const now = clock.now();
        const times = [now, now + LEASE_MS].map((ms) => new Date(ms).toISOString());
        const values = [...cursor.split(' '), ...times, others, textArray(ids), intArray(rooms), free];
        const [head, ...rows]: TextRow[] = await group.run(claim, values);
        const claimed = rows.map(toDelivery);
        for (const delivery of claimed) begin(group, delivery);
        begun += claimed.length;
        // Where the statement was cut short it goes on behind the last endpoint that it came to.
        cursor = claimed.length === free ? lastEndpoint(claimed) : head?.[0];
      }
      return begun;
    },
    async close() {
      const left = [...underWay.keys()];
      attempts.close();
      await Promise.all(left.map(giveLeaseBack));
    },
  };
}

/** In the database's order of ids. */
const lastEndpoint = (claimed: Delivery[]): string =>
  claimed.map(({ orgId, endpointId }) => `${orgId} ${endpointId}`).reduce((a, b) => (a > b ? a : b));

function toDelivery(row: TextRow): Delivery {
  const [orgId, endpointId, messageId, attempt, failures, type, data, createdAt, url, secret, previous] =
    row as string[];
  const createdAtMs = Math.floor(Number(createdAt) * 1000);
  return {
    orgId: orgId!,
    endpointId: endpointId!,
    messageId: messageId!,
    attempt: Number(attempt),
    failures: Number(failures),
    url: url!,
    body: bodyOf(type!, new Date(createdAtMs), data!),
    secrets: [secret!, ...(previous === null ? [] : [previous!])],
    type: type!,
    createdAtMs,
  };
}
