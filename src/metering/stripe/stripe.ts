import { groupBy } from '../../core/collections.js';
import type { Database, ShardGroup } from '../../core/db/client.js';
import { createLease, type Job } from '../../core/db/jobs.js';
import { sumOf } from '../../core/db/shards.js';
import { FIRST } from '../../core/db/walk.js';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { createStripeClient, refusedFor, TIMEOUT_MS, type Answer, type Stripe } from './client.js';
import { claimEvents, countOpen, planEvents, recordOutcome, type ClaimRow } from './statements.js';

/** After the end of an hour, its last events arrive; most hours then need only one revision. */
const CLOSED_AFTER_MS = 5 * MINUTE_MS;
const RECENT_MS = 6 * HOUR_MS;
/**
 * Age up to which API keys can change an hour's usage: they report late events and correct events within 35 days.
 * Operators may correct older events, and send events of up to 400 days ago.
 */
const LATE_MS = 36 * DAY_MS;
const LATEST_MS = 402 * DAY_MS;
const ORGANIZATIONS_PER_PAGE = 20;
const PLAN_LEASE_SECONDS = 300;

/** Rows of the same customer and meter are sent one after the other, as Stripe requires. */
const IN_FLIGHT = 16;
const BATCHES_PER_RUN = 100;
/** An instance without an outcome by then is considered dead. Longer than all requests of a batch together. */
const LEASE_MS = (IN_FLIGHT + 1) * TIMEOUT_MS + MINUTE_MS;
/** Stripe refuses a repeated identifier for 24 hours; an hour covers the last attempt and inaccurate clocks. */
const RESENT_FOR_MS = 23 * HOUR_MS;
const FIRST_PAUSE_MS = 30 * SECOND_MS;
const LONGEST_PAUSE_MS = HOUR_MS;
/** Stripe accepts only timestamps of the last 35 days; older events are sent with the current time. */
const OLDEST_TIMESTAMP_MS = 34 * DAY_MS;
const MAX_COUNTED = 1000;

type StripeDeps = Pick<WorkContext, 'db' | 'clock' | 'log' | 'metrics'> & {
  livemode: boolean;
  stripe: Stripe;
};

/** No jobs without a key. */
export function stripeJobs({ config, ...context }: WorkContext): Job[] {
  const { stripe } = config;
  if (!stripe) return [];
  const deps = { ...context, livemode: stripe.livemode, stripe: createStripeClient(stripe.key, stripe.url) };
  return [
    { name: 'plan-stripe-events', schedule: '0 5-55/10 * * * *', run: createPlanner(deps) },
    { name: 'send-stripe-events', schedule: '*/10 * * * * *', run: createMeterSender(deps) },
    { name: 'count-stripe-events', schedule: '50 * * * * *', run: () => countEvents(deps) },
  ];
}

/** Recent hours on every run; hourly, those that API keys can still change; daily, all up to `LATEST_MS` ago. */
export function createPlanner(deps: Omit<StripeDeps, 'stripe' | 'metrics'> & Pick<WorkContext, 'lifecycle'>) {
  const { db, clock, livemode, log } = deps;
  const lease = createLease(deps, 'stripe-plan', { lengthSeconds: PLAN_LEASE_SECONDS });
  const sweeps = [
    { everyMs: DAY_MS, backMs: LATEST_MS, atMs: -Infinity },
    { everyMs: HOUR_MS, backMs: LATE_MS, atMs: -Infinity },
    { everyMs: 0, backMs: RECENT_MS, atMs: -Infinity },
  ];
  return async function plan(): Promise<number> {
    if (!(await lease.hold())) return 0;
    const nowMs = clock.now();
    const [sweep, ...shorter] = sweeps.slice(
      sweeps.findIndex(({ everyMs, atMs }) => Math.abs(nowMs - atMs) >= everyMs),
    );
    const fromMs = nowMs - sweep!.backMs;
    const planned = await planHours(db, { nowMs, livemode, fromMs });
    for (const done of [sweep!, ...shorter]) done.atMs = nowMs;
    if (planned > 0) log.info({ planned }, 'usage differences will be sent to Stripe');
    return planned;
  };
}

export async function planHours(
  { shards }: Pick<Database, 'shards'>,
  { nowMs, livemode, fromMs }: { nowMs: number; livemode: boolean; fromMs: number },
): Promise<number> {
  const [now, from] = [nowMs, Math.floor(fromMs / HOUR_MS) * HOUR_MS].map(toText);
  const closed = toText(Math.floor((nowMs - CLOSED_AFTER_MS) / HOUR_MS) * HOUR_MS);
  let planned = 0;
  for (const group of shards.groups) {
    let cursor: string | null = FIRST;
    while (cursor !== null) {
      const values: unknown[] = [now, from, closed, livemode, cursor, ORGANIZATIONS_PER_PAGE];
      const rows: { last: string | null; planned: string }[] = await group.run(planEvents, values);
      planned += Number(rows[0]!.planned);
      cursor = rows[0]!.last;
    }
  }
  return planned;
}

