import { expect, it } from 'vitest';
import type { MarketableOrder, OrderBook } from '../../../src/markets/market/book.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import {
  formatAge,
  formatPrice,
  formatChange,
  formatExactMoney,
  formatFee,
  formatCount,
  formatMoney,
  formatPoints,
  formatProbability,
  roundToCent,
} from '../../../src/core/pages/format.js';
import { reviewOrder, type ReviewInput } from '../../../src/markets/pages/review.js';
import { fillTicket, readTicket } from '../../../src/markets/pages/ticket-form.js';

const cents = (n: number) => BigInt(n) * CENT;
/** YES: asks 6 at 42, 10 at 43; bids 5 at 40, 10 at 39. */
const book: OrderBook = {
  yes: [
    { price: cents(40), contracts: 5 },
    { price: cents(39), contracts: 10 },
  ],
  no: [
    { price: cents(58), contracts: 6 },
    { price: cents(57), contracts: 10 },
  ],
};
/** Bids for YES: 100 at 56, 50 at 55. */
const deep: OrderBook = {
  yes: [
    { price: cents(56), contracts: 100 },
    { price: cents(55), contracts: 50 },
  ],
  no: [],
};
const position = { side: 'yes' as const, contracts: 120, cost: cents(7_200) };
const market = {
  bracket: { kind: 'between', floor: 84, cap: 85 },
  priceRanges: [{ start: 0n, end: DOLLAR, step: CENT }],
} as unknown as Market;
const order: MarketableOrder = {
  side: 'yes',
  action: 'buy',
  contracts: 10,
  limitPrice: cents(43),
  timeInForce: 'immediate_or_cancel',
};
const review = (changes: Partial<ReviewInput> = {}) =>
  reviewOrder({
    market,
    book,
    whole: book,
    feeRule: { type: 'quadratic', multiplier: DOLLAR },
    order,
    held: undefined,
    cash: cents(100_000),
    reserve: cents(447),
    probability: 0.51,
    ...changes,
  });
const valuesOf = ({ facts }: ReturnType<typeof review>) =>
  Object.fromEntries(
    facts.map((fact) => [
      fact.label,
      'money' in fact
        ? formatExactMoney(fact.money)
        : 'change' in fact
          ? formatChange(fact.change)
          : formatCount(fact.contracts, 'contract'),
    ]),
  );

// $4.24 plus fees of 0.07·6·0.42·0.58 = 0.1024 and 0.07·4·0.43·0.57 = 0.0687, together 0.170936, rounded up to 0.171.
it('a purchase over two levels is quoted as charged, in cents', () => {
  const quoted = review();
  expect(quoted.headline).toBe('Buy 10 YES at 43¢ or less');
  expect(quoted.outcome).toEqual({ tone: 'good', text: 'All 10 fill now.' });
  expect(valuesOf(quoted)).toEqual({
    Price: '$4.24',
    Fee: '$0.17',
    Cost: '$4.41',
    // All ten at 43: 4.30 plus a fee of 0.1716.
    'Maximum cost': '$4.48',
    'Maximum payout': '$10.00',
    'Cash after': '$995.59',
  });
  expect(quoted.results).toEqual([
    { label: 'if it is 84° to 85°', change: 5_590_000n },
    { label: 'if it is not', change: -4_410_000n },
  ]);
  expect(quoted.chance).toEqual({
    isBuy: true,
    sideName: 'YES',
    breakEven: expect.closeTo(0.4411, 6),
    forecast: { probability: 0.51, edge: expect.closeTo(0.0689, 6), expected: 680_000n },
    doubt: null,
  });
  expect(quoted.warning).toBeNull();
});

