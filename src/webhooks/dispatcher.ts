import { setTimeout as pause } from 'node:timers/promises';
import { textArray, intArray } from '../core/db/array-literal.js';
import { createCoalescer, type Coalescer } from '../core/coalesce.js';
import { isDatabaseUnavailable, type ShardGroup, type TextRow } from '../core/db/client.js';
import { describeOutage } from '../core/db/outage.js';
import { ShardGroupGoneError } from '../core/db/shards.js';
import type { Context } from '../core/http/context.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../core/time.js';
import { createSecretBox } from '../identity/second-factor/secret-box.js';
import { disableEndpoint } from './endpoints.js';
import { createReceivers } from './receivers.js';
import { bodyOf, createSender, type Answer } from './send.js';
import { claim, giveBack, record, START } from './statements.js';

/** After the first attempt, and after each further one. */
const retryAfterMs = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];
/** Nothing but failures for so long disables an endpoint. */
const FAILING_MS = 5 * DAY_MS;
/** An instance that has not said how an attempt went by then is taken to be gone. Longer than an attempt and its recording. */
const LEASE_MS = MINUTE_MS;
const POLL_MS = 500;
/** Between two looks for more. */
const GAP_MS = 20;
const MAX_CLAIMED = 200;
/** What is under way may finish when the service stops; then it is given back. */
const FINISH_MS = 5 * SECOND_MS;
const RECORD_AGAIN_AFTER_MS = [200, 1_000, 3_000];

interface Delivery {
  orgId: string;
  endpointId: string;
  messageId: string;
  attempt: number;
  failures: number;
  url: string;
  body: string;
  /** As they are stored, newest first. */
  secrets: string[];
  createdAtMs: number;
  log: { orgId: string; endpointId: string; webhookId: string; type: string; attempt: number };
}

interface Outcome extends Answer {
  delivery: Delivery;
  status: 'waiting' | 'delivered' | 'failed';
  at: Date;
  durationMs: number;
  nextAttemptAt: Date;
}

type DispatcherDeps = Pick<Context, 'config' | 'db' | 'clock' | 'log' | 'metrics'>;

export interface Dispatcher {
  /** Delivers what is due now, and resolves when that is recorded. */
  sweep(): Promise<void>;
  start(): void;
  /** Finishes what is under way, or gives it back to other instances. */
  stop(): Promise<void>;
}

