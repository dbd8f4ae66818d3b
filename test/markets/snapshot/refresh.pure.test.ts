import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMarketMetrics } from '../../../src/markets/metrics.js';
import { createCalibrationStore, createSnapshotStore } from '../../../src/markets/snapshot/snapshot.js';
import { modelOf } from '../../../src/markets/learning/forecast.js';
import { rawEnsemble } from '../learning/raw-ensemble.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { createRefresher, type RefreshDeps, type Refresher } from '../../../src/markets/snapshot/refresh.js';
import { TestClock } from '../../support/service.js';
import { ScriptedMarkets, ScriptedWeather } from '../support/scripted-sources.js';

let refresher: Refresher;
afterEach(() => refresher.stop());

function start(options: Partial<RefreshDeps> = {}) {
  const clock = new TestClock();
  clock.set('2026-01-31T12:00:00Z');
  const [markets, weather] = [new ScriptedMarkets(), new ScriptedWeather()];
  markets.clock = weather.clock = clock;
  const store = createSnapshotStore();
  const metrics = createMetrics([createMarketMetrics]);
  refresher = createRefresher({
    markets,
    weather,
    model: rawEnsemble,
    calibration: createCalibrationStore(),
    store,
    bankroll: 1_000_000_000n,
    clock,
    log: pino({ level: 'silent' }),
    metrics,
    timeOutMs: 40,
    forecastWaitMs: 20,
    ...options,
  });
  return { clock, markets, weather, store, metrics };
}