// 3 NO at 98 cost 2.94 and a fee of 0.07·3·0.98·0.02 = 0.004116, rounded up to 0.0042. This leaves 1,028.3717.
it('a fee of less than a cent is not nothing, and the cash afterwards is what the portfolio will show', () => {
  const bid = { yes: [{ price: cents(2), contracts: 3 }], no: [] };
  const dear = { ...order, side: 'no' as const, contracts: 3, limitPrice: cents(98) };
  const quoted = review({ book: bid, order: dear, cash: 1_031_315_900n });
  const { facts } = quoted;
  expect(facts.flatMap((fact) => ('money' in fact ? formatFee(fact.money) : []))).toEqual([
    '$2.94',
    '<$0.01',
    '$2.94',
    '$3.00',
    '$1,028.37',
  ]);
});

it('an unfilled part is shown with its reason', () => {
  expect(review({ order: { ...order, contracts: 30 } }).outcome).toEqual({
    tone: 'warn',
    text: '16 of 30 fill now. No more is offered within your limit; the other 14 are cancelled.',
  });
  const kill = { ...order, contracts: 30, timeInForce: 'fill_or_kill' as const };
  expect(review({ order: kill }).outcome.text).toContain('fewer than 30 are offered within your limit');
  const sale = { ...order, action: 'sell' as const, contracts: 900, limitPrice: cents(1) };
  expect(review({ order: sale }).outcome.text).toContain('No more is bid for within your limit');
  const low = review({ order: { ...order, limitPrice: cents(41) } });
  expect(low.outcome.text).toBe('Nothing fills at your limit: the best ask is 42¢.');
  expect([low.facts, low.results, low.chance]).toEqual([[], [], null]);
  expect(review({ book: { yes: [], no: [] } }).outcome.text).toBe(
    'Nothing fills: there are no asks for YES at the moment.',
  );
});

it('a purchase of the other side closes pairs at a dollar each', () => {
  // 4 NO were bought at 40 each. Buying YES at 42 in effect sells them at 58 each.
  const quoted = review({ held: { side: 'no', contracts: 4, cost: cents(160) } });
  expect(valuesOf(quoted)).toMatchObject({
    'Pairs closed': '+$4.00',
    Realised: '+$0.72',
    'Maximum payout': '$6.00',
    'Cash after': '$999.59',
  });
  expect(quoted.results.map(({ change }) => change)).toEqual([cents(559), cents(-441)]);
});

it('a purchase that only closes pairs is quoted as a sale: one result, no payout and no break-even', () => {
  const two = { ...order, contracts: 2, limitPrice: cents(42) };
  // 2 at 42 cost 0.84 and a fee of 0.0342: of the $2.00, $1.1258 remain. The 2 NO cost 1.20.
  const quoted = review({ order: two, held: { side: 'no', contracts: 2, cost: cents(120) } });
  expect(quoted.outcome.text).toBe(
    'All 2 fill now. It closes 2 NO: you receive $1.13, a loss of $0.07, fee included.',
  );
  // The net comes first, as at the top, and what it consists of after it.
  expect(quoted.facts.map(({ label }) => label).slice(0, 4)).toEqual([
    'You receive',
    'Pairs closed',
    'Price',
    'Fee',
  ]);
  expect(valuesOf(quoted)).toEqual({
    Price: '$0.84',
    Fee: '$0.03',
    'Pairs closed': '+$2.00',
    'You receive': '$1.13',
    'Profit or loss': '−$0.07',
    'Cash after': '$1,001.13',
  });
  expect(quoted.results).toEqual([
    { label: 'received', change: cents(113) },
    { label: 'loss', change: cents(-7) },
  ]);
  expect(quoted.facts.filter(({ isSum }) => isSum).map(({ label }) => label)).toEqual(['You receive']);
  expect(quoted.chance).toBeNull();
});

