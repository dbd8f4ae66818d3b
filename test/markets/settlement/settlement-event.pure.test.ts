import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CENT, DOLLAR, type Micros } from '../../../src/markets/market/money.js';
import type { Holding } from '../../../src/markets/ledger/positions.js';
import {
  doubtAbout,
  isFinal,
  planSettlement,
  settlementEventOf,
  type RecordedEvent,
  type SettlementEvent,
} from '../../../src/markets/settlement/settlement-event.js';
import { ends, makeMarket } from '../support/settlement.js';

const word = (
  state: SettlementEvent['state'],
  value: Micros | null = null,
  temperature: number | null = null,
): SettlementEvent => ({
  state,
  value,
  temperature,
});
const held: Holding = { side: 'yes', contracts: 10, cost: 420n * CENT };

/** Books events one after another, as the tables would store them. */
function bookAll(start: Holding, words: readonly SettlementEvent[]) {
  let holding = start;
  let cash = 0n;
  let realised = 0n;
  const rows: RecordedEvent[] = [];
  const kinds: (string | null)[] = [];
  for (const event of words)
    for (const { entry, ...row } of planSettlement(holding, rows, event)) {
      rows.push({ ...row, isClosing: entry?.kind === 'settlement' });
      kinds.push(entry?.kind ?? null);
      if (!entry) continue;
      const { postings } = entry;
      expect(postings.cash + postings.positions + postings.fees + postings.realised + postings.capital).toBe(
        0n,
      );
      cash += postings.cash;
      realised -= postings.realised;
      holding = { ...holding, contracts: 0, cost: holding.cost + postings.positions };
    }
  return { holding, cash, realised, rows, kinds };
}

describe('the venue’s event for a market', () => {
  it.each([
    ['nothing while it is traded', { status: 'active' }, undefined],
    ['nothing while it is paused', { status: 'inactive' }, undefined],
    ['nothing once it is closed', ends.closed, undefined],
    ['provisional with the report', ends.provisional(84), word('provisional', null, 84)],
    ['determined', ends.determined(DOLLAR), word('determined', DOLLAR)],
    ['disputed', ends.disputed(0n), word('disputed', 0n)],
    ['amended', ends.amended(DOLLAR), word('amended', DOLLAR)],
    ['finalized', ends.finalized(0n), word('finalized', 0n)],
    ['nothing if it is finalized without a payout', { status: 'finalized' }, undefined],
    ['void', ends.void, word('void')],
    [
      'only determined while a void result is pending',
      { status: 'determined', isVoid: true },
      word('determined'),
    ],
  ] as const)('is %s', (_what, change, expected) => {
    expect(settlementEventOf(makeMarket(change))).toEqual(expected);
  });

  it('calls for a review if its payout contradicts its rule or is missing', () => {
    const at = (settledTemperature: number, value: Micros) =>
      doubtAbout(makeMarket({ ...ends.finalized(value), settledTemperature }));
    expect([at(84, DOLLAR), at(85, DOLLAR), at(86, 0n)]).toEqual([undefined, undefined, undefined]);
    expect(at(86, DOLLAR)).toMatch(/contradicts the rule/);
    expect(at(84, 0n)).toMatch(/contradicts the rule/);
    expect(doubtAbout(makeMarket({ status: 'finalized' }))).toMatch(/without a payout/);
    expect(doubtAbout(makeMarket(ends.void))).toBeUndefined();
    expect(doubtAbout(makeMarket(ends.determined(DOLLAR)))).toBeUndefined();
  });
});

