import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addDecimals, compareDecimals, isDecimalAbove, subtractDecimals } from '../../src/core/decimal.js';

describe('decimals', () => {
  it.each([
    ['10', '3', '7'],
    ['3', '10', '0'],
    ['10.5', '0.3', '10.2'],
    ['1', '0.00000000000000000001', '0.99999999999999999999'],
    ['9007199254740993', '1', '9007199254740992'],
    ['9007199254740993.5', '9007199254740993.5', '0'],
    ['100.10', '0.1', '100'],
  ])('%s − %s is %s', (a, b, expected) => {
    expect(subtractDecimals(a, b)).toBe(expected);
  });

  it.each([
    ['2', '1', true],
    ['1', '1', false],
    ['1.0', '1', false],
    ['1e3', '1000', false],
    ['1000000000000000.00000000001', '1e15', true],
    ['1e15', '1000000000000000.00000000001', false],
    ['9007199254740993', '9007199254740992', true],
    ['0.10e-2', '0.001', false],
    ['1e308', `1${'0'.repeat(400)}`, false],
  ])('%s above %s: %s', (a, b, expected) => {
    expect(isDecimalAbove(a, b)).toBe(expected);
  });

  it('are compared, added and subtracted as exactly as scaled integers', () => {
    const decimal = fc.tuple(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.integer({ min: 0, max: 20 }));
    const write = ([digits, scale]: [bigint, number]) => {
      const padded = String(digits).padStart(scale + 1, '0');
      return scale === 0 ? padded : `${padded.slice(0, -scale)}.${padded.slice(-scale)}`;
    };
    const at20 = ([digits, scale]: [bigint, number]) => digits * 10n ** BigInt(20 - scale);
    fc.assert(
      fc.property(decimal, decimal, (a, b) => {
        const difference = at20(a) - at20(b);
        expect(compareDecimals(write(a), write(b))).toBe(difference === 0n ? 0 : difference > 0n ? 1 : -1);
        const [sum = '', rest = ''] = addDecimals(write(a), write(b)).split('.');
        expect(BigInt(sum + rest.padEnd(20, '0'))).toBe(at20(a) + at20(b));
        const [whole = '', fraction = ''] = subtractDecimals(write(a), write(b)).split('.');
        expect(BigInt(whole + fraction.padEnd(20, '0'))).toBe(difference > 0n ? difference : 0n);
      }),
    );
  });
});
