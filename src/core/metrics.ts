import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
  type CounterConfiguration,
} from 'prom-client';

/** Each product adds its own with `declare module`. */
export interface Metrics extends CoreMetrics {}

type CoreMetrics = ReturnType<typeof createCoreMetrics>;

/**
 * Labels must have few values: mounted routes, but no URLs or names that callers choose.
 * @param ofProcess also collects metrics of the process until it ends
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

/** Prometheus sees no increase in a counter that first appears with 1. */
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
    help: 'Time from the request line to the end of the response.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  }),
  shardSeconds: new Histogram({
    name: 'gauge_shard_statement_duration_seconds',
    help: 'Duration of a hot statement on a shard group of a sharded database, including its commit.',
    labelNames: ['group'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  }),
  shardRepeats: new Counter({
    name: 'gauge_shard_repeats_total',
    help: 'Hot statements retried because their shard group had moved (SQLSTATE 40001).',
    labelNames: ['group'],
    registers,
  }),
  jobRuns: new Counter({
    name: 'gauge_job_runs_total',
    help: 'Runs of background jobs by outcome: succeeded, failed (the job runs again on its schedule), skipped (the previous run was still going).',
    labelNames: ['job', 'outcome'],
    registers,
  }),
  limitStoreFailures: new Counter({
    name: 'gauge_limit_store_failures_total',
    help: 'Rate-limit checks that this process counted itself because Redis failed or was too slow.',
    registers,
  }),
  clockDifferenceSeconds: new Gauge({
    name: 'gauge_clock_difference_seconds',
    help: "Seconds by which the database clock is ahead of this instance's clock; negative if it is behind. Measured by /readyz.",
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
    help: 'Attempts to send mail by outcome: sent, deferred (to be retried), failed (given up).',
    registers,
  }),
  mailsWaiting: new Gauge({
    name: 'gauge_mails_waiting',
    help: 'Mails in the queue that are not sent yet, counted up to 1000.',
    registers,
  }),
  webhooks: countOutcomes(['delivered', 'deferred', 'failed'], {
    name: 'gauge_webhook_attempts_total',
    help: 'Attempts to deliver a webhook by outcome: delivered, deferred (to be retried), failed (given up).',
    registers,
  }),
  webhookDelay: new Histogram({
    name: 'gauge_webhook_first_attempt_delay_seconds',
    help: 'Time from the change that a webhook reports to the first delivery attempt.',
    buckets: [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60],
    registers,
  }),
  webhooksWaiting: new Gauge({
    name: 'gauge_webhooks_waiting',
    help: 'Webhook deliveries that wait for an attempt, counted up to 1000 per endpoint.',
    registers,
  }),
  webhooksOverdue: new Gauge({
    name: 'gauge_webhooks_overdue_seconds',
    help: 'Seconds that the most overdue webhook delivery has waited for its attempt; 0 if none is due.',
    registers,
  }),
  auditExports: countOutcomes(['written', 'broken', 'failed'], {
    name: 'gauge_audit_exports_total',
    help: "Exports of the audit log's chain heads by outcome: written, broken (a chain was altered), failed.",
    registers,
  }),
});
