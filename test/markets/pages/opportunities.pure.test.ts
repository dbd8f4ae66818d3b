import { describe, expect, it } from 'vitest';
import { findStation } from '../../../src/markets/market/stations.js';
import {
  findOrder,
  notesOn,
  toDeskPositions,
  toDeskTotal,
  toOpportunities,
} from '../../../src/markets/pages/desk-view.js';
import type { Market } from '../../../src/markets/market/market.js';
import type { OwnAccount } from '../../../src/markets/pages/ladder.js';
import { toMarketValue, toPortfolioView } from '../../../src/markets/pages/portfolio-view.js';
import { currentSignals, toSignalsView, whyNone } from '../../../src/markets/pages/signals-view.js';
import type { EventSignals, SignalReport } from '../../../src/markets/signals/signal.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';

it.each([
  [0.9, { yes: 80, no: 30 }, { side: 'yes' }],
  [0.9, { yes: 95, no: 8 }, { side: 'no' }],
  [0.9, { yes: 95, no: 12 }, undefined],
  [0.9, {}, undefined],
  [undefined, { yes: 95, no: 12 }, {}],
])('an order on a chance of %s at %j is for %j', (chance, asks, order) => {
  const market = { ticker: 'E-B', seriesTicker: 'S', eventTicker: 'E', station: { id: 'KNYC' } };
  const levels = (cents?: number) => (cents ? [{ price: BigInt(100 - cents) * 10_000n, contracts: 10 }] : []);
  const { yes, no } = asks as { yes?: number; no?: number };
  const snapshot = {
    forecasts: new Map([
      ['KNYC', { days: [{ probabilities: new Map(chance === undefined ? [] : [['E-B', chance]]) }] }],
    ]),
    data: {
      books: new Map([['E-B', { yes: levels(no), no: levels(yes) }]]),
      feeRules: new Map([['S', { type: 'quadratic', multiplier: 1_000_000n }]]),
    },
  } as unknown as Snapshot;
  expect(findOrder(snapshot, market as unknown as Market)).toEqual(order);
});

const late = 'Forecasts within 6 hours of the end of a day are not scored.';

it.each([
  [false, true, 'No signals: at these prices and after fees, no purchase is worth its cost.'],
  [false, false, 'No signals: forecasts within 6 hours of the end of a day are not scored.'],
  [true, false, 'No signals: every purchase that is worth its cost at these prices is withheld.'],
])(
  'a desk without signals names the first reason (withheld: %s, gate open: %s)',
  (isWithheld, isOpen, words) => {
    const now = new Date('2026-07-15T16:00:00Z');
    const snapshot = {
      asOf: now,
      events: [{ eventTicker: 'E', kind: 'daily_minimum', markets: [] }],
      forecasts: new Map([['E', {}]]),
      gates: { gates: [{ kind: 'daily_maximum', isOpen: true }] },
    } as unknown as Snapshot;
    const side = {
      ticker: 'E-T1',
      side: 'yes',
      reason: 'after the fee it costs 38.7 points more than it is worth',
      isWithheld,
    };
    const other = { ticker: 'E-T2', side: 'yes', reason: 'there are no asks', isWithheld: false };
    const report = { eventTicker: 'E', kind: 'daily_maximum', signals: [], suppressed: [side, other] };
    const gate = { isOpen, reason: late, leadHours: 0 };
    const signals = {
      events: [{ ...report, isCalibrated: true, gate }],
    } as unknown as SignalReport;
    const own = { signals, holdings: new Map(), watched: new Set() } as unknown as OwnAccount;
    const list = toOpportunities({ snapshot, own, chosen: undefined, now }, { kind: 'daily_maximum', q: '' });
    expect(list.none).toBe(words);
  },
);

it.each([
  ['there is no forecast', false, 'There is no forecast.', 'Not tradable'],
  [null, false, late, 'Not scored'],
  [null, true, 'At these prices and after fees, no purchase is worth its cost.', 'Too dear'],
])(
  'without a signal, the reason is what holds for all (%s, gate open: %s)',
  (shared, isOpen, text, short) => {
    const suppressed = ['after the fee it costs 38.7 points more than it is worth', 'there are no asks'].map(
      (own) => ({
        reason: shared ?? own,
      }),
    );
    const gate = { isOpen, reason: late, leadHours: 0 };
    expect(whyNone({ isCalibrated: true, gate, suppressed } as unknown as EventSignals)).toEqual({
      text,
      short,
    });
  },
);