it.each([
  { cash: 1_093_873_700n, contracts: 3 },
  { cash: 999_995_000n, contracts: 7 },
  { cash: 10_004_900n, contracts: 0.37 },
])('amounts with fractions of a cent add up in cents: $contracts with $cash', ({ cash, contracts }) => {
  for (const action of ['buy', 'sell'] as const) {
    const limitPrice = cents(action === 'buy' ? 43 : 39);
    const { facts } = review({
      cash,
      order: { ...order, action, contracts, limitPrice },
      held: { side: 'yes', contracts: 12, cost: 4_811_100n },
    });
    const of = (label: string) =>
      facts.flatMap((fact) => (fact.label === label && 'money' in fact ? [fact.money] : []))[0]!;
    const paid = action === 'buy' ? of('Cost') : -of('You receive');
    // The portfolio rounds the sum, which may be a cent from the sum of what is rounded.
    expect([-CENT, 0n, CENT]).toContain(roundToCent(cash) - of('Cash after') - paid);
    expect(paid - (action === 'buy' ? of('Price') : -of('Price'))).toBe(roundToCent(of('Fee')));
    expect(
      facts.every((fact) => !('money' in fact) || fact.label === 'Fee' || fact.money % CENT === 0n),
    ).toBe(true);
  }
});

it('a purchase on a forecast that is not proven is warned of, and a sale is not', () => {
  const doubt = { because: 'it is not proven: its gate is closed', market: 0.2, isWithheld: true };
  const quoted = review({ doubt });
  expect(quoted.warning).toBe('The forecast is not proven, so it is no reason to buy.');
  expect(quoted.chance!.doubt).toEqual(doubt);
  expect(review({ doubt, probability: 0.1 }).warning).toMatch(/^On average this order loses money/);
  expect(review({ doubt, probability: null }).warning).toBeNull();
  const sale = { ...order, action: 'sell' as const, contracts: 5, limitPrice: cents(40) };
  const held = { side: 'yes' as const, contracts: 5, cost: cents(200) };
  for (const probability of [0.1, 0.9])
    expect(review({ doubt, order: sale, held, probability }).warning).toBeNull();
  expect(review({ order: sale, held, probability: 0.9 }).warning).toMatch(
    /^On average holding is worth more/,
  );
});

it('a sale shows its proceeds, realised result and when holding is better', () => {
  const sale = { ...order, action: 'sell' as const, contracts: 8, limitPrice: cents(39) };
  const quoted = review({ order: sale, held: { side: 'yes', contracts: 10, cost: cents(400) } });
  expect(quoted.headline).toBe('Sell 8 YES at 39¢ or more');
  // 5 at 40 and 3 at 39 bring $3.17, less fees of 0.0840 and 0.049959: 3.0360. The 8 cost 3.20.
  expect(valuesOf(quoted)).toMatchObject({
    Price: '$3.17',
    Fee: '$0.13',
    'You receive': '$3.04',
    'Profit or loss': '−$0.16',
    Remaining: '2 contracts',
    'Cash after': '$1,003.04',
  });
  expect(quoted.results).toEqual([
    { label: 'received', change: 3_040_000n },
    { label: 'loss', change: -160_000n },
  ]);
  expect(quoted.chance!.breakEven).toBeCloseTo(0.3795, 6);
});

it('a sale of a whole position is quoted with the remaining position', () => {
  // 100 at 56 and 20 at 55 bring $67.00, less fees of 2.0713; they cost 72.00.
  const sale = { ...order, action: 'sell' as const, contracts: 120, limitPrice: cents(55) };
  expect(valuesOf(review({ book: deep, order: sale, held: position }))).toMatchObject({
    Fee: '$2.07',
    'You receive': '$64.93',
    'Profit or loss': '−$7.07',
    Remaining: '0 contracts',
  });
  // The limit excludes the second level, so 20 of the 120 remain.
  const some = review({ book: deep, order: { ...sale, limitPrice: cents(56) }, held: position });
  expect(some.outcome.text).toContain('100 of 120 fill now.');
  expect(valuesOf(some)).toMatchObject({ 'Profit or loss': '−$5.72', Remaining: '20 contracts' });
});

