import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
  type CounterConfiguration,
} from 'prom-client';

/** Prometheus metrics of one app. Each product adds its own with `declare module`. */
export interface Metrics extends CoreMetrics {}

type CoreMetrics = ReturnType<typeof createCoreMetrics>;

/**
 * Labels take few values: routes as mounted, never addresses or names from outside.
 * @param parts create the metrics of each product
 * @param ofProcess also collects metrics of the process until it ends; default: true
 */
export function createMetrics(
  parts: ((registers: Registry[]) => Partial<Metrics>)[],
  { ofProcess = true } = {},
): Metrics {
  const registry = new Registry();
  if (ofProcess) collectDefaultMetrics({ register: registry });
  return Object.assign(createCoreMetrics(registry), ...parts.map((create) => create([registry]))) as Metrics;
}

const createCoreMetrics = (registry: Registry) => ({
  registry,
  ...requestMetrics([registry]),
  ...outboxMetrics([registry]),
});

/** Creates every outcome at 0: Prometheus sees no increase in a counter that first appears with 1. */
export function countOutcomes(
  outcomes: string[],
  options: Pick<CounterConfiguration<'outcome'>, 'name' | 'help' | 'registers'>,
): Counter<'outcome'> {
  const counter = new Counter({ ...options, labelNames: ['outcome'] });
  for (const outcome of outcomes) counter.inc({ outcome }, 0);
  return counter;
}

const requestMetrics = (registers: Registry[]) => ({
  requestSeconds: new Histogram({
    name: 'gauge_http_request_duration_seconds',
    help: 'Time from the request line to the end of the answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  }),
  shardSeconds: new Histogram({
    name: 'gauge_shard_statement_duration_seconds',
    help: 'Time a hot statement took on a shard group of a sharded database, commit included.',
    labelNames: ['group'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  }),
  shardRepeats: new Counter({
    name: 'gauge_shard_repeats_total',
    help: 'Hot statements that were sent again because their shard group had moved (40001).',
    labelNames: ['group'],
    registers,
  }),
  jobRuns: new Counter({
    name: 'gauge_job_runs_total',
    help: 'Runs of the jobs beside the requests by outcome: succeeded, failed (it runs again on its schedule), skipped (the one before was still running).',
    labelNames: ['job', 'outcome'],
    registers,
  }),
  limitStoreFailures: new Counter({
    name: 'gauge_limit_store_failures_total',
    help: 'Rate-limit counts that fell back to this process because Redis failed or was too slow.',
    registers,
  }),
  clockDifferenceSeconds: new Gauge({
    name: 'gauge_clock_difference_seconds',
    help: "How far the clock of this instance is behind the database's; negative: ahead. As of the last call of /readyz.",
    registers,
  }),
  limitStoreIsShared: new Gauge({
    name: 'gauge_limit_store_is_shared',
    help: '1 while rate limits are counted in Redis, 0 while they are counted in this process.',
    registers,
  }),
});

const outboxMetrics = (registers: Registry[]) => ({
  mails: countOutcomes(['sent', 'deferred', 'failed'], {
    name: 'gauge_mails_total',
    help: 'Attempts to send mail by outcome: sent, deferred (tried again later), failed (given up).',
    registers,
  }),
  mailsWaiting: new Gauge({
    name: 'gauge_mails_waiting',
    help: 'Mails that are queued and not sent yet, 1000 at most.',
    registers,
  }),
  webhooks: countOutcomes(['delivered', 'deferred', 'failed'], {
    name: 'gauge_webhook_attempts_total',
    help: 'Attempts to deliver a webhook by outcome: delivered, deferred (tried again later), failed (given up).',
    registers,
  }),
  webhookDelay: new Histogram({
    name: 'gauge_webhook_first_attempt_delay_seconds',
    help: 'Time from what a webhook reports to the first attempt to deliver it.',
    buckets: [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60],
    registers,
  }),
  webhooksWaiting: new Gauge({
    name: 'gauge_webhooks_waiting',
    help: 'Deliveries of webhooks that wait for an attempt, at most 1000 of each endpoint.',
    registers,
  }),
  webhooksOverdue: new Gauge({
    name: 'gauge_webhooks_overdue_seconds',
    help: 'How long the delivery that has been due for longest waits for its attempt; 0 while none is due.',
    registers,
  }),
  auditExports: countOutcomes(['written', 'broken', 'failed'], {
    name: 'gauge_audit_exports_total',
    help: 'Exports of the heads of the audit log by outcome: written, broken (a chain is not as it was written), failed.',
    registers,
  }),
});
