import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isCrossed, type OrderBook } from '../../../../src/markets/market/book.js';
import { createBookKeeper, type BookProblem } from '../../../../src/markets/venue/socket/book-keeper.js';
import { readFrame, type Frame } from '../../../../src/markets/venue/socket/frames.js';

const A = 'KXHIGHNY-26SEP23-B69.5';
const B = 'KXHIGHNY-26SEP23-T63';

type Levels = [string, string][];
const frame = (fields: object): Frame => readFrame(JSON.stringify(fields));
/** In the venue's format with `use_yes_price`, in which NO levels have YES prices. */
const snapshot = (seq: number, ticker: string, yes?: Levels, no?: Levels, sid = 1): Frame =>
  frame({
    type: 'orderbook_snapshot',
    sid,
    seq,
    msg: { market_ticker: ticker, market_id: 'x', yes_dollars_fp: yes, no_dollars_fp: no },
  });
const delta = (seq: number, ticker: string, side: string, price: string, by: string, sid = 1): Frame =>
  frame({
    type: 'orderbook_delta',
    sid,
    seq,
    msg: { market_ticker: ticker, market_id: 'x', side, price_dollars: price, delta_fp: by },
  });

/** Returns a keeper that has two markets with complete books. */
function begin() {
  const changes: string[] = [];
  const keeper = createBookKeeper((ticker) => changes.push(ticker));
  keeper.expect(1, [A, B]);
  keeper.take(snapshot(1, A, [['0.4000', '10.00']], [['0.4500', '5.00']]));
  keeper.take(snapshot(2, B));
  changes.length = 0;
  return { keeper, changes };
}
const text = (book: OrderBook | undefined) =>
  book && {
    yes: book.yes.map(({ price, contracts }) => `${price / 10_000n}:${contracts}`),
    no: book.no.map(({ price, contracts }) => `${price / 10_000n}:${contracts}`),
  };

describe('a kept book', () => {
  it('is missing before its snapshot, and then follows every change', () => {
    const keeper = createBookKeeper();
    keeper.expect(1, [A]);
    expect(keeper.book(A)).toBeUndefined();
    expect(keeper.take(snapshot(1, A, [['0.4000', '10.00']], [['0.4500', '5.00']]))).toBeUndefined();
    expect(text(keeper.book(A))).toEqual({ yes: ['40:10'], no: ['55:5'] });
    keeper.take(delta(2, A, 'yes', '0.4200', '3.00'));
    keeper.take(delta(3, A, 'no', '0.4500', '-5.00'));
    keeper.take(delta(4, A, 'no', '0.4400', '1.00'));
    expect(text(keeper.book(A))).toEqual({ yes: ['42:3', '40:10'], no: ['56:1'] });
  });

  it('adds up hundredths exactly', () => {
    const { keeper } = begin();
    for (let seq = 3; seq < 3 + 1_000; seq++) keeper.take(delta(seq, A, 'yes', '0.4100', '0.01'));
    keeper.take(delta(1_003, A, 'yes', '0.4100', '-10.00'));
    expect(text(keeper.book(A))).toEqual({ yes: ['40:10'], no: ['55:5'] });
  });

  it('may be empty on both sides', () => {
    expect(text(begin().keeper.book(B))).toEqual({ yes: [], no: [] });
  });

  it('matches the venue’s book after the recorded frames', () => {
    const keeper = createBookKeeper();
    const ticker = 'KXMAXSHARDINGTEST-26AUG2818-T57399.99';
    keeper.expect(1, [ticker]);
    // Without `use_yes_price`, the NO levels would be at 0.43 and 0.42.
    keeper.take(
      snapshot(
        1,
        ticker,
        [['0.2500', '100.00']],
        [
          ['0.5700', '2500.00'],
          ['0.5800', '100.00'],
        ],
      ),
    );
    expect(text(keeper.book(ticker))).toEqual({ yes: ['25:100'], no: ['43:2500', '42:100'] });
  });
});

describe('sequence numbers of acknowledgements', () => {
  it.each([
    ['ok', { id: 7, type: 'ok', sid: 1, seq: 3, msg: { market_tickers: [A, B] } }],
    ['error', { id: 7, type: 'error', sid: 1, seq: 3, msg: { code: 13, msg: 'Unsupported action' } }],
    ['unknown types', { type: 'something_new', sid: 1, seq: 3, msg: {} }],
  ])('for %s are not a gap', (_name, answer) => {
    const { keeper } = begin();
    expect(keeper.take(frame(answer))).toBeUndefined();
    expect(keeper.take(delta(4, A, 'yes', '0.4200', '3.00'))).toBeUndefined();
    expect(text(keeper.book(A))!.yes).toEqual(['42:3', '40:10']);
  });
});