it('a ticket starts with the best price of its side, and a sale with the holding', () => {
  expect(fillTicket({}, book, undefined)).toEqual({
    side: 'yes',
    action: 'buy',
    // Six are offered at the best price.
    contracts: '6',
    size: '',
    limitPrice: '42',
    timeInForce: 'immediate_or_cancel',
    expiresAt: '',
    postOnly: 'no',
    observed: 'cancel',
  });
  expect(fillTicket({ contracts: '8' }, book, undefined).limitPrice).toBe('43');
  // Ends with the market.
  const close = new Date('2026-07-16T05:00:00Z');
  expect(fillTicket({ timeInForce: 'good_till_time' }, book, undefined, close).expiresAt).toBe(
    '2026-07-16T05:00',
  );
  expect(fillTicket({}, book, undefined, close).expiresAt).toBe('');
  const held = { side: 'no' as const, contracts: 7, cost: cents(280) };
  expect(fillTicket({ action: 'sell' }, book, held)).toMatchObject({
    side: 'no',
    contracts: '7',
    // Six sell to a bid at 58, and the seventh to one at 57.
    limitPrice: '57',
  });
  // The only offer is of NO.
  expect(fillTicket({}, { ...book, no: [] }, undefined).side).toBe('no');
  expect(fillTicket({ side: '<script>' }, { yes: [], no: [] }, undefined)).toMatchObject({
    side: 'yes',
    limitPrice: '',
  });
});

it.each([
  { given: {}, held: 120, contracts: '120', limitPrice: '55' },
  { given: {}, held: 999, contracts: '999', limitPrice: '55' },
  { given: { contracts: '100' }, held: 120, contracts: '100', limitPrice: '56' },
  // After a sale, the size stays as it was, at most what is still held.
  { given: { contracts: '100', done: 'placed' }, held: 120, contracts: '100', limitPrice: '56' },
  { given: { contracts: '130', done: 'placed' }, held: 120, contracts: '120', limitPrice: '55' },
  { given: { contracts: 'x' }, held: 120, contracts: 'x', limitPrice: '56' },
  { given: { limitPrice: '60' }, held: 120, contracts: '120', limitPrice: '60' },
])('a sale starts at the lowest bid that it takes: $given of $held', ({ given, held, ...filled }) => {
  const fields = { ...given, side: 'yes', action: 'sell' };
  expect(fillTicket(fields, deep, { ...position, contracts: held })).toMatchObject(filled);
  expect(fillTicket({ action: 'sell' }, { yes: [], no: [] }, position).limitPrice).toBe('');
});

it.each([
  { field: 'contracts', value: '0' },
  { field: 'contracts', value: '1.505' },
  { field: 'contracts', value: '-3' },
  { field: 'contracts', value: '1e3' },
  { field: 'contracts', value: '100001' },
  { field: 'contracts', value: '9'.repeat(300) },
  { field: 'limitPrice', value: '0' },
  { field: 'limitPrice', value: '0.00' },
  { field: 'limitPrice', value: '100' },
  { field: 'limitPrice', value: '42.5' },
  { field: 'limitPrice', value: '42\u0000' },
  { field: 'limitPrice', value: '42,0' },
  { field: 'side', value: 'maybe' },
  { field: 'action', value: 'hold' },
  { field: 'timeInForce', value: 'forever' },
])('a ticket with $field $value is refused for that field', ({ field, value }) => {
  const good = fillTicket({}, book, undefined);
  expect(readTicket(good, market)).toEqual({ ...order, contracts: 6, limitPrice: cents(42) });
  expect(() => readTicket({ ...good, [field]: value }, market)).toThrowError(
    expect.objectContaining({
      code: 'invalid_request',
      errors: [expect.objectContaining({ pointer: `/${field}` })],
    }),
  );
});

