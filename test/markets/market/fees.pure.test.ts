import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromHundredths, toHundredths } from '../../../src/markets/market/contracts.js';
import {
  BALANCE_STEP,
  CENT,
  ceilTo,
  DOLLAR,
  floorTo,
  formatDollars,
  parseDollars,
} from '../../../src/markets/market/money.js';
import {
  chargeFill,
  isSupported,
  newOrderAccount,
  tradeFee,
  type FeeRule,
  type Fill,
} from '../../../src/markets/market/fees.js';

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
    'are not read from %j',
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

  it('are rounded down and up, also below zero', () => {
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

/** Prices to a tenth of a cent and contracts to a hundredth, as the venue trades them. */
const anyFill = fc.record({
  action: fc.constantFrom<Fill['action']>('buy', 'sell'),
  price: fc.integer({ min: 1, max: 999 }).map((ticks) => BigInt(ticks) * 1000n),
  contracts: fc
    .oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 10_000_000 }))
    .map(fromHundredths),
  isMaker: fc.boolean(),
});

const feeTypes = ['quadratic', 'quadratic_with_maker_fees', 'quadratic_with_combo_maker_fees'] as const;
const anyRule = fc.record({
  type: fc.constantFrom(...feeTypes),
  multiplier: fc.constantFrom(0n, DOLLAR / 2n, DOLLAR, 2n * DOLLAR),
});

describe('the taker’s fee', () => {
  // The venue's fee schedule shows whole cents; the exact fee is rounded up to a millionth of a dollar.
  it.each([
    [1, 50, 2, 17_500n],
    [100, 50, 175, 1_750_000n],
    [100, 5, 34, 332_500n],
    [100, 10, 63, 630_000n],
    [1, 5, 1, 3_325n],
    [10, 35, 16, 159_250n],
    [3, 50, 6, 52_500n],
    [250, 27, 345, 3_449_250n],
  ])(
    'of %i contracts at %i cents is %i cents in the schedule, and %i millionths exactly',
    (contracts, price, shown, fee) => {
      const charged = tradeFee(quadratic, { price: cents(price), contracts });
      expect(charged).toBe(fee);
      expect(ceilTo(charged, CENT)).toBe(cents(shown));
    },
  );

  // By hand: 0.07 · 0.01 · 0.50 · 0.50 = 0.000175; 0.07 · 2.5 · 0.423 · 0.577 = 0.042713…; 0.07 · 0.01 · 0.01 · 0.99 = 0.00000693.
  it.each([
    [0.01, 500_000n, 175n],
    [2.5, 423_000n, 42_713n],
    [0.01, 10_000n, 7n],
  ])('of %d contracts at %i millionths is %i millionths', (contracts, price, fee) =>
    expect(tradeFee(quadratic, { price, contracts })).toBe(fee),
  );

  it('scales with the multiplier, and is zero at a price of zero or a dollar', () => {
    const half = { ...quadratic, multiplier: DOLLAR / 2n };
    const fill = { price: cents(50), contracts: 100 };
    expect([tradeFee(quadratic, fill), tradeFee(half, fill)]).toEqual([1_750_000n, 875_000n]);
    for (const price of [0n, DOLLAR]) expect(tradeFee(quadratic, { price, contracts: 100 })).toBe(0n);
    for (const type of ['flat', 'unknown'] as const) {
      expect(isSupported({ ...quadratic, type })).toBe(false);
      expect(() => tradeFee({ ...quadratic, type }, fill)).toThrow(RangeError);
    }
  });

  it('exceeds the exact amount by less than $0.000001', () => {
    fc.assert(
      fc.property(anyFill, ({ price, contracts }) => {
        const fee = tradeFee(quadratic, { price, contracts });
        const scaled = 7n * BigInt(toHundredths(contracts)) * price * (DOLLAR - price);
        const unit = 10_000n * DOLLAR;
        expect(fee * unit >= scaled && (fee - 1n) * unit < scaled).toBe(true);
      }),
    );
  });
});

it('is charged to makers in the proportion of the fee type', () => {
  const fill = { price: cents(50), contracts: 100, isMaker: true };
  // Maker rates of 0, 0.0175 and 0.035, each times 100 · 0.25.
  expect(feeTypes.map((type) => tradeFee({ ...quadratic, type }, fill))).toEqual([0n, 437_500n, 875_000n]);
});

