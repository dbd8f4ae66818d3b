import { afterAll, beforeAll, expect, it } from 'vitest';
import { climateDayAt, daysBetween, addDays } from '../../../../src/markets/market/climate-day.js';
import { findPlace, indexAreas, stations } from '../../../../src/markets/market/stations.js';
import { maintenanceCommand } from '../../../support/maintenance-command.js';
import { settledLadder, startFakeVenue, type FakeVenue } from '../../support/fake-venue.js';
import { startFakeWeather, type FakeWeather } from '../../support/forecast-fake-weather.js';

// Starts processes, which is slow on a busy machine.

const command = maintenanceCommand('src/markets/commands/backfill');
// The command uses the system clock, so the 40-day range ends a week before today.
const to = addDays(new Date().toISOString().slice(0, 10), -7);
const range = { from: addDays(to, -39), to };
let weather: FakeWeather;
let venue: FakeVenue;
beforeAll(async () => {
  weather = await startFakeWeather();
  venue = await startFakeVenue();
  // Reports are between 70 and 88 °F. Forecasts are 3 °F too warm, give or take one degree.
  const reported = (date: string) => 70 + ((Date.parse(date) / 86_400_000) % 10) * 2;
  weather.previous = (stationId, ms, days, model) => {
    if (model !== 'gfs_global' && model !== 'ncep_nbm_conus') return null;
    const { date } = climateDayAt(findPlace(stationId)!, new Date(ms));
    return reported(date) + 3 + (((Date.parse(date) / 86_400_000) * 7 + days) % 3) - 1;
  };
  venue.markets = daysBetween(range.from, range.to).flatMap((date) => settledLadder(date, reported(date)));
});
afterAll(async () => {
  await weather.stop();
  await venue.stop();
});

it('the command fills the configured database, reports coverage, trains, and does nothing twice', async () => {
  const env = {
    MARKET_SOURCE: 'kalshi',
    KALSHI_BASE_URL: venue.url,
    KALSHI_SERIES: 'KXHIGHNY',
    OPEN_METEO_HISTORY_BASE_URL: weather.url,
    // Bulletins are read 4 seconds apart, which would slow the test down.
    STATION_FORECASTS: 'off',
  };
  const flags = ['--from', range.from, '--to', range.to];
  const first = await command.run(flags, env);
  expect(first.code, first.stderr).toBe(0);
  // Runs of two models, made one and two days ahead for each station's maximum and minimum and for each area's hours.
  const runs = 2 * 40 * 2 * (2 * stations.length + 24 * indexAreas.length);
  expect(first.stdout).toContain(`New: ${runs.toLocaleString('en')} runs, 40 reports.`);
  expect(first.stdout).toContain('  KNYC  forecasts for 40 days (80 runs), reports for 40 days');
  expect(first.stdout).toContain('Forecasts are corrected for errors that all stations share.\n');
  expect(first.stderr).toContain(`38% · 31 of 80 days · forecasts to ${addDays(range.from, 30)}\n`);
  const second = await command.run(flags, env);
  expect(second).toMatchObject({ code: 0, stderr: '' });
  expect(second.stdout).toContain('New: 0 runs, 0 reports.');
});
