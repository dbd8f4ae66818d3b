import { pino } from 'pino';
import { afterEach, expect, it } from 'vitest';
import { createMetrics } from '../../../src/core/metrics.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import { forecastOf } from '../../../src/markets/learning/forecast.js';
import { modelWith, uncorrectedForecast } from '../../../src/markets/learning/day-forecast.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { createMarketMetrics } from '../../../src/markets/metrics.js';
import { findCause } from '../../../src/markets/orders/cancel-causes.js';
import type { OrderRow } from '../../../src/markets/orders/queries.js';
import { createRefresher, type Refresher } from '../../../src/markets/snapshot/refresh.js';
import { createCalibrationStore, createSnapshotStore } from '../../../src/markets/snapshot/snapshot.js';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { createIndexReader } from '../../../src/markets/weather/kalshi-index.js';
import { createMinuteBook } from '../../../src/markets/weather/minutes.js';
import type { DayEnsemble, ObservedExtreme } from '../../../src/markets/weather/weather.js';
import { makeBook, makeData, makeEvent, makeGates } from '../support/events.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const log = pino({ level: 'silent' });
const isCalibrated = { method: 'emos', isCalibrated: true } as const;
const model = modelWith((ensemble) => ({ ...uncorrectedForecast(ensemble, null), ...isCalibrated }));
/** Batches of one city are up to four seconds apart from the minute's same second. */
const jitters = [0, 3, 1, 4, 2].map((seconds) => seconds * SECOND);

let refresher: Refresher;
afterEach(() => refresher.stop());

const days = [
  { date: '2026-08-29', at: '19:31', before: 30, celsius: 31, reportedF: 85, reaches: 87 },
  { date: '2026-08-30', at: '18:12', before: 28, celsius: 29, reportedF: 82, reaches: 84 },
];

