import { Counter, Gauge, Histogram, type CounterConfiguration, type Registry } from 'prom-client';
import { countOutcomes } from '../core/metrics.js';

type MeteringMetrics = ReturnType<typeof createMeteringMetrics>;

declare module '../core/metrics.js' {
  interface Metrics extends MeteringMetrics {}
}

function countCredits(
  options: Pick<CounterConfiguration<'mode'>, 'name' | 'help' | 'registers'>,
): Counter<'mode'> {
  const counter = new Counter({ ...options, labelNames: ['mode'] });
  for (const mode of ['live', 'test']) counter.inc({ mode }, 0);
  return counter;
}

export const createMeteringMetrics = (registers: Registry[]) => ({
  usageEvents: countOutcomes(['accepted', 'deduped', 'rejected'], {
    name: 'gauge_usage_events_total',
    help: 'Usage events by outcome: accepted, deduped, rejected.',
    registers,
  }),
  creditOverdrafts: new Counter({
    name: 'gauge_credit_overdrafts_total',
    help: 'Recorded requests with usage of products whose credits are overdrawn.',
    registers,
  }),
  creditRefusals: new Counter({
    name: 'gauge_credit_refusals_total',
    help: 'Reservations refused because the credits left no room (credits_exhausted).',
    registers,
  }),
  creditAccounts: new Gauge({
    name: 'gauge_credit_accounts',
    help: 'Accounts of credits (an Organization in a mode) by state: overdrawn. Counted once a minute.',
    labelNames: ['state'],
    registers,
  }),
  creditsGranted: countCredits({
    name: 'gauge_credits_granted_total',
    help: 'Credits that operators granted through this instance, by mode: live, test.',
    registers,
  }),
  creditsBurned: countCredits({
    name: 'gauge_credits_burned_total',
    help: 'Credits that usage burned on all instances, including overdrafts, by mode: live, test. Read once a minute from the ledger, a minute late; returns of corrections are not subtracted.',
    registers,
  }),
  creditsExpired: countCredits({
    name: 'gauge_credits_expired_total',
    help: "Credits that expired, by mode: live, test. Read like the burned ones. The ledger has them with the account's first change after a rollover, or 8 days after the end of the grant, when no late event can burn them.",
    registers,
  }),
  creditsForfeited: countCredits({
    name: 'gauge_credits_forfeited_total',
    help: 'Credits forfeited because their grant was voided, by mode: live, test. Read like the burned ones.',
    registers,
  }),
  reservations: countOutcomes(['held', 'repeated', 'refused', 'settled', 'settled_late', 'released'], {
    name: 'gauge_usage_reservations_total',
    help: 'Reservations by outcome: held, repeated, refused (a limit or the credits left no room), settled, settled_late (after expiry or release), released.',
    registers,
  }),
  reservationsOpen: new Gauge({
    name: 'gauge_usage_reservations',
    help: 'Reservations made in the last 25 hours and neither settled nor released, by state: held, expired. Counted once a minute.',
    labelNames: ['state'],
    registers,
  }),
  stripeEvents: countOutcomes(['sent', 'refused', 'unclear', 'unknown'], {
    name: 'gauge_stripe_events_total',
    help: 'Attempts to send usage to Stripe by outcome: sent, refused, unclear (sent again), unknown (a person must decide).',
    registers,
  }),
  stripeOpen: new Gauge({
    name: 'gauge_stripe_events',
    help: 'Meter events for Stripe by state: waiting, unresolved (a person must decide). Counted once a minute, at most 1000 each.',
    labelNames: ['state'],
    registers,
  }),
  flushSeconds: new Histogram({
    name: 'gauge_usage_flush_duration_seconds',
    help: 'Duration of an ingestion statement, including its commit.',
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  }),
});