it('prices, money and probabilities use traders’ formats', () => {
  expect([cents(42), 425_000n, 601_667n, 1n].map(formatPrice)).toEqual(['42¢', '42.5¢', '60.17¢', '0¢']);
  expect([1_234_500_000n, -40_000n, 0n, 1_234_567n].map(formatMoney)).toEqual([
    '$1,234.50',
    '−$0.04',
    '$0.00',
    '$1.23',
  ]);
  expect([1_234_567n, -374_400n, 1_000_000n].map(formatExactMoney)).toEqual([
    '$1.234567',
    '−$0.3744',
    '$1.00',
  ]);
  expect([1_200_000n, -10_000n, 4_900n, -4_900n, 5_000n].map(formatChange)).toEqual([
    '+$1.20',
    '−$0.01',
    '$0.00',
    '$0.00',
    '+$0.01',
  ]);
  expect([0, 0.001, 0.43, 0.999, 1].map(formatProbability)).toEqual(['0%', '<1%', '43%', '>99%', '100%']);
  expect([0.072, -0.0001, -0.3].map(formatPoints)).toEqual([
    '+7.2\u00a0points',
    '0.0\u00a0points',
    '−30.0\u00a0points',
  ]);
  expect([0, 119_999, 120_000, 7_200_000].map(formatAge)).toEqual([
    '0\u00a0s',
    '119\u00a0s',
    '2\u00a0minutes',
    '2\u00a0hours',
  ]);
});

const waiting = { ...order, timeInForce: 'good_till_cancelled' as const };
const terms = { expiresAt: null, postOnly: false, cancelOn: [] };

it.each([
  ['that fits now', {}, 'good', 'All 10 fill now.'],
  [
    'that fits in part',
    { contracts: 1_000 },
    'warn',
    /fill now\. The other \d+ rest in the book, first in line at this price/,
  ],
  [
    'that queues behind others',
    { limitPrice: cents(40) },
    'warn',
    /^Nothing fills now\. All 10 rest in the book, behind \d+ at the same price/,
  ],
])('an order that may rest, %s, shows its place in the queue', (_what, change, tone, text) => {
  const reviewed = review({ order: { ...waiting, ...change, rest: terms } });
  expect(reviewed.outcome.tone).toBe(tone);
  expect(reviewed.outcome.text).toMatch(text);
});

it('a post-only order takes nothing and shows its reserve', () => {
  const postOnly = { ...waiting, rest: { ...terms, postOnly: true } };
  const { outcome, facts } = review({ order: postOnly });
  expect(outcome.text).toMatch(/^Nothing fills now/);
  expect(facts[0]).toEqual({ label: 'Reserved', money: cents(447), isSum: true, note: 'while it rests' });
  expect(valuesOf(review({ order: postOnly }))).toEqual({ Reserved: '$4.47', 'Cash after': '$995.53' });
  const held = { side: 'no' as const, contracts: 10, cost: cents(300) };
  expect(review({ order: postOnly, reserve: 0n, held }).facts[0]).toMatchObject({
    money: 0n,
    note: 'closing your NO pays for it',
  });
  expect(review({ order: postOnly, reserve: null }).facts).toEqual([]);
});

it('a resting order shows what a fill at its limit would bring', () => {
  const rests = { ...order, limitPrice: cents(41), timeInForce: 'good_till_cancelled' as const, rest: terms };
  const { isWaiting, results, chance, warning } = review({ order: rests });
  // Makers pay no fee here.
  expect([isWaiting, warning, results.map(({ change }) => change)]).toEqual([
    true,
    null,
    [cents(590), cents(-410)],
  ]);
  expect(chance).toMatchObject({ breakEven: 0.41, forecast: { probability: 0.51, expected: cents(100) } });
  expect(review({ order: rests, probability: 0.3 }).warning).toMatch(/^On average this order loses money/);
  const held = { side: 'yes' as const, contracts: 10, cost: cents(400) };
  const sale = review({ order: { ...rests, action: 'sell', limitPrice: cents(50) }, held });
  expect(sale.results.map(({ label, change }) => [label, change])).toEqual([
    ['received', cents(500)],
    ['profit', cents(100)],
  ]);
  expect(review().isWaiting).toBe(false);
});