export function createMeterSender(deps: StripeDeps) {
  const { db, clock, log, metrics, livemode, stripe } = deps;
  const record = createRecorder(deps);
  let refusal: string | undefined;

  /** For one customer and meter. True if Stripe refuses everything. */
  async function sendInTurn(group: ShardGroup, rows: ClaimRow[], until: number): Promise<boolean> {
    const refused = await stripe.check(rows[0]!);
    for (const [at, row] of rows.entries()) {
      const answer = refused ?? (await sendInTime(row, until));
      await record(group, row, answer);
      if (answer.kind !== 'refused' || !answer.isGeneral) {
        if (answer.kind === 'recorded') noteRefusal(undefined);
        continue;
      }
      noteRefusal(answer.reason);
      for (const rest of rows.slice(at + 1)) await record(group, rest, answer);
      return true;
    }
    return false;
  }

  /** A suspended instance must not send what others have already sent, perhaps days ago. */
  async function sendInTime(row: ClaimRow, until: number): Promise<Answer> {
    const nowMs = clock.now();
    return nowMs > until - TIMEOUT_MS ? lateAnswer : stripe.send(toMeterEvent(row, nowMs));
  }

  function noteRefusal(reason: string | undefined): void {
    if (reason !== undefined && refusal === undefined)
      log.error(
        { reason },
        'Stripe refuses all meter events; they wait. STRIPE_API_KEY needs the rights to write Billing meter events and to read Billing meters and Customers',
      );
    if (reason === undefined && refusal !== undefined) log.info('Stripe accepts meter events again');
    refusal = reason;
  }

  async function sendGroup(group: ShardGroup): Promise<void> {
    for (let batch = 0; batch < BATCHES_PER_RUN; batch++) {
      const nowMs = clock.now();
      const until = nowMs + LEASE_MS;
      const times = [nowMs, until, nowMs - RESENT_FOR_MS].map(toText);
      const claimed = await group.run<ClaimRow>(claimEvents, [...times, livemode, IN_FLIGHT]);
      const [given, due] = [claimed.filter(isGivenUp), claimed.filter((row) => !isGivenUp(row))];
      for (const row of given) {
        metrics.stripeEvents.inc({ outcome: 'unknown' });
        log.error(
          { identifier: identifierOf(row) },
          'a meter event is not sent again, because Stripe may have it; decide with `npm run stripe`',
        );
      }
      const turns = groupBy(due, ({ customerId, eventName }) => `${customerId} ${eventName}`);
      const stops = await Promise.all([...turns.values()].map((rows) => sendInTurn(group, rows, until)));
      if (claimed.length < IN_FLIGHT || stops.includes(true)) return;
    }
  }

  return async (): Promise<void> => {
    await Promise.all(db.shards.groups.map(sendGroup));
  };
}

const pauseMs = (attempts: number) => Math.min(FIRST_PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS);

function createRecorder({ clock, log, metrics }: StripeDeps) {
  return async function record(group: ShardGroup, row: ClaimRow, answer: Answer): Promise<void> {
    const nowMs = clock.now();
    const attempts = Number(row.attempts);
    const isFirst = row.isFirst === 'true';
    // Another database restored from the same backup may have sent the event.
    const isSent = answer.kind === 'recorded' || (answer.kind === 'exists' && !isFirst);
    const reason = isSent ? null : answer.reason;
    const state = isSent ? 'sent' : answer.kind === 'exists' ? 'unknown' : 'waiting';
    const retryAfterMs = answer.kind === 'refused' ? answer.retryAfterMs : 0;
    const isKnown = isSent || (answer.kind === 'refused' && isFirst);
    await group.run(recordOutcome, [
      ...keyOf(row),
      attempts,
      toText(nowMs),
      state,
      toText(nowMs + Math.min(Math.max(pauseMs(attempts), retryAfterMs), LONGEST_PAUSE_MS)),
      reason,
      isKnown,
    ]);
    metrics.stripeEvents.inc({ outcome: isSent ? 'sent' : state === 'unknown' ? 'unknown' : answer.kind });
    const line = { identifier: identifierOf(row), attempts };
    if (answer.kind === 'exists' && isFirst)
      log.error(
        line,
        'Stripe already has a meter event that this database did not send; decide with `npm run stripe`',
      );
    else if (answer.kind === 'unclear')
      log.warn(
        { ...line, reason: answer.reason },
        'the outcome of a meter event is unknown; it will be sent again',
      );
    else if (answer.kind === 'refused' && !answer.isGeneral)
      log.warn({ ...line, reason: answer.reason }, 'Stripe refused a meter event; it will be sent again');
  };
}

const isGivenUp = ({ state }: ClaimRow): boolean => state === 'unknown';

const lateAnswer = refusedFor('Not sent: this instance was too slow.');

export async function countEvents({ db, livemode, metrics }: Omit<StripeDeps, 'stripe'>): Promise<void> {
  const values = [livemode, MAX_COUNTED];
  const counts = await Promise.all(db.shards.groups.map(({ run }) => run(countOpen, values)));
  for (const state of ['waiting', 'unresolved']) metrics.stripeOpen.set({ state }, sumOf(counts, state));
}

const toText = (ms: number): string => new Date(ms).toISOString();

const keyOf = ({ orgId, productId, livemode, hour, revision }: ClaimRow): string[] => [
  orgId,
  productId,
  livemode,
  hour,
  revision,
];

export type EventKey = Pick<ClaimRow, 'orgId' | 'productId' | 'hour' | 'revision'>;

/** At most 100 characters, as Stripe requires. The Stripe key determines the mode. */
export const identifierOf = ({ orgId, productId, hour, revision }: EventKey): string =>
  [
    orgId.replaceAll('-', ''),
    productId.replaceAll('-', ''),
    hour.replace(/\D/g, '').slice(0, 10),
    revision,
  ].join('_');

/** The end of the hour counts for a subscription that began during it. */
function toMeterEvent(row: ClaimRow, nowMs: number) {
  const endMs = Date.parse(row.hour) + HOUR_MS - SECOND_MS;
  const timestampMs = nowMs - endMs > OLDEST_TIMESTAMP_MS ? nowMs : endMs;
  const { customerId, eventName, quantity: value } = row;
  return {
    identifier: identifierOf(row),
    eventName,
    customerId,
    value,
    timestampSeconds: Math.floor(timestampMs / SECOND_MS),
  };
}
