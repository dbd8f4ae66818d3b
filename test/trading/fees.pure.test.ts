import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CENT, ceilTo, DOLLAR, floorTo, formatDollars, parseDollars } from '../../src/trading/money.js';
import {
  chargeFill,
  newOrderAccount,
  takerFee,
  type FeeRule,
  type Fill,
} from '../../src/trading/sizing/fees.js';

const quadratic: FeeRule = { type: 'quadratic', multiplier: DOLLAR };
const cents = (amount: number) => BigInt(amount) * CENT;

describe('dollars', () => {
  it.each([
    ['0.5600', 560_000n],
    ['1', 1_000_000n],
    ['-3.5', -3_500_000n],
    ['0.000001', 1n],
    ['12.34000000', 12_340_000n],
    ['999999999999999.999999', 999_999_999_999_999_999_999n],
  ])('%s is read exactly', (text, micros) => expect(parseDollars(text)).toBe(micros));

  it.each(['', '.5', '1.', '1e2', '0x1', ' 1', '1,000', '0.0000001', '--1', 'NaN', '１'])(
    '%j is no amount',
    (text) => expect(() => parseDollars(text)).toThrow(RangeError),
  );

  it('are written with four decimals and read back equal', () => {
    expect([560_000n, 0n, -1n, 1_234_567_890n].map(formatDollars)).toEqual([
      '0.5600',
      '0.0000',
      '-0.000001',
      '1234.56789',
    ]);
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }), (micros) => {
        const text = formatDollars(micros);
        expect(parseDollars(text)).toBe(micros);
        expect(text).toMatch(/^-?\d+\.\d{4,6}$/);
      }),
    );
  });

  it('are rounded down and up, below zero too', () => {
    expect([15_000n, -15_000n, 20_000n, -1n].map((micros) => floorTo(micros, CENT))).toEqual([
      10_000n,
      -20_000n,
      20_000n,
      -10_000n,
    ]);
    expect([15_000n, -15_000n, 20_000n, -1n].map((micros) => ceilTo(micros, CENT))).toEqual([
      20_000n,
      -10_000n,
      20_000n,
      0n,
    ]);
  });
});

const anyFill = fc.record({
  action: fc.constantFrom<Fill['action']>('buy', 'sell'),
  price: fc.integer({ min: 1, max: 9_999 }).map((ticks) => BigInt(ticks) * 100n),
  contracts: fc.integer({ min: 1, max: 100_000 }),
});

describe('the taker’s fee', () => {
  it.each([
    [1, 50, 2],
    [100, 50, 175],
    [100, 5, 34],
    [100, 10, 63],
    [1, 5, 1],
    [10, 35, 16],
    [3, 50, 6],
    [250, 27, 345],
  ])('of %i contracts at %i cents in a single fill is %i cents', (contracts, price, fee) => {
    for (const action of ['buy', 'sell'] as const) {
      const charge = chargeFill(quadratic, newOrderAccount, { action, price: cents(price), contracts });
      expect(charge.fee).toBe(cents(fee));
      const value = cents(price * contracts);
      expect(charge.balanceChange).toBe((action === 'buy' ? -value : value) - cents(fee));
    }
  });

  it('follows the multiplier of the series, and is nothing at a price of nothing or all', () => {
    const half = { ...quadratic, multiplier: DOLLAR / 2n };
    const fill = { price: cents(50), contracts: 100 };
    expect([takerFee(quadratic, fill), takerFee(half, fill)]).toEqual([1_750_000n, 875_000n]);
    for (const price of [0n, DOLLAR]) expect(takerFee(quadratic, { price, contracts: 100 })).toBe(0n);
    expect(() => takerFee({ ...quadratic, type: 'flat' }, fill)).toThrow(RangeError);
  });

  it('is the exact amount, up by less than $0.0001', () => {
    fc.assert(
      fc.property(anyFill, ({ price, contracts }) => {
        const fee = takerFee(quadratic, { price, contracts });
        const scaled = 7n * BigInt(contracts) * price * (DOLLAR - price);
        const unit = 100n * DOLLAR;
        expect(fee % 100n).toBe(0n);
        expect(fee * unit >= scaled && (fee - 100n) * unit < scaled).toBe(true);
      }),
    );
  });
});

/** The venue's own words, step by step: floor each balance change to a cent, keep what was overpaid, give back whole cents. */
function chargeByDefinition(fills: Fill[]): bigint[] {
  let overpaid = 0n;
  return fills.map((fill) => {
    const value = fill.price * BigInt(fill.contracts);
    const exact = (fill.action === 'buy' ? -value : value) - takerFee(quadratic, fill);
    let change = floorTo(exact, CENT);
    overpaid += exact - change;
    while (overpaid >= CENT) {
      change += CENT;
      overpaid -= CENT;
    }
    return change;
  });
}

describe('an order that is filled in parts', () => {
  it('is charged as the venue defines it, fill by fill', () => {
    fc.assert(
      fc.property(fc.array(anyFill, { maxLength: 30 }), (fills) => {
        let account = newOrderAccount;
        const changes = fills.map((fill) => {
          const charge = chargeFill(quadratic, account, fill);
          account = charge.account;
          return charge.balanceChange;
        });
        expect(changes).toEqual(chargeByDefinition(fills));
      }),
    );
  });

  it('is charged less than a cent above its exact sum, however many parts there are', () => {
    fc.assert(
      fc.property(fc.array(anyFill, { minLength: 1, maxLength: 30 }), (fills) => {
        const { account } = fills.reduce(({ account }, fill) => chargeFill(quadratic, account, fill), {
          account: newOrderAccount,
        });
        const overpaid = account.exact - account.booked;
        expect(overpaid >= 0n && overpaid < CENT).toBe(true);
      }),
    );
  });

  it('costs less in parts than each part alone would', () => {
    const parts = Array.from({ length: 10 }, (): Fill => ({ action: 'buy', price: cents(5), contracts: 1 }));
    let account = newOrderAccount;
    for (const part of parts) account = chargeFill(quadratic, account, part).account;
    // 10 × $0.0034 is charged as 4 cents, not as 10 times 1 cent.
    expect(account.booked).toBe(-cents(50 + 4));
  });
});
