import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addCounts,
  contractsText,
  formatContracts,
  fromHundredths,
  isCount,
  isOrderSize,
  parseCount,
  partOf,
  perContract,
  subtractCounts,
  sumCounts,
  toHundredths,
  valueOf,
} from '../../../src/markets/market/contracts.js';
import { DOLLAR } from '../../../src/markets/market/money.js';

const hundredths = fc.integer({ min: -1_000_000_000_000, max: 1_000_000_000_000 });

describe('a number of contracts', () => {
  it.each([
    ['10.00', 10, 1000],
    ['0.5', 0.5, 50],
    ['-3.25', -3.25, -325],
    ['48.14', 48.14, 4814],
    ['0.01', 0.01, 1],
    ['999999999999.99', 999_999_999_999.99, 99_999_999_999_999],
  ])('%s is %d, %d hundredths', (text, contracts, parts) => {
    expect(parseCount(text)).toBe(contracts);
    expect(toHundredths(contracts)).toBe(parts);
  });

  it.each(['', '.5', '1.', '0.001', '1e2', ' 1', '1,000', 'NaN', '0x1', '１'])(
    'is not parsed from %j',
    (text) => expect(() => parseCount(text)).toThrow(RangeError),
  );

  it('is written with two decimals and read back equal', () => {
    fc.assert(
      fc.property(hundredths, (parts) => {
        const contracts = fromHundredths(parts);
        expect(toHundredths(contracts)).toBe(parts);
        expect(formatContracts(contracts)).toMatch(/^-?\d+\.\d\d$/);
        expect(parseCount(formatContracts(contracts))).toBe(contracts);
      }),
    );
  });

  it('does not drift over 10,000 additions and subtractions', () => {
    const steps = fc.array(fc.integer({ min: -1_000_000, max: 1_000_000 }), {
      minLength: 10_000,
      maxLength: 10_000,
    });
    fc.assert(
      fc.property(steps, (list) => {
        let [contracts, parts] = [0, 0];
        for (const step of list) {
          contracts = addCounts(contracts, fromHundredths(step));
          parts += step;
          if (contracts !== fromHundredths(parts)) throw new Error(`${contracts} is not ${parts} hundredths`);
        }
        expect(sumCounts(list.map(fromHundredths))).toBe(contracts);
        for (const step of list) contracts = subtractCounts(contracts, fromHundredths(step));
        expect(contracts).toBe(0);
      }),
      { numRuns: 10 },
    );
  });

  it('is a valid order size from 0.01 to 100,000 with two decimals', () => {
    for (const good of [0.01, 0.07, 1, 48.14, 99_999.99, 100_000]) expect(isOrderSize(good)).toBe(true);
    for (const bad of [0, -1, 0.001, 1.005, 0.1 + 0.2, 100_000.01, Infinity, NaN])
      expect(isOrderSize(bad)).toBe(false);
    for (const good of ['1', '0.5', '.25', '12.34', '100000'])
      expect(contractsText.safeParse(good).success, good).toBe(true);
    for (const bad of ['', '.', '0', '0.00', '1.234', '1e3', '-1', '100000.01', '1,5', ' 1'])
      expect(contractsText.safeParse(bad).success, bad).toBe(false);
    expect(isCount(0.1 + 0.2)).toBe(false);
  });
});

describe('the value of contracts', () => {
  it('is exact at every tick', () => {
    expect(valueOf(420_000n, 2.5)).toBe(1_050_000n);
    expect(valueOf(1_000n, 0.01)).toBe(10n);
    const ticks = fc.bigInt({ min: 1n, max: 9_999n }).map((tick) => tick * 100n);
    fc.assert(
      fc.property(ticks, fc.integer({ min: 1, max: 10_000_000 }), (price, parts) => {
        expect(valueOf(price, fromHundredths(parts)) * 100n).toBe(price * BigInt(parts));
        expect(perContract(valueOf(price, fromHundredths(parts)), fromHundredths(parts))).toBe(price);
      }),
    );
  });

  it('is rounded down to the millionth for finer prices, also when negative', () => {
    expect([valueOf(333_333n, 0.01), valueOf(333_333n, -0.01)]).toEqual([3_333n, -3_334n]);
    expect(valueOf(333_333n, 3)).toBe(999_999n);
  });

  it('split into parts falls short of the whole by at most a millionth per part, and never exceeds it', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 1_000n * DOLLAR }),
        fc.array(fc.integer({ min: 1, max: 9_999 }), { minLength: 1 }),
        (cost, parts) => {
          const all = fromHundredths(parts.reduce((sum, part) => sum + part, 0));
          const sum = parts.reduce((total, part) => total + partOf(cost, fromHundredths(part), all), 0n);
          expect(sum <= cost && cost - sum <= BigInt(parts.length)).toBe(true);
          expect(partOf(cost, all, all)).toBe(cost);
        },
      ),
    );
  });
});
