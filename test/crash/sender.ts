import { Agent } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { postEvents, type PostAnswer } from './post.js';
import { createRandom, type Random } from './random.js';
import { METRIC, type SentEvent, type Tenant, type Workload } from './workload.js';

export interface SenderCounts {
  requests: number;
  /** Number of requests answered with any status except 503. */
  answered: number;
  acknowledged: number;
  repeated: number;
  refused: number;
  unavailable: number;
  cutOff: number;
  abandoned: number;
  inFlight: number;
}

export const noCounts = (): SenderCounts => ({
  requests: 0,
  answered: 0,
  acknowledged: 0,
  repeated: 0,
  refused: 0,
  unavailable: 0,
  cutOff: 0,
  abandoned: 0,
  inFlight: 0,
});

export interface SenderOptions {
  workload: Workload;
  port: number;
  seed: number;
  counts: SenderCounts;
  isStopping: () => boolean;
  /** Reports a broken guarantee. */
  violation: (what: string) => void;
}

/** One request: its events, some of which may have to be refused, and the valid events' numbers. */
interface Plan {
  tenant: Tenant;
  secret: string;
  numbers: number[];
  events: unknown[];
  isLenient: boolean;
  refused: number;
}

/** Sends batches until stopped, and repeats each one until it is answered, as a well-behaved client does. */
export async function runSender(options: SenderOptions): Promise<void> {
  const { counts, isStopping, violation } = options;
  const random = createRandom(options.seed);
  const agent = new Agent({ keepAlive: true });
  while (!isStopping()) {
    const plan = planRequest(options.workload, random);
    await sendUntilAnswered(plan);
    await setTimeout(random.between(0, 15));
  }
  agent.destroy();

  async function sendUntilAnswered(plan: Plan): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      for (const number of plan.numbers) plan.tenant.ledger.markSent(number);
      const hangUpAfterMs = random.chance(0.02) ? random.between(0, 30) : undefined;
      counts.requests++;
      counts.inFlight++;
      const answer = await postEvents({ agent, port: options.port, ...plan, hangUpAfterMs }).catch(
        () => undefined,
      );
      counts.inFlight--;
      if (answer && answer.status !== 503) {
        counts.answered++;
        settle(plan, answer);
        return;
      }
      if (answer && answer.retryAfter === undefined) violation('a 503 came without Retry-After');
      counts[answer ? 'unavailable' : 'cutOff']++;
      if (random.chance(0.02) || (isStopping() && attempt > 100)) {
        counts.abandoned++;
        return;
      }
      await setTimeout(random.between(5, 150));
    }
  }

  function settle(plan: Plan, { status, body }: PostAnswer): void {
    const isRefused = plan.refused > 0 && !plan.isLenient;
    if (status !== (isRefused ? 403 : 202)) {
      violation(`unexpected answer ${status} ${JSON.stringify(body)}`);
      return;
    }
    if (isRefused) {
      counts.refused++;
      return;
    }
    const { accepted = NaN, deduped = NaN, rejected = [] } = body;
    if (accepted + deduped !== plan.numbers.length || rejected.length !== plan.refused)
      violation(`the counts do not add up: ${JSON.stringify(body)} for ${plan.numbers.length} good events`);
    for (const number of plan.numbers) plan.tenant.ledger.markAcknowledged(number);
    counts.acknowledged += plan.numbers.length;
    counts.repeated += deduped;
  }
}

let refusedKeys = 0;

function planRequest(workload: Workload, random: Random): Plan {
  const tenant = random.pick(workload.tenants);
  const livemode = random.chance(0.75);
  const size = random.pick([1, 1, random.between(1, 10), random.between(1, 100), random.between(1, 500)]);
  const kind = random.pick(['good', 'good', 'good', 'good', 'lenient', 'refused']);
  const refusedEvent = () => ({
    productSlug: workload.forbidden.slug,
    metric: METRIC,
    idempotencyKey: `refused-${refusedKeys++}`,
  });
  const plan = {
    tenant,
    secret: random.pick(tenant.secrets[livemode ? 'live' : 'test']),
    isLenient: kind === 'lenient',
  };
  if (kind === 'refused') {
    // Valid events in a refused batch. Their keys are used nowhere else, and none of them may ever be recorded.
    const good = Array.from({ length: size - 1 }, () => ({
      ...refusedEvent(),
      productSlug: workload.products[0]!.slug,
    }));
    return { ...plan, numbers: [], events: random.shuffle([...good, refusedEvent()]), refused: 1 };
  }
  const refused = kind === 'lenient' ? random.between(0, Math.min(3, size - 1)) : 0;
  const numbers: number[] = [];
  const events: unknown[] = [];
  while (numbers.length < size - refused) {
    const number = pickNumber(tenant, random);
    const event: SentEvent = workload.eventOf(tenant, number);
    if (event.livemode !== livemode) continue;
    numbers.push(number);
    events.push(event.body);
  }
  for (let i = 0; i < refused; i++) events.push(refusedEvent());
  return { ...plan, numbers, events: random.shuffle(events), refused };
}

/**
 * Usually returns the number of a new event; occasionally, the number of one that some sender has sent or is sending.
 */
function pickNumber({ ledger }: Tenant, random: Random): number {
  if (ledger.size === 0 || random.chance(0.85)) return ledger.takeFresh(1)[0]!;
  return random.between(Math.max(0, ledger.size - 2_000), ledger.size - 1);
}
