import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatTick, niceTicks, toChart } from '../../../src/core/charts/bars.js';

describe('ticks', () => {
  it.each([
    [0, [0, 1]],
    [3, [0, 1, 2, 3]],
    [10, [0, 2.5, 5, 7.5, 10]],
    [97, [0, 25, 50, 75, 100]],
    [1_000_001, [0, 500_000, 1_000_000, 1_500_000]],
    [0.0003, [0, 0.0001, 0.0002, 0.0003]],
  ])('for %d are round', (max, expected) => {
    expect(niceTicks(max)).toEqual(expected);
  });

  it.each([
    [1, [0, 1]],
    [3, [0, 1, 2, 3]],
    [10, [0, 5, 10]],
    [101, [0, 50, 100, 150]],
  ])('for whole numbers up to %d are whole', (max, expected) => {
    expect(niceTicks(max, true)).toEqual(expected);
  });

  it('cover zero to the largest value in two to six steps', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-9, max: 1e300, noNaN: true }), (max) => {
        const ticks = niceTicks(max);
        expect(ticks[0]).toBe(0);
        expect(ticks.at(-1)!).toBeGreaterThanOrEqual(max * (1 - 1e-6));
        expect(ticks.length).toBeGreaterThanOrEqual(3);
        expect(ticks.length).toBeLessThanOrEqual(7);
        for (const tick of ticks) expect(formatTick(tick).length).toBeLessThanOrEqual(10);
      }),
    );
  });
});

it('every bar lies inside the drawing, and nonzero bars are visible', () => {
  const value = fc.oneof(fc.constant(0), fc.double({ min: 1e-12, noNaN: true }));
  fc.assert(
    fc.property(fc.array(value, { minLength: 1, maxLength: 366 }), (values) => {
      const estimate = values.at(-1)!;
      const bars = values.map((value, i) => ({ axis: String(i), label: String(value), value, estimate }));
      const chart = toChart('', bars, { cap: { value: 5, label: 'cap', isPassed: false }, before: values });
      for (const [i, bar] of chart.bars.entries()) {
        const part = bar.parts[0] ?? { y: chart.height, height: 0 };
        const [y, height] = [Number(part.y), Number(part.height)];
        expect(y).toBeGreaterThanOrEqual(-0.1);
        expect(y + height).toBeCloseTo(chart.height, 0);
        expect(height > 1).toBe(values[i]! > 0);
        expect(bar.estimate !== undefined).toBe(estimate > 0);
        expect(Number(bar.estimate?.height ?? 0)).toBeGreaterThanOrEqual(0);
        expect(Number(bar.estimate?.y ?? 0)).toBeGreaterThanOrEqual(-0.1);
        expect(parseFloat(bar.x) + parseFloat(bar.width)).toBeLessThanOrEqual(100);
      }
      expect(chart.axis.length).toBeLessThanOrEqual(8);
    }),
  );
});

it('a stacked bar is as high as the sum of its parts, without gaps between them', () => {
  const parts = fc.array(fc.nat(1000), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(fc.array(parts, { minLength: 1, maxLength: 31 }), (bars) => {
      const sum = (list: number[]) => list.reduce((total, part) => total + part, 0);
      const whole = bars.map((list) => ({ axis: '', label: '', value: sum(list) }));
      const [plain, stacked] = [
        toChart('', whole),
        toChart(
          '',
          whole.map((bar, i) => ({ ...bar, parts: bars[i]! })),
        ),
      ];
      for (const [i, { parts }] of stacked.bars.entries()) {
        expect(parts.map(({ place }) => place)).toEqual(
          bars[i]!.flatMap((part, place) => (part === 0 ? [] : [place])),
        );
        let top = stacked.height;
        for (const { y, height } of parts) {
          expect(Number(y) + Number(height)).toBeCloseTo(top, 0);
          top = Number(y);
        }
        expect(top).toBeCloseTo(Number(plain.bars[i]!.parts[0]?.y ?? plain.height), 0);
      }
    }),
  );
});
