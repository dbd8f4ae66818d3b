import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { groupBy } from '../../core/collections.js';
import { intArray, textArray } from '../../core/db/sql.js';
import type { ShardGroup } from '../../core/db/client.js';
import { describeOutage } from '../../core/db/outage.js';
import type { Context } from '../../core/http/context.js';
import { MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { createAttempts, logOf, type Delivery, type DispatcherDeps } from './attempts.js';
import { CHAT_PAUSE_MS, isChat, type Chat, type Format } from './chat.js';
import type { DeliveryKey } from './queries.js';
import { createReceivers } from './send.js';
import { claim, giveBack, START } from './statements.js';

/** An instance without a result by then is considered dead. Must exceed the time to make and record an attempt. */
const LEASE_MS = MINUTE_MS;
const POLL_MS = 500;
const GAP_MS = 20;
const MAX_CLAIMED = 200;
/** The remaining deliveries are released. */
const FINISH_MS = 5 * SECOND_MS;

/** Instances share the work. If one dies while sending, the message is sent again with the same `webhook-id`. */
export function createDispatcher(deps: DispatcherDeps & Pick<Context, 'lifecycle'>, chat: Chat) {
  const { db, log, lifecycle } = deps;
  const stopping = new AbortController();
  // Each shard group adds a listener to this signal.
  setMaxListeners(0, stopping.signal);
  const sweeper = createSweeper(deps, chat, stopping.signal);
  const loops = new Map<ShardGroup, Promise<void>>();

  /** An unreachable group delays only its own deliveries. */
  async function watch(group: ShardGroup): Promise<void> {
    let failure: string | undefined;
    while (!stopping.signal.aborted && db.shards.groups.includes(group)) {
      let begun = 0;
      try {
        if (!lifecycle.refusal) begun = await sweeper.sweep(group);
        if (failure !== undefined) log.info('webhooks can be read again');
        failure = undefined;
      } catch (error) {
        const reason = describeOutage(error) ?? String(error);
        if (reason !== failure) log.error({ reason }, 'webhooks cannot be read; deliveries wait');
        failure = reason;
      }
      await nextLook(begun);
    }
    loops.delete(group);
  }

  /** Shortly after a sweep that found deliveries; otherwise when a running delivery finishes, or at the next poll. */
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
    async sweep(): Promise<void> {
      await Promise.all(db.shards.groups.map((group) => sweeper.sweep(group)));
      await Promise.all(sweeper.underWay.values());
    },
    start(): void {
      watchAll();
      supervisor = setInterval(watchAll, SECOND_MS);
    },
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

function createSweeper(deps: DispatcherDeps, chat: Chat, stopping: AbortSignal) {
  const { db, clock, log } = deps;
  const attempts = createAttempts(deps, chat);
  const receivers = createReceivers();
  const underWay = new Map<Delivery, Promise<void>>();
  const waiting: (() => void)[] = [];
  const nextFinished = () => new Promise<void>((resolve) => waiting.push(resolve));
  const notifyFinished = () => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  stopping.addEventListener('abort', notifyFinished);

  /** @param deliveries one, or several to the same chat */
  function begin(group: ShardGroup, deliveries: Delivery[]): void {
    const { endpointId } = deliveries[0]!;
    receivers.begin(endpointId);
    const work = attempts
      .make(group, deliveries, (answer) => receivers.finish(endpointId, answer))
      .catch((error: unknown) =>
        log.error(
          { ...logOf(deliveries[0]!), err: error },
          'the result of a webhook attempt could not be recorded; the webhook will be resent',
        ),
      )
      .finally(() => {
        for (const delivery of deliveries) underWay.delete(delivery);
        notifyFinished();
      });
    for (const delivery of deliveries) underWay.set(delivery, work);
  }

  async function giveLeaseBack({ orgId, endpointId, messageId, attempt }: Delivery): Promise<void> {
    try {
      const group = await db.shards.locateOrganization(orgId);
      const ids = [[orgId], [endpointId], [messageId]].map(textArray);
      await group.run(giveBack, [...ids, intArray([attempt]), new Date(clock.now()).toISOString()]);
    } catch (error) {
      log.warn({ err: error }, "a webhook's lease could not be returned; the webhook waits until it expires");
    }
  }

  return {
    underWay,
    nextFinished,
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
        const range = [...cursor.split(' '), ...timesOf(clock.now())];
        const values: unknown[] = [...range, others, textArray(ids), intArray(rooms), free];
        const [head, ...rows] = await group.run<ClaimRow>(claim, values);
        const claimed = rows.map(toDelivery);
        for (const deliveries of toPosts(claimed)) begin(group, deliveries);
        begun += claimed.length;
        // A statement that stopped at its limit continues after the last endpoint reached.
        cursor = claimed.length === free ? lastEndpoint(claimed) : head?.cursor;
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

/** One message each, or all messages claimed for a chat. */
function toPosts(claimed: Delivery[]): Delivery[][] {
  return [
    ...groupBy(claimed, (one) =>
      isChat(one.format) ? one.endpointId : one.messageId + one.endpointId,
    ).values(),
  ];
}

/** Now, the end of a lease, and the end of a chat's pause. */
const timesOf = (nowMs: number): string[] =>
  [nowMs, nowMs + LEASE_MS, nowMs + CHAT_PAUSE_MS].map((ms) => new Date(ms).toISOString());

const lastEndpoint = (claimed: Delivery[]): string =>
  claimed.map(({ orgId, endpointId }) => `${orgId} ${endpointId}`).reduce((a, b) => (a > b ? a : b));

/** The first row has only the cursor; the others have everything else. */
interface ClaimRow extends DeliveryKey {
  cursor: string | null;
  attempt: string;
  failures: string;
  type: string;
  data: string;
  /** Unix seconds. */
  createdAt: string;
  format: Format;
  url: string;
  secret: string;
  previousSecret: string | null;
}

function toDelivery({ orgId, endpointId, messageId, type, format, url, data, ...row }: ClaimRow): Delivery {
  return {
    orgId,
    endpointId,
    messageId,
    attempt: Number(row.attempt),
    failures: Number(row.failures),
    format,
    url,
    secrets: [row.secret, ...(row.previousSecret === null ? [] : [row.previousSecret])],
    type,
    data,
    createdAtMs: Math.floor(Number(row.createdAt) * 1000),
  };
}
