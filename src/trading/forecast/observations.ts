import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { ObservedExtreme } from './forecast.js';
import { createPoll } from './poll.js';

export type Observe = (signal: AbortSignal) => Promise<readonly ObservedExtreme[]>;

/** One service that knows what was measured. */
export interface ObservationPart {
  /** For the log. */
  name: string;
  everyMs: number;
  read: Observe;
}

/**
 * What several services have measured, each asked at its own pace. Never rejects: a part that fails keeps what it said last and
 * takes nothing from the others. Each problem is told once, not with every read until the next question.
 */
export function createObserver(
  parts: readonly ObservationPart[],
  { clock, log }: { clock: Clock; log: Logger },
): Observe {
  const polls = parts.map(({ name, everyMs, read }) => ({ name, poll: createPoll(clock, everyMs, read) }));
  const told = new Map<string, unknown>();
  return async (signal) => {
    const polled = await Promise.all(
      polls.map(async ({ name, poll }) => ({ name, ...(await poll(signal)) })),
    );
    for (const { name, problem } of polled) {
      if (problem !== undefined && problem !== told.get(name))
        log.warn({ err: problem }, `no new ${name}: the last ones are kept`);
      told.set(name, problem);
    }
    return polled.flatMap(({ value }) => value ?? []);
  };
}
