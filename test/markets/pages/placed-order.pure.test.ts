import { expect, it } from 'vitest';
import { describePlaced } from '../../../src/markets/pages/order-view.js';

it.each([
  [-1_220_000n, 5, 0n, 'Bought 5 NO for $1.22, fee included.'],
  [-1_224_600n, 5, 0n, 'Bought 5 NO for $1.22, fee included.'],
  [
    1_220_000n,
    4,
    -30_000n,
    'Bought 4 of 5 NO, which closed 4 YES: you received $1.22, a loss of $0.05, fee included. The rest was cancelled.',
  ],
  [
    1_220_000n,
    5,
    400_000n,
    'Bought 5 NO. The pairs that it closed paid $1.22 more than it cost, fee included.',
  ],
])(
  'a purchase that moves %s micros in cash says what was paid, never a negative price',
  (change, filled, realised, words) => {
    const fees = 20_000n;
    const closed = change > 0n ? 4n : 0n;
    const order = {
      status: filled === 5 ? 'filled' : 'partially_filled',
      action: 'buy',
      side: 'no',
      contracts: 5,
      filledContracts: filled,
      balanceChange: change,
      value: closed * 1_000_000n - fees - change,
      fees,
      realised,
      cancelRequestedAt: null,
    } as Parameters<typeof describePlaced>[0];
    expect(describePlaced(order)).toBe(words);
  },
);

it.each([
  ['cancelled', null, 'Order cancelled. Nothing was filled.'],
  ['rejected', null, 'Order rejected. Nothing was filled.'],
  ['resting', null, 'Buy 5 NO at 24¢ rests in the book.'],
  ['resting', new Date(), 'Buy 5 NO at 24¢ rests in the book until its cancellation takes effect.'],
])(
  'an unfilled order that is %s says so, also when its receipt is shown again',
  (status, cancelRequestedAt, words) => {
    const order = {
      status,
      cancelRequestedAt,
      action: 'buy',
      side: 'no',
      contracts: 5,
      filledContracts: 0,
      limitPrice: 240_000n,
    };
    expect(describePlaced(order as Parameters<typeof describePlaced>[0])).toBe(words);
  },
);
