import { pino } from 'pino';
import { expect, it } from 'vitest';
import { noFits } from '../../../src/markets/learning/fits.js';
import { forecastOf } from '../../../src/markets/learning/forecast.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { findNearExtreme } from '../../../src/markets/orders/near-extreme.js';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { createIndexReader } from '../../../src/markets/weather/kalshi-index.js';
import { createMinuteBook } from '../../../src/markets/weather/minutes.js';
import type { DayEnsemble, ObservedExtreme } from '../../../src/markets/weather/weather.js';
import { rawEnsemble } from '../learning/raw-ensemble.js';
import { makeEvent } from '../support/events.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const MINUTE = 60_000;
const log = pino({ level: 'silent' });
const station = findStation('KLAX')!;

/** Made-up minutes in the venue's shape, around the known times of two days in Los Angeles. */
it.each([
  { date: '2026-08-29', at: '19:31', before: 30, celsius: 31, reportedF: 85, reaches: 87 },
  { date: '2026-08-30', at: '18:12', before: 28, celsius: 29, reportedF: 82, reaches: 84 },
])(
  'on $date, a minute at $celsius °C refutes the bracket below $reaches °F at once, and orders near the border are gone before',
  async ({ date, at, before, celsius, reportedF, reaches }) => {
    const minute = Date.parse(`${date}T${at}:00Z`);
    const midnight = Date.parse(`${date}T08:00:00Z`);
    // The batch arrives 2 min 40 s after its minute.
    let now = minute + 100_000;
    const pointAt = (t: number, degrees: number) => ({
      t,
      status: 'incomplete',
      stations: [
        {
          station_id: 'KLAX1M',
          code: 'pending',
          source: 'hf_asos',
          temp_f: degrees * 1.8 + 32,
          received_at_ms: now,
        },
      ],
    });
    const timeseries = [2, 1].map((ago) => pointAt(minute - ago * MINUTE, before));
    const body = (path: string) =>
      path.endsWith('/calibrations')
        ? { city: path.split('/').at(-2), units: 'celsius', calibrations: [] }
        : {
            city: path.split('/').at(-1),
            units: 'fahrenheit',
            timeseries: path.endsWith('la-coastal') ? timeseries : [],
          };
    const fetch = ((url: string) =>
      Promise.resolve(new Response(JSON.stringify(body(new URL(url).pathname))))) as typeof globalThis.fetch;
    const minutes = createMinuteBook();
    const clock = { now: () => now };
    const client = createKalshiClient({ baseUrl: 'http://venue', budget: plentyOfTokens(), fetch });
    const index = createIndexReader({ client, clock, log, minutes });

    const hour = Math.floor((minute - midnight) / 3_600_000);
    const observed: ObservedExtreme = {
      kind: 'daily_maximum',
      stationId: 'KLAX',
      date,
      extremeF: reportedF,
      observedAt: new Date(midnight + hour * 3_600_000 - 7 * MINUTE),
      fetchedAt: new Date(midnight + hour * 3_600_000),
      hoursF: Array.from({ length: 24 }, (_, h) => (h <= hour ? reportedF : null)),
    };
    const ensemble: DayEnsemble = {
      kind: 'daily_maximum',
      stationId: 'KLAX',
      date,
      modelRunAt: new Date(midnight - 3_600_000),
      fetchedAt: new Date(midnight),
      membersF: Array.from({ length: 10 }, (_, i) => reportedF - 1 + i / 3),
    };
    const event = { ...makeEvent({ date, lowest: reaches - 4 }), station };
    event.markets = event.markets.map((market) => ({ ...market, station, date }));
    // The brackets are in pairs of degrees; the third one ends just below the degree that is reached.
    const [, , border] = event.markets;
    expect(border!.bracket).toMatchObject({ floor: reaches - 2, cap: reaches - 1 });
    async function read() {
      await index.read(AbortSignal.timeout(10_000));
      const weather = {
        fetchedAt: new Date(now),
        ensembles: [ensemble],
        observed: [minutes.addTo(observed, now)],
      };
      const input = { source: 'test', weather, events: [event], fits: noFits, at: new Date(now) };
      return rawEnsemble(input);
    }

    const earlier = await read();
    expect(forecastOf(earlier, event)!.probabilities.get(border!.ticker)).toBeGreaterThan(0.1);
    expect(findNearExtreme({ forecasts: earlier }, border!, now)).toMatch('would decide it');
    timeseries.push(pointAt(minute, celsius));
    now = minute + 160_000;
    const later = await read();
    expect(forecastOf(later, event)!.observed!.minutes).toMatchObject({ lowestF: reaches });
    expect(forecastOf(later, event)!.probabilities.get(border!.ticker)).toBe(0);
  },
);