/** Sends what is due. Several instances share the work; what one was sending when it ended is sent again, with the same `webhook-id`. */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { config, db, clock, log, metrics } = deps;
  const { production, webhooksAllowPrivate: allowsPrivate } = config;
  const sender = createSender({ production, allowsPrivate });
  const box = createSecretBox(config.secretKeys, 'webhook secret');
  const receivers = createReceivers();
  const underWay = new Map<Delivery, Promise<void>>();
  const loops = new Map<ShardGroup, Promise<void>>();
  const stopping = new AbortController();
  let isClosing = false;
  let wake: (() => void)[] = [];

  const recorders = new Map<ShardGroup, Coalescer<Outcome, void>>();
  function recorderOf(group: ShardGroup): Coalescer<Outcome, void> {
    const open = recorders.get(group);
    if (open) return open;
    const recorder = createCoalescer<Outcome, void>({
      flush: async (outcomes) => {
        await recordAll(group, outcomes);
        return outcomes.map(() => undefined);
      },
      parallel: 1,
      fullWeight: MAX_CLAIMED,
      maxWeight: MAX_CLAIMED,
      queueLimit: { weight: Infinity, bytes: Infinity },
    });
    recorders.set(group, recorder);
    return recorder;
  }

  /** What cannot be recorded is sent again when its lease has ended. */
  async function recordAll(group: ShardGroup, outcomes: Outcome[]): Promise<void> {
    for (let again = 0; ; again++) {
      try {
        const failing = await group.run(record, recordValues(outcomes, clock.now() - FAILING_MS));
        for (const [orgId, id] of failing)
          await disableEndpoint(deps, { orgId: orgId!, id: id!, reason: 'failing' });
        return;
      } catch (error) {
        if (error instanceof ShardGroupGoneError) {
          for (const outcome of outcomes)
            await recordAll(await db.shards.locateOrganization(outcome.delivery.orgId), [outcome]);
          return;
        }
        const waitMs = RECORD_AGAIN_AFTER_MS[again];
        if (waitMs === undefined || !isDatabaseUnavailable(error)) throw error;
        await pause(waitMs);
      }
    }
  }

  function attempt(
    { endpointId, messageId: id, url, body, secrets }: Delivery,
    at: Date,
  ): Promise<Answer> | Answer {
    try {
      const opened = secrets.map((secret) => box.open(endpointId, secret));
      return sender.send({ id, url, body, secrets: opened, at });
    } catch (error) {
      log.error({ endpointId, err: error }, 'a webhook could not be signed');
      return { statusCode: null, error: 'The message could not be signed.', text: null };
    }
  }

  async function deliver(group: ShardGroup, delivery: Delivery): Promise<void> {
    const { orgId, endpointId, createdAtMs } = delivery;
    const at = new Date(clock.now());
    const startedMs = performance.now();
    if (delivery.attempt === 1) metrics.webhookDelay.observe(Math.max(0, at.getTime() - createdAtMs) / 1000);
    const answer = await attempt(delivery, at);
    if (isClosing) return;
    const durationMs = Math.round(performance.now() - startedMs);
    const isOk = answer.error === null && answer.statusCode! >= 200 && answer.statusCode! < 300;
    receivers.finish(endpointId, { isOk, durationMs });
    const outcome = { ...answer, delivery, at, durationMs, ...judge(delivery, answer, isOk, clock.now()) };
    if (answer.statusCode === 410) await disableEndpoint(deps, { orgId, id: endpointId, reason: 'gone' });
    await recorderOf(group).submit(outcome);
    tellOf(outcome);
  }

  function tellOf({ delivery, status, statusCode, error, durationMs }: Outcome): void {
    const line = { ...delivery.log, statusCode, durationMs, ...(error === null ? {} : { reason: error }) };
    metrics.webhooks.inc({ outcome: status === 'waiting' ? 'deferred' : status });
    if (status === 'delivered') log.debug(line, 'a webhook was delivered');
    else if (status === 'waiting') log.info(line, 'a webhook could not be delivered yet; it is tried again');
    else log.warn(line, 'a webhook was given up');
  }

  function begin(group: ShardGroup, delivery: Delivery): void {
    const { endpointId } = delivery;
    receivers.begin(endpointId);
    const work = deliver(group, delivery)
      .catch((error: unknown) =>
        log.error(
          { ...delivery.log, err: error },
          'a webhook is sent again: how it went could not be recorded',
        ),
      )
      .finally(() => {
        underWay.delete(delivery);
        for (const resolve of wake.splice(0)) resolve();
      });
    underWay.set(delivery, work);
  }

  /** Goes through the endpoints of a group once. @returns how many deliveries it began */
  async function sweepGroup(group: ShardGroup): Promise<number> {
    let begun = 0;
    for (let cursor: string | undefined = START; cursor !== undefined && !stopping.signal.aborted;) {
      const free = Math.min(MAX_CLAIMED, receivers.free());
      if (free === 0) {
        await nextFinished();
        continue;
      }
      const { ids, rooms, others } = receivers.rooms();
      const now = clock.now();
      const [head, ...rows] = await group.run(claim, [
        ...cursor.split(' '),
        new Date(now).toISOString(),
        new Date(now + LEASE_MS).toISOString(),
        others,
        textArray(ids),
        intArray(rooms),
        free,
      ]);
      const claimed = rows.map(toDelivery);
      for (const delivery of claimed) begin(group, delivery);
      begun += claimed.length;
      cursor = head?.[0] ?? undefined;
    }
    return begun;
  }

  const nextFinished = () => new Promise<void>((resolve) => wake.push(resolve));

  /** A group that cannot be reached keeps only its own deliveries waiting. */
  async function watch(group: ShardGroup): Promise<void> {
    let failure: string | undefined;
    while (!stopping.signal.aborted && db.shards.groups.includes(group)) {
      let begun = 0;
      try {
        begun = await sweepGroup(group);
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

  /** At once after a full look; when an endpoint has room again for what it has more of; otherwise with the next poll. */
  async function nextLook(begun: number): Promise<void> {
    const poll = pause(begun > 0 ? GAP_MS : POLL_MS, undefined, { signal: stopping.signal }).catch(
      () => undefined,
    );
    if (begun === 0 && underWay.size > 0) {
      await Promise.race([poll, nextFinished()]);
      await pause(GAP_MS);
    } else await poll;
  }

  const watchAll = () => {
    for (const group of db.shards.groups) if (!loops.has(group)) loops.set(group, watch(group));
  };
  let supervisor: NodeJS.Timeout | undefined;

  return {
    async sweep() {
      await Promise.all(db.shards.groups.map(sweepGroup));
      await Promise.all(underWay.values());
    },
    start() {
      watchAll();
      supervisor = setInterval(watchAll, SECOND_MS);
    },
    async stop() {
      clearInterval(supervisor);
      stopping.abort();
      for (const resolve of wake.splice(0)) resolve();
      await Promise.all(loops.values());
      await Promise.race([Promise.all(underWay.values()), pause(FINISH_MS, undefined, { ref: false })]);
      isClosing = true;
      const left = [...underWay.keys()];
      sender.close();
      await Promise.all(left.map(returnLease));
    },
  };

  async function returnLease({ orgId, endpointId, messageId, attempt }: Delivery): Promise<void> {
    try {
      const group = await db.shards.locateOrganization(orgId);
      await group.run(giveBack, [
        ...[[orgId], [endpointId], [messageId]].map(textArray),
        intArray([attempt]),
        new Date(clock.now()).toISOString(),
      ]);
    } catch (error) {
      log.warn({ err: error }, 'a webhook waits for the end of its lease');
    }
  }
}

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
    createdAtMs,
    log: {
      orgId: orgId!,
      endpointId: endpointId!,
      webhookId: messageId!,
      type: type!,
      attempt: Number(attempt),
    },
  };
}

function judge({ failures }: Delivery, { statusCode }: Answer, isOk: boolean, nowMs: number) {
  const waitMs = statusCode === 410 ? undefined : retryAfterMs[failures];
  const status = isOk ? 'delivered' : waitMs === undefined ? 'failed' : 'waiting';
  return { status, nextAttemptAt: new Date(nowMs + (waitMs ?? 0)) } as const;
}

function recordValues(outcomes: Outcome[], tooLongSinceMs: number): unknown[] {
  const list = (value: (outcome: Outcome) => string | number | null) =>
    textArray(outcomes.map((outcome) => value(outcome)?.toString() ?? null));
  return [
    list(({ delivery }) => delivery.orgId),
    list(({ delivery }) => delivery.endpointId),
    list(({ delivery }) => delivery.messageId),
    list(({ delivery }) => delivery.attempt),
    list(({ at }) => at.toISOString()),
    list(({ durationMs }) => durationMs),
    list(({ statusCode }) => statusCode),
    list(({ error }) => error),
    list(({ text }) => text),
    list(({ status }) => status),
    list(({ nextAttemptAt }) => nextAttemptAt.toISOString()),
    new Date(tooLongSinceMs).toISOString(),
  ];
}