const ofAll = (doubt: BookProblem['doubt']): BookProblem => ({ doubt, isOfAll: true });
const ofOne = (doubt: BookProblem['doubt']): BookProblem => ({ doubt, isOfAll: false });

describe('a broken sequence puts all books of its subscription in doubt', () => {
  it.each([
    ['a gap', delta(4, A, 'yes', '0.4200', '3.00'), ofAll('gap')],
    ['a gap before another market’s frame', snapshot(9, B), ofAll('gap')],
    ['a gap before an answer', frame({ type: 'ok', sid: 1, seq: 5 }), ofAll('gap')],
    ['a repeated frame', snapshot(2, B), ofAll('stale')],
    ['a restarted sequence', delta(1, A, 'yes', '0.4200', '3.00'), ofAll('stale')],
    [
      'an unreadable frame that names no market',
      frame({ type: 'orderbook_delta', sid: 1, seq: 3, msg: { side: 'yes' } }),
      ofAll('unreadable'),
    ],
  ])('%s', (_name, broken, problem) => {
    const { keeper } = begin();
    expect(keeper.take(broken)).toEqual(problem);
    expect(keeper.book(A)).toBeUndefined();
  });

  it('but an unreadable frame of one market puts only that one in doubt', () => {
    const { keeper } = begin();
    const unreadable = frame({
      type: 'orderbook_delta',
      sid: 1,
      seq: 3,
      msg: { market_ticker: A, side: 'yes' },
    });
    expect(keeper.take(unreadable)).toEqual(ofOne('unreadable'));
    expect([keeper.book(A), text(keeper.book(B))]).toEqual([undefined, { yes: [], no: [] }]);
    keeper.take(delta(4, B, 'yes', '0.4200', '3.00'));
    expect(text(keeper.book(B))!.yes).toEqual(['42:3']);
    keeper.take(snapshot(5, A, [['0.3000', '1.00']]));
    expect(text(keeper.book(A))!.yes).toEqual(['30:1']);
  });

  it('until each market gets its own new snapshot', () => {
    const { keeper } = begin();
    keeper.take(delta(5, A, 'yes', '0.4200', '3.00'));
    expect(keeper.doubtful(1)).toEqual([A, B]);
    keeper.take(delta(6, A, 'yes', '0.4200', '3.00'));
    keeper.take(snapshot(7, A, [['0.3000', '1.00']]));
    expect([text(keeper.book(A))!.yes, keeper.doubtful(1)]).toEqual([['30:1'], [B]]);
  });

  it('until a new subscription, after a late frame', () => {
    const { keeper } = begin();
    keeper.take(snapshot(4, A, [['0.3000', '1.00']]));
    expect(text(keeper.book(A))!.yes).toEqual(['30:1']);
    expect(keeper.take(snapshot(3, A, [['0.2000', '1.00']]))).toEqual(ofAll('stale'));
    for (const seq of [4, 5]) expect(keeper.take(snapshot(seq, A, [['0.2000', '1.00']]))).toBeUndefined();
    expect(keeper.book(A)).toBeUndefined();
    keeper.end(1);
    keeper.expect(2, [A, B]);
    keeper.take(snapshot(1, A, [['0.3000', '2.00']], undefined, 2));
    expect(text(keeper.book(A))!.yes).toEqual(['30:2']);
  });

  it('but no book of other subscriptions', () => {
    const { keeper } = begin();
    keeper.expect(2, ['C']);
    keeper.take(snapshot(1, 'C', [['0.1000', '1.00']], undefined, 2));
    keeper.take(delta(9, A, 'yes', '0.4200', '3.00'));
    expect(text(keeper.book('C'))).toEqual({ yes: ['10:1'], no: [] });
  });
});