/**
 * A literal implementation of the venue's published fee rounding (October 2026), for a member with the given balance
 * precision.
 */
function chargeByDefinition(fills: Fill[], rule: FeeRule, precision: bigint) {
  let accumulator = 0n;
  return fills.map((fill) => {
    const value = (fill.price * BigInt(toHundredths(fill.contracts))) / 100n;
    const revenue = fill.action === 'buy' ? -value : value;
    const trade = tradeFee(rule, fill);
    const aligned = floorTo(revenue - trade, precision);
    const rounding = revenue - trade - aligned;
    accumulator += rounding;
    let rebate = 0n;
    while (accumulator >= precision && trade + rounding - rebate >= precision) {
      rebate += precision;
      accumulator -= precision;
    }
    return { change: aligned + rebate, net: trade + rounding - rebate, accumulator };
  });
}

describe('an order filled in parts', () => {
  const fillsOf = (length: number) => fc.array(anyFill, { minLength: 1, maxLength: length });
  const chargeAll = (rule: FeeRule, fills: Fill[]) => {
    let account = newOrderAccount;
    return fills.map((fill) => {
      const charge = chargeFill(rule, account, fill);
      account = charge.account;
      return charge;
    });
  };

  it('is charged by the venue’s definition, fill by fill, as taker and as maker', () => {
    fc.assert(
      fc.property(fillsOf(30), anyRule, (fills, rule) => {
        const charges = chargeAll(rule, fills).map(({ balanceChange, fee, account }) => ({
          change: balanceChange,
          net: fee,
          accumulator: account.exact - account.booked,
        }));
        expect(charges).toEqual(chargeByDefinition(fills, rule, BALANCE_STEP));
      }),
    );
  });

  it('reproduces the venue’s worked example for a member with cent precision', () => {
    // One contract at $0.055, with a model fee of 0.07 · 0.055 · 0.945 = $0.00363825.
    const fill: Fill = { action: 'buy', price: 55_000n, contracts: 1 };
    expect(tradeFee(quadratic, fill)).toBe(3_639n);
    expect(chargeByDefinition([fill], quadratic, CENT)).toEqual([
      { change: -60_000n, net: 5_000n, accumulator: 1_361n },
    ]);
  });

  it('never has a negative fee, nor a balance between two steps', () => {
    fc.assert(
      fc.property(fillsOf(30), anyRule, (fills, rule) => {
        for (const { fee, balanceChange, account } of chargeAll(rule, fills)) {
          expect(fee).toBeGreaterThanOrEqual(0n);
          expect(balanceChange % BALANCE_STEP).toBe(0n);
          expect(account.exact).toBeGreaterThanOrEqual(account.booked);
        }
      }),
    );
  });

  it('pays the exact total, rounded once, however many parts there are', () => {
    // At whole-cent prices a hundredth of a contract is worth a multiple of $0.0001, so a fill's fee always covers its
    // refund.
    const inCents = anyFill.map((fill) => ({
      ...fill,
      isMaker: false,
      price: floorTo(fill.price, CENT) || CENT,
    }));
    fc.assert(
      fc.property(fc.array(inCents, { minLength: 1, maxLength: 30 }), (fills) => {
        const { account } = chargeAll(quadratic, fills).at(-1)!;
        expect(account.booked).toBe(floorTo(account.exact, BALANCE_STEP));
      }),
    );
  });

  it('carries a refund that exceeds a fill’s fee over to the next fill', () => {
    // A hundredth of a contract at a tenth of a cent costs $0.00001 plus a fee of $0.000001. Each of these fills pays
    // $0.0001, which is 89 millionths too much.
    const part: Fill = { action: 'buy', price: 1_000n, contracts: 0.01 };
    const charges = chargeAll(quadratic, [part, part, { ...part, contracts: 10 }]);
    expect(charges.map(({ balanceChange }) => balanceChange)).toEqual([-100n, -100n, -10_600n]);
    // The three fills cost 0.01002 plus fees of 0.000702: 0.010722, rounded up to the next $0.0001.
    expect(charges.at(-1)!.account).toEqual({ exact: -10_722n, booked: -10_800n });
  });
});
