import { expect, it } from 'vitest';
import type { MarketEvent } from '../../../src/markets/market/event.js';
import { stations } from '../../../src/markets/market/stations.js';
import { currentEvent, isTradable } from '../../../src/markets/pages/choice.js';

const now = new Date('2026-07-15T18:00:00Z');
const event = (date: string, status: string, closeTime = '2026-08-01T00:00:00Z') =>
  ({
    kind: 'daily_maximum',
    station: stations[0]!,
    date,
    markets: [{ status: 'finalized' }, { status, closeTime: new Date(closeTime) }],
  }) as unknown as MarketEvent;

it('a city opens on its first tradable day', () => {
  const days = [event('2026-07-14', 'closed'), event('2026-07-15', 'closed'), event('2026-07-16', 'active')];
  expect(currentEvent(days, now)).toBe(days[2]);
});

it('a market past its closing time cannot be traded, whatever its status', () => {
  const late = event('2026-07-15', 'active', '2026-07-15T17:59:59Z');
  expect(isTradable(late, now)).toBe(false);
  const next = event('2026-07-16', 'active');
  expect(currentEvent([late, next], now)).toBe(next);
});

it('without a tradable day a city opens on the current day, else the last', () => {
  const days = [event('2026-07-14', 'finalized'), event('2026-07-15', 'closed')];
  expect(currentEvent(days, now)).toBe(days[1]);
  expect(currentEvent(days.slice(0, 1), now)).toBe(days[0]);
  expect(currentEvent([], now)).toBe(undefined);
});
