import { renderFile } from 'ejs';
import { expect, it } from 'vitest';
import { findStation } from '../../../src/markets/market/stations.js';
import { describeUncalibrated } from '../../../src/markets/pages/overview-view.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';

const date = '2026-11-27';
const kind = 'daily_maximum' as const;

function scene(states: Record<string, boolean | undefined>) {
  const events = Object.keys(states).map((id) => ({ kind, date, station: findStation(id)! }));
  const forecasts = new Map(
    Object.entries(states).map(([id, isCalibrated]) => [
      id,
      { days: isCalibrated === undefined ? [] : [{ kind, date, isCalibrated }] },
    ]),
  );
  return describeUncalibrated({ forecasts } as unknown as Snapshot, events);
}

it('names the forecast that is not calibrated, counts several, and is silent once all are', () => {
  expect(scene({ KMIA: false, KDEN: true })).toMatch(/^the forecast of Miami is not calibrated yet/);
  expect(scene({ KMIA: false, KDEN: false })).toMatch(/^2 forecasts are not calibrated yet/);
  // Without a forecast, the page shows no number that could mislead.
  expect(scene({ KMIA: true, KDEN: undefined })).toBe('');
});

it('the desk of the demo says what is missing while its history is built', async () => {
  const open = { state: 'open' };
  const render = (filling: object, uncalibrated = '') =>
    renderFile('views/markets/banners.ejs', {
      filling,
      uncalibrated,
      me: null,
      tradingSwitch: { state: 'open', service: open, operator: open, own: open },
      freshness: { state: 'current', notes: [] },
      ui: {},
    });
  expect(await render({ trades: true, forecasts: true })).toMatch(
    /still building its history: past trades are not settled yet, .*; some gates stay closed until/,
  );
  expect(await render({ trades: false, forecasts: true }, 'the forecast is not calibrated')).toContain(
    'its history: the forecast is not calibrated.',
  );
  expect(await render({ trades: false, forecasts: false })).not.toContain('history');
});
