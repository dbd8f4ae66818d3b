import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type MarketMetrics = ReturnType<typeof createMarketMetrics>;

declare module '../core/metrics.js' {
  interface Metrics extends MarketMetrics {}
}

export const createMarketMetrics = (registers: Registry[]) => ({
  ...tradingMetrics(registers),
  ...streamMetrics(registers),
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
  streamLatency: new Histogram({
    name: 'gauge_venue_stream_latency_seconds',
    help: "Time from the venue's timestamp of a WebSocket message to its receipt here; 0 if the local clock is behind.",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  }),
  streamProblems: new Counter({
    name: 'gauge_venue_stream_problems_total',
    help: 'Problems that put maintained order books in doubt, by kind: gap, stale, late, foreign, negative, crossed, unreadable, overflow; mismatch counts books that a read has contradicted.',
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