function later() {
  let resolve = () => undefined as void;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

describe('a refresh', () => {
  it('swaps markets, forecasts and signals as one frozen snapshot', async () => {
    const { store } = start();
    await refresher.refresh();
    const { current } = store;
    expect(current).toMatchObject({ sequence: 1, marketSource: 'scripted' });
    expect(current!.asOf.toISOString()).toBe('2026-01-31T12:00:00.000Z');
    expect([...current!.forecasts.keys()]).toEqual(['KNYC']);
    expect(Object.isFrozen(current) && Object.isFrozen(current!.sources)).toBe(true);
    await refresher.refresh();
    expect(store.current!.sequence).toBe(2);
    expect(current!.sequence).toBe(1);
  });

  it('runs once however many callers ask for it', async () => {
    const { markets, store } = start();
    await Promise.all([refresher.refresh(), refresher.refresh(), refresher.refresh()]);
    expect([markets.asked, store.current!.sequence]).toEqual([1, 1]);
  });

  it('reads the weather only when its data are no longer fresh', async () => {
    const { weather, clock } = start();
    weather.freshMs = 300_000;
    await refresher.refresh();
    clock.advance(299_999);
    await refresher.refresh();
    expect(weather.asked).toBe(1);
    clock.advance(1);
    await refresher.refresh();
    expect(weather.asked).toBe(2);
  });
});

describe('a market source', () => {
  it('that fails from the start leaves no snapshot, and its state says since when', async () => {
    const { markets, store, clock } = start();
    markets.behaviour = new Error('down');
    await refresher.refresh();
    clock.advance(30_000);
    await refresher.refresh();
    expect(store.current).toBeUndefined();
    expect(store.sources[0]).toMatchObject({
      state: 'failing',
      fetchedAt: null,
      failingSince: new Date('2026-01-31T12:00:00Z'),
      problem: 'down',
    });
  });

  it.each([
    ['fails', new Error('down'), 'failing'],
    ['gives an unexpected answer', new UnexpectedAnswerError('/markets', 'no JSON'), 'unexpected'],
  ] as const)('that %s keeps its last good part until it recovers', async (_how, failure, state) => {
    const { markets, store, clock, metrics } = start();
    await refresher.refresh();
    const { data } = store.current!;
    markets.behaviour = failure;
    clock.advance(30_000);
    await refresher.refresh();
    expect(store.current!.data).toBe(data);
    expect(store.current!.asOf.toISOString()).toBe('2026-01-31T12:00:00.000Z');
    expect(store.current!.sources[0]).toMatchObject({
      state,
      failingSince: new Date('2026-01-31T12:00:30Z'),
    });
    markets.behaviour = 'answer';
    clock.advance(30_000);
    await refresher.refresh();
    expect(store.current!.sources[0]).toMatchObject({ state: 'ok', failingSince: null, problem: null });
    expect(store.current!.asOf.toISOString()).toBe('2026-01-31T12:01:00.000Z');
    const text = await metrics.registry.metrics();
    expect(text).toContain('gauge_refreshes_total{part="markets",outcome="ok"} 2');
    expect(text).toContain(`gauge_refreshes_total{part="markets",outcome="${state}"} 1`);
    expect(text).toContain(`gauge_snapshot_timestamp_seconds ${Date.parse('2026-01-31T12:01:00Z') / 1000}`);
    expect(text).toContain('gauge_refresh_duration_seconds_count{part="markets"} 3');
  });

  it('that hangs is aborted and abandoned, even if it ignores the signal', async () => {
    const { markets, store } = start();
    await refresher.refresh();
    markets.behaviour = 'hang';
    await refresher.refresh();
    expect(markets.signals[1]!.aborted).toBe(true);
    expect(store.current!.sources[0]).toMatchObject({ state: 'failing', problem: 'no answer within 40 ms' });
    markets.behaviour = 'answer';
    await refresher.refresh();
    expect(store.current!.sources[0]!.state).toBe('ok');
  });

  it('that answers after it was abandoned changes nothing', async () => {
    const { markets, store } = start();
    await refresher.refresh();
    const { promise, resolve } = later();
    markets.behaviour = promise;
    await refresher.refresh();
    const failed = store.current;
    resolve();
    await sleep(5);
    expect(store.current).toBe(failed);
    expect(failed!.sources[0]!.state).toBe('failing');
  });
});

describe('a weather source', () => {
  it('that fails leaves the markets fresh and its last forecasts in place', async () => {
    const { weather, store, clock } = start();
    await refresher.refresh();
    weather.behaviour = new Error('down');
    clock.advance(30_000);
    await refresher.refresh();
    const { asOf, forecasts, sources } = store.current!;
    expect(asOf.toISOString()).toBe('2026-01-31T12:00:30.000Z');
    expect(forecasts.get('KNYC')!.days[0]!.fetchedAt.toISOString()).toBe('2026-01-31T12:00:00.000Z');
    expect(sources.map(({ state }) => state)).toEqual(['ok', 'failing']);
  });

  it('that is slow delays nothing: its forecasts make a snapshot of their own', async () => {
    const { weather, store } = start({ timeOutMs: 5_000 });
    const { promise, resolve } = later();
    weather.behaviour = promise;
    await refresher.refresh();
    expect(store.current).toMatchObject({ sequence: 1 });
    expect(store.current!.forecasts.size).toBe(0);
    await refresher.refresh();
    expect(weather.asked).toBe(1);
    resolve();
    await vi.waitUntil(() => store.current!.sequence === 3, { timeout: 600_000 });
    expect(store.current!.forecasts.size).toBe(1);
  });
});

describe('a model that throws', () => {
  it('leaves the markets fresh and the last forecasts in place', async () => {
    let isBroken = false;
    const { store, clock } = start({
      model: modelOf((input) => {
        if (isBroken) throw new Error('a defect');
        return rawEnsemble.inSteps(input);
      }),
    });
    await refresher.refresh();
    const { forecasts } = store.current!;
    isBroken = true;
    clock.advance(30_000);
    await refresher.refresh();
    expect(store.current!.asOf.toISOString()).toBe('2026-01-31T12:00:30.000Z');
    expect(store.current!.forecasts).toBe(forecasts);
  });
});

describe('a stop', () => {
  it('ends a running refresh at once, without a swap', async () => {
    const { markets, weather, store } = start({ timeOutMs: 60_000, forecastWaitMs: 60_000 });
    markets.behaviour = weather.behaviour = 'hang';
    const running = refresher.refresh();
    await sleep(1);
    await refresher.stop();
    await running;
    expect(markets.signals[0]!.aborted).toBe(true);
    expect(store.current).toBeUndefined();
    markets.behaviour = weather.behaviour = 'answer';
    await refresher.refresh();
    expect(store.current).toBeUndefined();
  });
});
