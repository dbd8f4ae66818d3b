import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type MarketMetrics = ReturnType<typeof createMarketMetrics>;

declare module '../core/metrics.js' {
  interface Metrics extends MarketMetrics {}
}

export const createMarketMetrics = (registers: Registry[]) => ({
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
