import { setTimeout as pause } from 'node:timers/promises';
import { textArray } from '../../core/db/sql.js';
import { createCoalescer, type Coalescer } from '../../core/db/coalesce.js';
import { isDatabaseUnavailable, type ShardGroup } from '../../core/db/client.js';
import { ShardGroupGoneError } from '../../core/db/shards.js';
import type { Context } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { createSecretBox } from '../../core/secret-box.js';
import { isChat, type Chat, type Format } from './chat.js';
import { disableEndpoint } from './endpoints.js';
import { pausePosts, type DeliveryKey } from './queries.js';
import { bodyOf, createSender, signatureOf, type Answer } from './send.js';
import { record } from './statements.js';

const retriesMs = [
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
/** Without a success, before the endpoint is disabled. */
const FAILING_MS = 5 * DAY_MS;
const MAX_RECORDED = 200;
const RECORD_AGAIN_AFTER_MS = [200, 1_000, 3_000];

export interface Delivery extends DeliveryKey {
  attempt: number;
  failures: number;
  format: Format;
  url: string;
  secrets: string[];
  type: string;
  /** JSON text. */
  data: string;
  createdAtMs: number;
}

export const logOf = ({ orgId, endpointId, messageId: webhookId, type, attempt }: Delivery) => ({
  orgId,
  endpointId,
  webhookId,
  type,
  attempt,
});

interface Outcome extends Answer {
  delivery: Delivery;
  status: 'waiting' | 'delivered' | 'failed';
  at: Date;
  durationMs: number;
  nextAttemptAt: Date;
}

export type DispatcherDeps = Pick<Context, 'config' | 'db' | 'clock' | 'log' | 'metrics'>;

export function createAttempts(deps: DispatcherDeps, chat: Chat) {
  const { config, clock, log, metrics } = deps;
  const { production, webhooksAllowPrivate: allowsPrivate, webhooksUseProxy } = config;
  const sender = createSender({ production, allowsPrivate }, webhooksUseProxy);
  const box = createSecretBox(config.secretKeys, 'webhook secret');
  const recordOutcome = createRecorder(deps);
  let isClosed = false;

  /** @param deliveries one, or several to the same chat */
  function send(deliveries: readonly Delivery[], at: Date): Promise<Answer> | Answer {
    const { endpointId, messageId, format, url, type, data, createdAtMs } = deliveries[0]!;
    try {
      const secrets = deliveries[0]!.secrets.map((secret) => box.open(endpointId, secret));
      if (isChat(format))
        return sender.send({ url: secrets[0]!, body: chat.toBody(format, deliveries), headers: {} });
      const body = bodyOf(type, new Date(createdAtMs), data);
      return sender.send({ url, body, headers: signatureOf(messageId, secrets, body, at) });
    } catch (error) {
      log.error({ endpointId, err: error }, 'a webhook could not be written or signed');
      return { statusCode: null, error: 'The message could not be signed.', text: null };
    }
  }

  function reportOutcome({ delivery, status, statusCode, error, durationMs }: Outcome): void {
    const line = { ...logOf(delivery), statusCode, durationMs, ...(error === null ? {} : { reason: error }) };
    metrics.webhooks.inc({ outcome: status === 'waiting' ? 'deferred' : status });
    if (status === 'delivered') log.debug(line, 'a webhook was delivered');
    else if (status === 'waiting') log.info(line, 'a webhook could not be delivered; it will be retried');
    else log.warn(line, 'a webhook could not be delivered; no more attempts');
  }

  return {
    /**
     * @param deliveries one, or several to the same chat
     * @param onAnswer called before the outcome is recorded
     */
    async make(
      group: ShardGroup,
      deliveries: readonly Delivery[],
      onAnswer: (answer: { isOk: boolean; durationMs: number }) => void,
    ): Promise<void> {
      const { orgId, endpointId, format } = deliveries[0]!;
      const at = new Date(clock.now());
      const startedMs = performance.now();
      for (const { attempt, createdAtMs } of deliveries)
        if (attempt === 1) metrics.webhookDelay.observe(Math.max(0, at.getTime() - createdAtMs) / 1000);
      const answer = await send(deliveries, at);
      if (isClosed) return;
      const durationMs = Math.round(performance.now() - startedMs);
      const isOk = answer.error === null && answer.statusCode! >= 200 && answer.statusCode! < 300;
      onAnswer({ isOk, durationMs });
      if (answer.statusCode === 410) await disableEndpoint(deps, { orgId, id: endpointId, reason: 'gone' });
      if (isChat(format) && answer.statusCode === 429)
        await pausePosts(
          deps.db.orm,
          orgId,
          endpointId,
          new Date(clock.now() + (answer.retryAfterMs ?? MINUTE_MS)),
        );
      await Promise.all(
        deliveries.map(async (delivery) => {
          const step = nextStep(delivery, answer, isOk, clock.now());
          const outcome = { ...answer, delivery, at, durationMs, ...step };
          await recordOutcome(group, outcome);
          reportOutcome(outcome);
        }),
      );
    },
    /** Does not record the running attempts. */
    close() {
      isClosed = true;
      sender.close();
    },
  };
}

function nextStep(
  { failures }: Delivery,
  { statusCode, retryAfterMs = 0 }: Answer,
  isOk: boolean,
  nowMs: number,
) {
  const waitMs = statusCode === 410 ? undefined : retriesMs[failures];
  const status = isOk ? 'delivered' : waitMs === undefined ? 'failed' : 'waiting';
  return { status, nextAttemptAt: new Date(nowMs + Math.max(waitMs ?? 0, retryAfterMs)) } as const;
}

/** If an outcome cannot be recorded, the message is sent again after its lease expires. */
function createRecorder(deps: DispatcherDeps): (group: ShardGroup, outcome: Outcome) => Promise<void> {
  const { db, clock } = deps;
  const coalescers = new Map<ShardGroup, Coalescer<Outcome, void>>();

  function open(group: ShardGroup): Coalescer<Outcome, void> {
    const coalescer = createCoalescer<Outcome, void>({
      flush: async (outcomes) => {
        await recordAll(group, outcomes);
        return outcomes.map(() => undefined);
      },
      parallel: 1,
      fullWeight: MAX_RECORDED,
      maxWeight: MAX_RECORDED,
      queueLimit: { weight: Infinity, bytes: Infinity },
    });
    coalescers.set(group, coalescer);
    return coalescer;
  }

  async function recordAll(group: ShardGroup, outcomes: Outcome[]): Promise<void> {
    for (let again = 0; ; again++) {
      try {
        const failing = await group.run<{ orgId: string; id: string }>(
          record,
          recordValues(outcomes, clock.now() - FAILING_MS),
        );
        for (const endpoint of failing) await disableEndpoint(deps, { ...endpoint, reason: 'failing' });
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

  return (group, outcome) => (coalescers.get(group) ?? open(group)).submit(outcome);
}

function recordValues(outcomes: Outcome[], tooLongSinceMs: number): unknown[] {
  const list = (value: (outcome: Outcome) => string | number | boolean | null) =>
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
    list(({ delivery }) => delivery.failures),
    new Date(tooLongSinceMs).toISOString(),
    list(({ delivery }) => delivery.type === 'webhook.test'),
  ];
}
