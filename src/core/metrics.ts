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
    help: 'Time from the request line to the end of the answer.',
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
    help: 'Reservations of the last 25 hours that are neither settled nor released, by state: held, expired. Counted once a minute.',
    labelNames: ['state'],
    registers,
  }),
  flushEvents: new Histogram({
    name: 'gauge_usage_flush_events',
    help: 'Events that one ingestion statement carried.',
    buckets: [1, 4, 16, 64, 250, 1000],
    registers,
  }),
  flushSeconds: new Histogram({
    name: 'gauge_usage_flush_duration_seconds',
    help: 'Time one ingestion statement took, commit included.',
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

const tradingMetrics = (registers: Registry[]) => ({
  refreshes: new Counter({
    name: 'gauge_refreshes_total',
    help: 'Answers of the sources of market data by part (markets, forecasts) and outcome: ok, failing, unexpected.',
    labelNames: ['part', 'outcome'],
    registers,
  }),
  refreshSeconds: new Histogram({
    name: 'gauge_refresh_duration_seconds',
    help: 'Time that a source took to answer or to fail, by part.',
    labelNames: ['part'],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25],
    registers,
  }),
  sourceNotes: new Gauge({
    name: 'gauge_source_notes',
    help: 'What of the last answer of a source could not be read or placed, by kind (contradiction, missing_field, unknown_status, …) and name.',
    labelNames: ['part', 'kind', 'name'],
    registers,
  }),
  snapshotTime: new Gauge({
    name: 'gauge_snapshot_timestamp_seconds',
    help: 'When the markets of the present snapshot were fetched: time() less this is their age. 0 while there are none.',
    registers,
  }),
  fitsTime: new Gauge({
    name: 'gauge_fits_timestamp_seconds',
    help: 'When the fits in use were made: time() less this is their age. 0 while there are none.',
    registers,
  }),
  openGates: new Gauge({
    name: 'gauge_open_gates',
    help: 'Stations and leads whose forecast has earned its signals, of those that are judged.',
    registers,
  }),
  orders: new Counter({
    name: 'gauge_orders_total',
    help: 'Orders by mode and outcome: the status of those that were taken (or repeat), the error code of those that were refused.',
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
    help: "Time from the venue's sending a message of its WebSocket to our reading it, by both clocks; 0 where ours is behind.",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  }),
  streamProblems: new Counter({
    name: 'gauge_venue_stream_problems_total',
    help: 'What put kept order books in doubt, by kind: gap, stale, foreign, negative, crossed, unreadable, overflow; mismatch counts the books that a read has refuted.',
    labelNames: ['kind'],
    registers,
  }),
  streamReconnects: new Counter({
    name: 'gauge_venue_stream_reconnects_total',
    help: "Connections to the venue's WebSocket that were lost or did not come about.",
    registers,
  }),
  keptBooks: new Gauge({
    name: 'gauge_venue_stream_books',
    help: "Order books that the venue's WebSocket keeps, by state: kept, in_doubt.",
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
    help: 'Streams that were ended because their readers were too slow.',
    registers,
  }),
});