describe('a contradiction in one book puts only that book in doubt', () => {
  it.each([
    ['a negative level', delta(3, A, 'yes', '0.4000', '-10.01'), ofOne('negative')],
    ['removed bids that never existed', delta(3, A, 'no', '0.9000', '-1.00'), ofOne('negative')],
    ['a crossed book', delta(3, A, 'yes', '0.4500', '1.00'), ofOne('crossed')],
    ['a crossed snapshot', snapshot(3, A, [['0.6000', '1.00']], [['0.5000', '1.00']]), ofOne('crossed')],
    ['a snapshot with a negative level', snapshot(3, A, [['0.6000', '-1.00']]), ofOne('negative')],
  ])('%s', (_name, wrong, problem) => {
    const { keeper } = begin();
    expect(keeper.take(wrong)).toEqual(problem);
    expect([keeper.book(A), keeper.doubtful(1)]).toEqual([undefined, [A]]);
    expect(keeper.take(delta(4, B, 'yes', '0.1000', '1.00'))).toBeUndefined();
    expect(text(keeper.book(B))!.yes).toEqual(['10:1']);
  });

  it.each([
    ['of an unknown subscription', 8],
    ['of another market’s subscription', 2],
  ])('after a frame %s', (_name, sid) => {
    const { keeper } = begin();
    keeper.expect(2, ['C']);
    expect(keeper.take(delta(1, A, 'yes', '0.4200', '1.00', sid))).toEqual(ofOne('foreign'));
    expect([keeper.book(A), text(keeper.book(B))]).toEqual([undefined, { yes: [], no: [] }]);
  });
});

it('listeners are notified once of a change in trust', () => {
  const { keeper, changes } = begin();
  keeper.take(delta(3, A, 'yes', '0.4100', '1.00'));
  expect(changes.splice(0)).toEqual([A]);
  keeper.doubt([A]);
  keeper.doubt([A]);
  expect(changes.splice(0)).toEqual([A]);
  expect([keeper.trusted, keeper.size]).toEqual([1, 2]);
  expect(keeper.end(1)).toEqual([A, B]);
  expect([keeper.trusted, keeper.size, keeper.book(B)]).toEqual([0, 0, undefined]);
});

describe('with frames lost, repeated or reordered', () => {
  const change = fc.record({
    ticker: fc.constantFrom(A, B),
    side: fc.constantFrom('yes', 'no'),
    cents: fc.integer({ min: 1, max: 99 }),
    hundredths: fc.integer({ min: -300, max: 300 }),
    isSnapshot: fc.boolean(),
    fault: fc.constantFrom('none', 'none', 'none', 'none', 'lost', 'doubled', 'swapped', 'reset'),
  });

  it('a returned book equals the venue’s as of its market’s last frame in sequence', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const venue = new Map([A, B].map((ticker) => [ticker, new Map<string, number>()]));
        const write = (ticker: string) => {
          const side = (wanted: string) =>
            [...venue.get(ticker)!].flatMap(([key, n]): Levels => {
              const [of, price] = key.split(' ') as [string, string];
              return of === wanted && n > 0 ? [[price, (n / 100).toFixed(2)]] : [];
            });
          return { yes: side('yes'), no: side('no') };
        };
        const expected = (ticker: string): OrderBook | undefined => {
          const fresh = createBookKeeper();
          fresh.expect(1, [ticker]);
          const { yes, no } = write(ticker);
          fresh.take(snapshot(1, ticker, yes, no));
          return fresh.book(ticker);
        };
        const keeper = createBookKeeper();
        let [sid, seq] = [0, 0];
        const subscribe = () => {
          keeper.end(sid);
          [sid, seq] = [sid + 1, 0];
          keeper.expect(sid, [A, B]);
        };
        const take = (taken: Frame) => {
          if (keeper.take(taken)?.doubt === 'stale') subscribe();
        };
        subscribe();
        let held: Frame | undefined;
        for (const { ticker, side, cents, hundredths, isSnapshot, fault } of changes) {
          if (fault === 'reset') seq = 0;
          const price = (cents / 100).toFixed(4);
          const levels = venue.get(ticker)!;
          const before = levels.get(`${side} ${price}`) ?? 0;
          const by = Math.max(hundredths, -before);
          levels.set(`${side} ${price}`, before + by);
          const { yes, no } = write(ticker);
          const sent = isSnapshot
            ? snapshot(++seq, ticker, yes, no, sid)
            : delta(++seq, ticker, side, price, (by / 100).toFixed(2), sid);
          if (fault === 'lost') continue;
          if (fault === 'swapped' && !held) {
            held = sent;
            continue;
          }
          take(sent);
          if (fault === 'doubled') take(sent);
          // Every frame has arrived or been lost by now, so a trusted book of the changed market must match the
          // venue's.
          const book = keeper.book(ticker);
          if (book && !held) expect(book).toEqual(expected(ticker));
          if (held) take(held);
          held = undefined;
          for (const one of [A, B]) {
            const kept = keeper.book(one);
            if (kept) expect(isCrossed(kept)).toBe(false);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});