it('a signal whose edge would be shown as 0.0 points is none, and its event says why', () => {
  const now = new Date('2026-07-15T16:00:00Z');
  const signal = (ticker: string, edge: number, isHedge = false) => ({
    market: { ticker, closeTime: new Date('2026-07-16T05:00:00Z'), bracket: { kind: 'below', cap: 80 } },
    side: 'yes',
    contracts: 10,
    limitPrice: 50_000n,
    expectedValue: 0n,
    stake: 500_000n,
    rest: null,
    edge,
    isHedge,
  });
  const signals = [signal('A', 0.0004), signal('B', 0.0006), signal('C', -0.002, true)];
  const found = { eventTicker: 'E', signals, suppressed: [], gate: {} } as unknown as EventSignals;
  expect(currentSignals(found, now).map(({ market }) => market.ticker)).toEqual(['B', 'C']);
  const event = { eventTicker: 'E', kind: 'daily_maximum', markets: signals.map(({ market }) => market) };
  const report = { events: [found] } as unknown as SignalReport;
  const view = toSignalsView(report, event as unknown as Parameters<typeof toSignalsView>[1], now);
  // Two of 10 contracts at 5 cents each.
  expect([view.signals.length, view.stake, view.worstCase]).toEqual([2, 1_000_000n, 1_000_000n]);
  expect(view.suppressed.map(({ reason }) => reason)).toEqual(['its edge is near 0 points']);
});

it('positions add up only if each value is known', () => {
  const known = { value: 150n, profit: -31n };
  expect(toDeskTotal([known, known])).toEqual({ value: 300n, profit: -62n });
  expect(toDeskTotal([known, { value: null, profit: null }])).toEqual({ value: null, profit: null });
});

