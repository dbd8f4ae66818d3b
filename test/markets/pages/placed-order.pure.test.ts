import { expect, it } from 'vitest';
import { describePlaced } from '../../../src/markets/pages/order-view.js';

it.each([
  [-1_220_000n, 5, 'Bought 5 NO for $1.22, fee included.'],
  [-1_224_600n, 5, 'Bought 5 NO for $1.2246, fee included.'],
  [
    1_220_000n,
    4,
    'Bought 4 of 5 NO. The pairs that it closed paid $1.22 more than it cost, fee included. The rest was cancelled.',
  ],
])(
  'a purchase that moves %s micros in cash says what was paid, never a negative price',
  (change, filled, words) => {
    const order = {
      status: filled === 5 ? 'filled' : 'partially_filled',
      action: 'buy',
      side: 'no',
      contracts: 5,
      filledContracts: filled,
      balanceChange: change,
    } as Parameters<typeof describePlaced>[0];
    expect(describePlaced(order)).toBe(words);
  },
);
