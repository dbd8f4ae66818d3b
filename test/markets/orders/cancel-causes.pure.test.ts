import { describe, expect, it } from 'vitest';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import { findCause, gateOf } from '../../../src/markets/orders/cancel-causes.js';
import { findNearExtreme } from '../../../src/markets/signals/near-extreme.js';
import type { ExtremeHours } from '../../../src/markets/learning/extreme-hours.js';
import type { MinuteBound } from '../../../src/markets/weather/weather.js';
import type { OrderRow } from '../../../src/markets/orders/queries.js';
import { makeSignals } from '../../../src/markets/signals/signals.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import { calibrated, makeBook, makeData, makeEvent, makeForecasts, makeGates } from '../support/events.js';

const event = makeEvent({ date: '2026-01-31', lowest: 38 });
const { start, end } = climateDayOf(event.station, event.date);
const market = event.markets[2]!;
const HOUR_MS = 3_600_000;
/** 10:00 local time. */
const TEN = new Date(start.getTime() + 10 * HOUR_MS);
const after = (minutes: number, since = TEN): Date => new Date(since.getTime() + minutes * 60_000);

interface Seen {
  placed?: Date;
  now: Date;
  reported?: Date;
  isOpen?: boolean;
  extremeF?: number;
  minutes?: MinuteBound;
  cancelOn?: OrderRow['cancelOn'];
  extremeHours?: ExtremeHours;
}

function causeOf({
  placed = TEN,
  now,
  reported,
  isOpen = true,
  extremeF = 30,
  minutes,
  cancelOn = ['observation'],
  extremeHours,
}: Seen) {
  const data = makeData(
    event,
    event.markets.map(() => makeBook([[30, 10]], [[60, 10]])),
    now,
  );
  const observed = reported && {
    kind: event.kind,
    stationId: event.station.id,
    date: event.date,
    extremeF,
    ...(minutes && { minutes }),
    observedAt: reported,
    fetchedAt: reported,
  };
  const forecasts = makeForecasts(
    event,
    event.markets.map(() => 1 / 6),
    { at: now, ...calibrated, observed: observed ?? null, extremeHours },
  );
  const gates = makeGates(isOpen, [event.station.id], now);
  const signals = makeSignals({ data, events: [event], forecasts, gates, bankroll: 1_000_000n, at: now });
  const markets = new Map(event.markets.map((one) => [one.ticker, one]));
  const current = {
    asOf: now,
    data,
    markets,
    events: [event],
    forecasts,
    gates,
    signals,
    sources: [],
  } as unknown as Snapshot;
  const order = { ticker: market.ticker, createdAt: placed, cancelOn } as unknown as OrderRow;
  const snapshots = {
    current,
    sources: [],
    replace: () => undefined,
    setSources: () => undefined,
    subscribe: () => () => undefined,
  };
  return {
    near: findNearExtreme(current, market, now.getTime()),
    cause: findCause(order, { snapshots, nowMs: now.getTime() }),
    gate: gateOf(current, market.ticker),
  };
}

describe('an order that cancels on an observation', () => {
  it.each<[string, Seen, RegExp | undefined]>([
    ['stays while no report has arrived or is due', { now: after(49) }, undefined],
    [
      'is cancelled once its station has reported',
      { now: after(6), reported: after(5) },
      /^Cancelled automatically: .* reported at /,
    ],
    ['ignores a report from before it was placed', { now: after(6), reported: after(-5) }, undefined],
    [
      'is cancelled once a report is due',
      { now: after(50) },
      /^Cancelled automatically: A report of .* is due from .*:50:00\.000Z on\.$/,
    ],
    ['ignores a report that was due before it was placed', { placed: after(51), now: after(59) }, undefined],
    ['stays before the day begins', { placed: after(-300, start), now: after(-1, start) }, undefined],
    ['stays after the day has ended', { placed: after(1, end), now: after(300, end) }, undefined],
    ['stays if it cancels only on other causes', { now: after(50), cancelOn: ['stale'] }, undefined],
  ])('%s', (_when, seen, reason) => {
    const { cause } = causeOf(seen);
    if (reason) expect(cause).toMatch(reason);
    else expect(cause).toBeUndefined();
  });
});

it.each([
  [true, undefined],
  [false, expect.stringMatching(/^Cancelled automatically: The gate of its signal is closed\. /)],
])('a resting order is cancelled when the gate of its signal closes (open: %s)', (isOpen, reason) => {
  const { cause, gate } = causeOf({ now: after(10), isOpen, cancelOn: ['gate_closed'] });
  expect(gate!.isOpen).toBe(isOpen);
  expect(cause).toEqual(reason);
});

it('a resting order is cancelled when its market is no longer listed', () => {
  const order = { ticker: 'GONE', createdAt: TEN, cancelOn: [] } as unknown as OrderRow;
  const current = { markets: new Map() } as unknown as Snapshot;
  const snapshots = {
    current,
    sources: [],
    replace: () => undefined,
    setSources: () => undefined,
    subscribe: () => () => undefined,
  };
  expect(findCause(order, { snapshots, nowMs: TEN.getTime() })).toMatch(/no longer listed/);
});

describe('an order near the extreme so far', () => {
  // The bracket is 40° to 41°, so its borders are 40 and 42 °F.
  const reported = after(-5);
  const now = after(10);
  const bound = (lowestF: number) => ({ lowestF, highestF: lowestF, at: after(5), count: 1 });

  it.each<[string, Partial<Seen>, RegExp | undefined]>([
    ['is cancelled two degrees below the border', { extremeF: 38.1 }, /one minute at 40 °F would decide it/],
    ['is cancelled between the borders', { extremeF: 41.2 }, /one minute at 40 °F would decide it/],
    ['is cancelled one degree above the border', { extremeF: 43 }, /one minute at 42 °F would decide it/],
    ['stays three degrees below the border', { extremeF: 37.1 }, undefined],
    ['is cancelled if only minutes are near', { extremeF: 35, minutes: bound(38) }, /is 38 °F so far/],
    ['stays if minutes prove less than the reports', { extremeF: 37.1, minutes: bound(36) }, undefined],
    ['stays before extremes occur', { extremeF: 39, now: after(-1) }, undefined],
    [
      'is cancelled until the last hour of extremes',
      { extremeF: 39, now: after(7 * 60 - 11) },
      /is 39 °F so far/,
    ],
    [
      'stays outside the hours learned for its station',
      { extremeF: 39, extremeHours: { from: 11, to: 15, days: 60 } },
      undefined,
    ],
    ['stays if its owner has chosen other causes', { extremeF: 39, cancelOn: ['stale'] }, undefined],
  ])('%s', (_when, seen, reason) => {
    const placed = seen.now ?? now;
    const { cause } = causeOf({ placed, reported, now, ...seen });
    if (reason) expect(cause).toMatch(reason);
    else expect(cause).toBeUndefined();
  });

  it('stays after the hours of extremes', () => {
    const seen = { placed: after(7 * 60), reported, now: after(7 * 60) };
    expect(causeOf({ ...seen, extremeF: 39 }).near).toBeUndefined();
  });
});
