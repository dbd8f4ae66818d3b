import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
  type CounterConfiguration,
} from 'prom-client';

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Prometheus metrics of one app. Labels take few values: routes as mounted, never addresses or names from outside.
 * @param ofProcess also collects metrics of the process until it ends; default: true
 */
export function createMetrics({ ofProcess = true } = {}) {
  const registry = new Registry();
  if (ofProcess) collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    ...apiMetrics(registers),
    ...outboxMetrics(registers),
    ...tradingMetrics(registers),
    ...streamMetrics(registers),
  };
}

/** Creates every outcome at 0: Prometheus sees no increase in a counter that first appears with 1. */
function countOutcomes(
  outcomes: string[],
  options: Pick<CounterConfiguration<'outcome'>, 'name' | 'help' | 'registers'>,
): Counter<'outcome'> {
  const counter = new Counter({ ...options, labelNames: ['outcome'] });
  for (const outcome of outcomes) counter.inc({ outcome }, 0);
  return counter;
}

const apiMetrics = (registers: Registry[]) => ({
  requestSeconds: new Histogram({
    name: 'gauge_http_request_duration_seconds',
    help: 'Time from the request line to the end of the response.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  }),
  usageEvents: countOutcomes(['accepted', 'deduped', 'rejected'], {
    name: 'gauge_usage_events_total',
    help: 'Usage events by outcome: accepted, deduped, rejected.',
    registers,
  }),
  reservations: countOutcomes(['held', 'repeated', 'refused', 'settled', 'settled_late', 'released'], {
    name: 'gauge_usage_reservations_total',
    help: 'Reservations by outcome: held, repeated, refused (a limit left no room), settled, settled_late (after expiry or release), released.',
    registers,
  }),
  reservationsOpen: new Gauge({
    name: 'gauge_usage_reservations',
    help: 'Reservations made in the last 25 hours and neither settled nor released, by state: held, expired. Counted once a minute.',
    labelNames: ['state'],
    registers,
  }),
  flushEvents: new Histogram({
    name: 'gauge_usage_flush_events',
    help: 'Events per ingestion statement.',
    buckets: [1, 4, 16, 64, 250, 1000],
    registers,
  }),
  flushSeconds: new Histogram({
    name: 'gauge_usage_flush_duration_seconds',
    help: 'Duration of an ingestion statement, including its commit.',
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

const tradingMetrics = (registers: Registry[]) => ({
  refreshes: new Counter({
    name: 'gauge_refreshes_total',
    help: 'Responses of the market data sources by part (markets, forecasts) and outcome: ok, failing, unexpected.',
    labelNames: ['part', 'outcome'],
    registers,
  }),
  refreshSeconds: new Histogram({
    name: 'gauge_refresh_duration_seconds',
    help: 'Time until a source responded or failed, by part.',
    labelNames: ['part'],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25],
    registers,
  }),
  sourceNotes: new Gauge({
    name: 'gauge_source_notes',
    help: 'Items in the last response of a source that could not be read or matched, by kind (contradiction, missing_field, unknown_status, …) and name.',
    labelNames: ['part', 'kind', 'name'],
    registers,
  }),
  snapshotTime: new Gauge({
    name: 'gauge_snapshot_timestamp_seconds',
    help: 'Unix time at which the markets of the current snapshot were fetched; time() minus this is their age. 0 without markets.',
    registers,
  }),
  fitsTime: new Gauge({
    name: 'gauge_fits_timestamp_seconds',
    help: 'Unix time at which the fits in use were made; time() minus this is their age. 0 without fits.',
    registers,
  }),
  openGates: new Gauge({
    name: 'gauge_open_gates',
    help: 'Open gates: pairs of station and lead whose forecast has earned its signals.',
    registers,
  }),
  orders: new Counter({
    name: 'gauge_orders_total',
    help: 'Orders by mode and outcome: the status of an accepted order (or repeat), or the error code of a refusal.',
    labelNames: ['mode', 'outcome'],
    registers,
  }),
});

const streamMetrics = (registers: Registry[]) => ({
  streamFrames: new Counter({
    name: 'gauge_venue_stream_frames_total',
    help: "Messages of the venue's WebSocket by type.",
    labelNames: ['type'],
    registers,
  }),
  streamLatency: new Histogram({
    name: 'gauge_venue_stream_latency_seconds',
    help: "Time from the venue's timestamp of a WebSocket message to its receipt here; 0 if the local clock is behind.",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  }),
  streamProblems: new Counter({
    name: 'gauge_venue_stream_problems_total',
    help: 'Problems that put maintained order books in doubt, by kind: gap, stale, foreign, negative, crossed, unreadable, overflow; mismatch counts books that a read has contradicted.',
    labelNames: ['kind'],
    registers,
  }),
  streamReconnects: new Counter({
    name: 'gauge_venue_stream_reconnects_total',
    help: "Connections to the venue's WebSocket that were lost or could not be opened.",
    registers,
  }),
  keptBooks: new Gauge({
    name: 'gauge_venue_stream_books',
    help: "Order books maintained from the venue's WebSocket, by state: kept, in_doubt.",
    labelNames: ['state'],
    registers,
  }),
  streamReaders: new Gauge({
    name: 'gauge_stream_readers',
    help: 'Open streams of market data.',
    registers,
  }),
  streamsDropped: new Counter({
    name: 'gauge_streams_dropped_total',
    help: 'Streams ended because their readers were too slow.',
    registers,
  }),
});