describe('a settlement', () => {
  it('moves no money before the result is final', () => {
    const early = [
      word('provisional', null, 84),
      word('determined', DOLLAR),
      word('disputed', DOLLAR),
      word('amended', 0n),
    ];
    const { cash, holding, kinds } = bookAll(held, early);
    expect({ cash, holding, kinds }).toEqual({ cash: 0n, holding: held, kinds: [null, null, null, null] });
  });

  it.each([
    ['winning yes', 'yes', word('finalized', DOLLAR), 10n * DOLLAR, 580n * CENT],
    ['losing yes', 'yes', word('finalized', 0n), 0n, -420n * CENT],
    ['winning no', 'no', word('finalized', 0n), 10n * DOLLAR, 580n * CENT],
    ['no with a partial payout', 'no', word('finalized', 37n * CENT), 630n * CENT, 210n * CENT],
    ['void yes', 'yes', word('void'), 420n * CENT, 0n],
  ] as const)('pays 10 %s with the right profit or loss', (_what, side, event, paid, earned) => {
    const { cash, realised, holding, kinds } = bookAll({ ...held, side }, [event]);
    expect({ cash, realised, kinds }).toEqual({ cash: paid, realised: earned, kinds: ['settlement'] });
    expect(holding).toMatchObject({ contracts: 0, cost: 0n });
  });

  it('moves only the difference if its result changes', () => {
    const { rows, kinds, cash, realised } = bookAll(held, [
      word('finalized', DOLLAR),
      word('amended', 0n),
      word('finalized', 0n),
      word('void'),
    ]);
    expect(kinds).toEqual(['settlement', null, 'correction', 'correction']);
    expect(rows.map(({ n }) => n)).toEqual([1, 2, 3, 4]);
    // Paid 10.00, then corrected to 0, then refunded at cost.
    expect([cash, realised]).toEqual([420n * CENT, 0n]);
  });

  it('moves nothing if it is disputed and then confirmed, and every event is recorded', () => {
    const events = [word('finalized', DOLLAR), word('disputed', DOLLAR), word('finalized', DOLLAR)];
    expect(bookAll(held, events).kinds).toEqual(['settlement', null, null]);
  });

  it('records a repeated event once, and a temperature once it is known', () => {
    const events = [word('determined', DOLLAR), word('determined', DOLLAR), word('determined', DOLLAR, 84)];
    expect(bookAll(held, [...events, word('determined', DOLLAR)]).rows).toHaveLength(2);
  });

  it('does not go back to the report once the venue has stated a result, nor to that once it has paid', () => {
    expect(bookAll(held, [word('determined', 0n), word('provisional', null, 84)]).rows).toHaveLength(1);
    const paid = [word('finalized', 0n), word('determined', 0n), word('finalized', 0n)];
    expect(bookAll(held, paid).rows).toHaveLength(1);
  });

  it('pays late contracts separately, and corrects both holdings afterwards', () => {
    const first = bookAll(held, [word('finalized', DOLLAR)]);
    // A fill that the venue reported late: 3 NO for 1.50.
    const late: Holding = { side: 'no', contracts: 3, cost: 150n * CENT };
    const again = planSettlement(late, first.rows, word('finalized', DOLLAR));
    expect(again).toMatchObject([
      { n: 2, side: 'no', entry: { kind: 'settlement', postings: { cash: 0n } } },
    ]);
    const rows = [...first.rows, { ...again[0]!, isClosing: true }];
    const corrected = planSettlement(undefined, rows, word('finalized', 0n));
    expect(corrected.map(({ n, entry }) => [n, entry!.kind, entry!.postings.cash])).toEqual([
      [3, 'correction', -10n * DOLLAR],
      [4, 'correction', 3n * DOLLAR],
    ]);
  });

  it('plans nothing for a market that was never held', () => {
    expect(planSettlement(undefined, [], word('finalized', DOLLAR))).toEqual([]);
    expect(planSettlement({ ...held, contracts: 0, cost: 0n }, [], word('void'))).toEqual([]);
  });

  const value = fc.integer({ min: 0, max: 100 }).map((cents) => BigInt(cents) * CENT);
  const anyWord: fc.Arbitrary<SettlementEvent> = fc.oneof(
    fc.integer({ min: 80, max: 90 }).map((degrees) => word('provisional', null, degrees)),
    value.map((cents) => word('determined', cents)),
    value.map((cents) => word('disputed', cents)),
    value.map((cents) => word('amended', cents)),
    value.map((cents) => word('finalized', cents)),
    fc.constant(word('void')),
  );
  const holding: fc.Arbitrary<Holding> = fc
    .record({
      side: fc.constantFrom('yes' as const, 'no' as const),
      contracts: fc.integer({ min: 1, max: 500 }),
      cents: fc.integer({ min: 1, max: 99 }),
    })
    .map(({ side, contracts, cents }) => ({
      side,
      contracts,
      cost: BigInt(cents) * CENT * BigInt(contracts),
    }));

  it('ends as if only the last final event had come, whatever came before, in any order', () => {
    const words = fc.array(fc.tuple(anyWord, fc.integer({ min: 1, max: 3 })), { maxLength: 12 });
    fc.assert(
      fc.property(holding, words, (start, changes) => {
        const all = changes.flatMap(([next, times]) => Array<SettlementEvent>(times).fill(next));
        const last = all.findLast(isFinal);
        const whole = bookAll(start, all);
        const alone = bookAll(start, last ? [last] : []);
        expect([whole.cash, whole.realised, whole.holding]).toEqual([
          alone.cash,
          alone.realised,
          alone.holding,
        ]);
        expect(whole.kinds.filter((kind) => kind === 'settlement')).toHaveLength(last ? 1 : 0);
      }),
      { numRuns: 300 },
    );
  });
});