it('a city without a signal shows its likeliest market, the forecast and the ask', () => {
  const now = new Date('2026-07-15T16:00:00Z');
  const market = (ticker: string, floor: number, yesAsk: bigint) => ({
    ticker,
    status: 'active',
    closeTime: new Date('2026-07-16T05:00:00Z'),
    bracket: { kind: 'between', floor, cap: floor + 1 },
    yesAsk,
  });
  const days = [
    {
      kind: 'daily_maximum',
      date: '2026-07-15',
      probabilities: new Map([
        ['A', 0.2],
        ['B', 0.6],
      ]),
    },
  ];
  const snapshot = {
    asOf: now,
    events: [
      {
        eventTicker: 'E',
        kind: 'daily_maximum',
        station: findStation('KNYC')!,
        date: '2026-07-15',
        markets: [market('A', 70, 250_000n), market('B', 72, 520_000n)],
      },
    ],
    forecasts: new Map([['KNYC', { days }]]),
    gates: { gates: [] },
    data: { books: new Map([['B', { yes: [], no: [{ price: 480_000n, contracts: 5 }] }]]) },
  } as unknown as Snapshot;
  const report = { eventTicker: 'E', kind: 'daily_maximum', signals: [], suppressed: [], isCalibrated: true };
  const signals = { events: [{ ...report, gate: { isOpen: false, reason: late, leadHours: 0 } }] };
  const own = { signals, holdings: new Map(), watched: new Set() } as unknown as OwnAccount;
  const asked = { kind: 'daily_maximum', q: '' } as const;
  const { rows } = toOpportunities({ snapshot, own, chosen: undefined, now }, asked);
  expect(rows).toMatchObject([
    { what: '72° to 73°', why: 'Not scored', quote: { probability: 0.6, ask: 520_000n } },
  ]);
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
  expect(rows[0]).toMatchObject({ what: '1 withheld', held: 0, isFolded: false });
  gate.evidence = 1;
  const [little] = toOpportunities({ snapshot, own, chosen: undefined, now }, { kind: 'hourly', q: '' }).rows;
  expect(little).toMatchObject({ withheld: { evidence: 0 }, isFolded: true });
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

describe('a position', () => {
  const held = { ticker: 'T', side: 'yes', contracts: 18, cost: 6_000_000n, settlement: null };
  const mark = { valuation: 'book', value: 4_550_000n, fees: 0n, unsellableContracts: 9, status: 'active' };
  const snapshotOf = (lastPrice: bigint | null, extremeF = 70, isCalibrated = true, isOpen = true) =>
    ({
      signals: { events: [{ eventTicker: 'E', gate: { isOpen } }] },
      markets: new Map([
        [
          'T',
          {
            station: { id: 'KNYC' },
            kind: 'daily_maximum',
            date: '2026-07-15',
            bracket: { kind: 'between', floor: 77, cap: 78 },
            lastPrice,
          },
        ],
      ]),
      forecasts: new Map([
        [
          'KNYC',
          {
            days: [
              {
                date: '2026-07-15',
                kind: 'daily_maximum',
                hour: undefined,
                observed: { extremeF },
                isCalibrated,
                probabilities: new Map([['T', 0.6]]),
              },
            ],
          },
        ],
      ]),
      data: {
        books: new Map([
          ['T', { yes: [{ price: 540_000n, contracts: 9 }], no: [{ price: 430_000n, contracts: 50 }] }],
        ]),
      },
    }) as unknown as Snapshot;
  const valueOf = (position: object, snapshot: Snapshot) =>
    toMarketValue({ ...held, mark, ...position } as Parameters<typeof toMarketValue>[0], snapshot);

  it('counts contracts without a bid at the last price, which bid and ask limit', () => {
    expect(valueOf({}, snapshotOf(560_000n))).toEqual({
      value: 10_080_000n,
      price: 560_000n,
      excludedByF: null,
    });
    expect(valueOf({}, snapshotOf(900_000n)).price).toBe(570_000n);
    expect(valueOf({}, snapshotOf(null)).price).toBe(540_000n);
    expect(valueOf({ side: 'no' }, snapshotOf(560_000n)).price).toBe(440_000n);
    const unlisted = { mark: { ...mark, valuation: 'not_listed', value: 0n } };
    expect(valueOf({ ...unlisted, ticker: 'gone' }, snapshotOf(null)).value).toBe(6_000_000n);
  });

  it('of an ended market counts at its last price, also where the others are sold to the bids', () => {
    const ended = { ...held, mark: { ...mark, valuation: 'closed', value: 0n, unsellableContracts: 18 } };
    const portfolio = { positions: [{ ...held, mark }, ended], cost: 12_000_000n, cash: 0n, openedAt: null };
    const { tiles } = toPortfolioView(portfolio as unknown as Parameters<typeof toPortfolioView>[0], {
      snapshot: { ...snapshotOf(560_000n), asOf: new Date() },
      sources: [],
      refreshSeconds: 30,
      now: new Date(),
    });
    expect(tiles.value).toBe(20_160_000n);
    expect(tiles.unrealised).toBe(4_550_000n + 10_080_000n - 12_000_000n);
  });

  it('of a bracket that the measured temperature rules out is worth its bids, and NO of it its price', () => {
    expect(valueOf({}, snapshotOf(560_000n, 79.1))).toEqual({
      value: 4_550_000n,
      price: null,
      excludedByF: 79.1,
    });
    expect(valueOf({ side: 'no' }, snapshotOf(560_000n, 79.1)).excludedByF).toBeNull();
  });

  it('has an edge over its sale only by a calibrated forecast behind an open gate', () => {
    const positions = [{ ...held, city: null, date: null, eventTicker: 'E', mark }];
    const edgeOf = (isCalibrated: boolean, isOpen = true) =>
      toDeskPositions(
        { positions } as unknown as Parameters<typeof toDeskPositions>[0],
        snapshotOf(560_000n, 70, isCalibrated, isOpen),
        false,
      )[0]!.edge;
    // Nine contracts sell for 4.55.
    expect(edgeOf(true)).toBeCloseTo(0.6 - 4.55 / 9, 6);
    expect([edgeOf(false), edgeOf(true, false)]).toEqual([null, null]);
  });

  it('that is almost worthless says so and stands last, in the chosen market before those of others', () => {
    const snapshot = snapshotOf(560_000n);
    const { probabilities } = snapshot.forecasts.get('KNYC')!.days[0]!;
    (probabilities as Map<string, number>).set('T', 0.003);
    const positions = ['T', 'U', 'T2'].map((ticker) => ({
      ...held,
      ticker,
      city: null,
      date: null,
      eventTicker: ticker[0],
      mark,
    }));
    const portfolio = { positions } as unknown as Parameters<typeof toDeskPositions>[0];
    const chosen = { ticker: 'T', eventTicker: 'T' } as Parameters<typeof toDeskPositions>[3];
    const shown = toDeskPositions(portfolio, snapshot, true, chosen);
    expect(shown.map(({ ticker, state }) => [ticker, state?.label, state?.note])).toEqual([
      ['T2', undefined, undefined],
      ['T', 'Almost worthless', 'forecast <1%'],
      ['U', undefined, undefined],
    ]);
    const [last] = toDeskPositions(portfolio, snapshot, true).slice(-1);
    expect([last!.ticker, last!.rank >= 3]).toEqual(['T', true]);
  });

  it.each([
    [{}, '9 of 18 sell for $4.55'],
    [{ unsellableContracts: 0 }, 'sells for $4.55'],
    [{ unsellableContracts: 18 }, 'no bids now'],
    [{ valuation: 'closed', status: 'closed' }, 'no result yet'],
  ])('says what part can be sold now: %j', (differs, note) => {
    expect(
      notesOn({ ...held, mark: { ...mark, ...differs } } as Parameters<typeof notesOn>[0], 560_000n),
    ).toEqual(['valued at 56¢', note]);
  });

  it.each([
    ['finalized', 'final, not paid yet'],
    ['determined', 'expected, not final'],
  ])('with a result says whether it is final: %s', (status, note) => {
    const ofMark = { ...mark, valuation: 'expected', status };
    expect(notesOn({ ...held, mark: ofMark } as Parameters<typeof notesOn>[0], null)).toEqual([note]);
  });
});