/** Made-up minutes in the venue's shape, around the known times of two days in Los Angeles. */
it.each(days.flatMap((day) => [135, 147, 156].map((delay) => ({ ...day, delay }))))(
  'on $date, a minute at $celsius °C that appears after $delay s refutes the bracket below $reaches °F within 10 s, and orders near the border are gone before',
  async ({ date, at, before, celsius, reportedF, reaches, delay }) => {
    const minute = Date.parse(`${date}T${at}:00Z`);
    const midnight = Date.parse(`${date}T08:00:00Z`);
    const appearsAt = (t: number) => t + delay * SECOND + jitters[(t / MINUTE) % jitters.length]!;
    const pointAt = (t: number) => ({
      t,
      status: 'incomplete',
      stations: [
        {
          station_id: 'KLAX1M',
          code: 'pending',
          source: 'hf_asos',
          temp_f: (t === minute ? celsius : before) * 1.8 + 32,
          received_at_ms: appearsAt(t),
        },
      ],
    });
    const all = Array.from({ length: 40 }, (_, i) => pointAt(minute - (30 - i) * MINUTE));
    let now = minute - 10 * MINUTE;
    const clock = { now: () => now };
    const asked = new Map<string, number[]>();
    const fetch = ((url: string) => {
      const { pathname } = new URL(url);
      asked.set(pathname, [...(asked.get(pathname) ?? []), now]);
      const [city, kind] = pathname.split('/').slice(-2);
      const timeseries = kind === 'la-coastal' ? all.filter(({ t }) => appearsAt(t) <= now) : [];
      const body =
        kind === 'calibrations'
          ? { city, units: 'celsius', calibrations: [] }
          : { city: kind, units: 'fahrenheit', timeseries };
      return Promise.resolve(new Response(JSON.stringify(body)));
    }) as typeof globalThis.fetch;
    const client = createKalshiClient({ baseUrl: 'http://venue', budget: plentyOfTokens(), fetch });
    const minutes = createMinuteBook();
    const index = createIndexReader({ client, clock, log, minutes });

    const hour = Math.floor((minute - midnight) / HOUR);
    const observed: ObservedExtreme = {
      kind: 'daily_maximum',
      stationId: 'KLAX',
      date,
      extremeF: reportedF,
      observedAt: new Date(minute - 40 * MINUTE),
      fetchedAt: new Date(minute - 39 * MINUTE),
      hoursF: Array.from({ length: 24 }, (_, h) => (h < hour ? reportedF : null)),
    };
    const ensemble: DayEnsemble = {
      kind: 'daily_maximum',
      stationId: 'KLAX',
      date,
      modelRunAt: new Date(midnight - HOUR),
      fetchedAt: new Date(minute - HOUR),
      membersF: Array.from({ length: 10 }, (_, i) => reportedF - 1 + i / 3),
    };
    const event = makeEvent({ date, lowest: reaches - 4, stationId: 'KLAX' });
    // The brackets are in pairs of degrees; the third one ends just below the degree that is reached.
    const border = event.markets[2]!;
    expect(border.bracket).toMatchObject({ floor: reaches - 2, cap: reaches - 1 });
    const cheap = event.markets.map(() => makeBook([[1, 100]], [[95, 100]]));
    const store = createSnapshotStore();
    let answers = 0;
    refresher = createRefresher({
      markets: {
        name: 'test',
        read: async () => makeData(event, cheap, new Date(now)),
        find: async () => [],
      },
      weather: {
        name: 'test',
        freshMs: MINUTE,
        // The service of the forecasts answers once, and hangs from then on.
        read: async () => {
          if (answers++ > 0) await new Promise(() => {});
          return { fetchedAt: new Date(now), ensembles: [ensemble], observed: [] };
        },
        observed: () => [minutes.addTo(observed, now)],
      },
      minutes: index,
      model,
      calibration: createCalibrationStore({
        fits: noFits,
        gates: makeGates(true, ['KLAX'], new Date(midnight)),
      }),
      store,
      bankroll: 1_000n * DOLLAR,
      clock,
      log,
      metrics: createMetrics([createMarketMetrics]),
      forecastWaitMs: 1,
    });
    const order = {
      ticker: border.ticker,
      createdAt: new Date(now),
      cancelOn: ['observation'],
      mode: 'paper',
    } as unknown as OrderRow;
    const isSignal = () =>
      store.current!.signals.events[0]!.signals.some(({ market }) => market.ticker === border.ticker);
    let gone: { at: number; why: string } | undefined;
    let refuted: number | undefined;
    for (; now < minute + 5 * MINUTE && refuted === undefined; now += SECOND) {
      const second = (now / SECOND) % 60;
      if (second % 30 === 0) await refresher.refresh();
      if (second % 2 === 0 && index.isDue()) await refresher.readMinutes();
      if (second % 15 === 4 && store.current && !gone) {
        const why = findCause(order, { snapshots: store, nowMs: now });
        if (why !== undefined) gone = { at: now, why };
      }
      const day = store.current && forecastOf(store.current.forecasts, event)!;
      if (now === minute)
        expect([isSignal(), day!.probabilities.get(border.ticker)! > 0.1]).toEqual([true, true]);
      if (day?.observed?.minutes?.lowestF === reaches) {
        refuted = now;
        expect([isSignal(), day.probabilities.get(border.ticker)]).toEqual([false, 0]);
      }
    }
    expect(refuted! - appearsAt(minute)).toBeLessThanOrEqual(10 * SECOND);
    expect(gone!.at).toBeLessThan(minute);
    expect(gone!.why).toMatch('would decide it');
    for (const times of asked.values())
      for (const [i, time] of times.slice(2).entries())
        expect(time - times[i + 1]!).toBeGreaterThanOrEqual(50 * SECOND);
    const perMinute = [...asked.values()].flat().toSorted((a, b) => a - b);
    for (const time of perMinute)
      expect(perMinute.filter((each) => each >= time && each < time + MINUTE).length).toBeLessThanOrEqual(13);
  },
);
