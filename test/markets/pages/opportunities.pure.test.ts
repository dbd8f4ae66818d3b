import { describe, expect, it } from 'vitest';
import { findStation } from '../../../src/markets/market/stations.js';
import { noteOf, toOpportunities } from '../../../src/markets/pages/desk-view.js';
import type { OwnAccount } from '../../../src/markets/pages/market-view.js';
import type { SignalReport } from '../../../src/markets/signals/signal.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';

it.each([
  [false, 'No signals: at these prices and after fees, no purchase is worth its cost.'],
  [true, 'No signals: every purchase that is worth its cost at these prices is withheld.'],
])('a desk without signals does not contradict what is withheld (%s)', (isWithheld, words) => {
  const now = new Date('2026-07-15T16:00:00Z');
  const snapshot = {
    asOf: now,
    events: [{ eventTicker: 'E', kind: 'daily_minimum', markets: [] }],
    forecasts: new Map([['E', {}]]),
    gates: { gates: [{ kind: 'daily_maximum', isOpen: true }] },
  } as unknown as Snapshot;
  const side = { ticker: 'E-T1', side: 'yes', reason: '', isWithheld };
  const signals = {
    events: [{ eventTicker: 'E', signals: [], suppressed: [side] }],
  } as unknown as SignalReport;
  const own = { signals, holdings: new Map(), watched: new Set() } as unknown as OwnAccount;
  const list = toOpportunities({ snapshot, own, chosen: undefined, now }, { kind: 'daily_maximum', q: '' });
  expect(list.none).toBe(words);
});

it('a kind lists only its own markets, also if others are held', () => {
  const now = new Date('2026-07-15T16:00:00Z');
  const event = (eventTicker: string, kind: string, city: string) => ({
    eventTicker,
    kind,
    station: { ...findStation('KNYC')!, city },
    date: '2026-07-15',
    markets: [{ ticker: `${eventTicker}-T`, status: 'active', closeTime: new Date('2026-07-16T05:00:00Z') }],
  });
  const gate = { isOpen: false, evidence: 28, needed: 43, n: 30 };
  const snapshot = {
    asOf: now,
    events: [event('H', 'daily_maximum', 'Aa'), { ...event('L', 'hourly', 'Bb'), hour: 14 }],
    forecasts: new Map([
      [
        'KNYC',
        { days: [{ kind: 'hourly', hour: 14, date: '2026-07-15', meanF: 70, probabilities: new Map() }] },
      ],
    ]),
    gates: { gates: [gate] },
    data: { books: new Map() },
  } as unknown as Snapshot;
  const suppressed = [{ ticker: 'L-T', side: 'yes', reason: '', isWithheld: true }];
  const signals = {
    events: [{ eventTicker: 'L', signals: [], suppressed, gate }],
  } as unknown as SignalReport;
  const holdings = new Map([['H-T', { side: 'yes', contracts: 3, cost: 1n }]]);
  const own = { signals, holdings, watched: new Set() } as unknown as OwnAccount;
  const { rows } = toOpportunities({ snapshot, own, chosen: undefined, now }, { kind: 'hourly', q: '' });
  expect(rows.map(({ city }) => city)).toEqual(['Bb']);
  // Evidence multiplies: the logarithm of 28 is 88% of that of 43.
  expect(rows[0]!.withheld).toEqual({ evidence: 88 });
  expect(rows[0]).toMatchObject({ what: '1 withheld', held: 0 });
});

it('groups cities: signals, watched, held, withheld, others', () => {
  const now = new Date('2026-07-15T16:00:00Z');
  const event = (city: string) => ({
    eventTicker: city,
    kind: 'daily_maximum',
    station: { ...findStation('KNYC')!, city },
    date: '2026-07-15',
    markets: [{ ticker: `${city}-T`, status: 'active', closeTime: new Date('2026-07-16T05:00:00Z') }],
  });
  const snapshot = {
    events: ['Aa', 'Held', 'Ww', 'Zz'].map(event),
    forecasts: new Map(),
    gates: { gates: [] },
    data: { books: new Map() },
  } as unknown as Snapshot;
  const holdings = new Map(['Held', 'Ww'].map((city) => [`${city}-T`, { contracts: 1 }]));
  const own = { signals: { events: [] }, holdings, watched: new Set(['Ww']) } as unknown as OwnAccount;
  const { rows } = toOpportunities(
    { snapshot, own, chosen: undefined, now },
    { kind: 'daily_maximum', q: '' },
  );
  expect(rows.map(({ city, group }) => [city, group])).toEqual([
    ['Ww', 'Watched'],
    ['Held', 'Held'],
    ['Aa', 'Others'],
    ['Zz', 'Others'],
  ]);
});

describe('the note beside a position', () => {
  const held = { side: 'yes', contracts: 18, settlement: null } as const;
  const mark = { valuation: 'book', value: 4_550_000n, fees: 0n, unsellableContracts: 9, status: 'active' };
  it.each([
    [held, mark, 'bids for 9 of 18 now; $10.08 at the last price of 56¢'],
    [{ ...held, side: 'no' }, mark, 'bids for 9 of 18 now; $7.92 at the last price of 44¢'],
    [held, { ...mark, unsellableContracts: 0 }, undefined],
    [held, { ...mark, valuation: 'expected', status: 'finalized' }, 'final, not paid yet'],
    [held, { ...mark, valuation: 'expected', status: 'determined' }, 'expected, not final'],
  ])('says what is not sold now, or that a result is not paid yet: %j', (position, ofMark, note) => {
    expect(noteOf({ ...position, mark: ofMark } as Parameters<typeof noteOf>[0], 560_000n)).toBe(note);
  });
});
