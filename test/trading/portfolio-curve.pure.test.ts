import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toLevels, type OrderBook } from '../../src/trading/market/book.js';
import { formatDollars, parseDollars } from '../../src/trading/market/money.js';
import { ticksAround, toLineChart } from '../../src/core/charts/line-chart.js';
import { rangeStart, toCurve } from '../../src/trading/portfolio/portfolio-curve.js';
import { proposeSale, quoteSale, readSale } from '../../src/trading/pages/portfolio-sale.js';

const dollars = (text: string) => parseDollars(text);

describe('the curve of profit and loss', () => {
  // The day's steps are quarters of an hour; 12:05 lies in the one from 12:00 on.
  const now = new Date('2026-11-21T12:05:00Z');
  const step = (time: string) => new Date(`2026-11-21T${time}:00Z`);

  it('counts what was booked back from the present, and carries what the positions were worth', () => {
    const points = toCurve({
      range: 'day',
      now,
      openedAt: step('11:10'),
      present: { realised: dollars('5'), fees: dollars('0.30'), unrealised: dollars('-1') },
      booked: [
        { step: step('11:15'), realised: 0n, fees: dollars('0.10') },
        { step: step('11:45'), realised: dollars('5'), fees: dollars('0.20') },
      ],
      worth: [
        { step: step('11:15'), unrealised: dollars('-2') },
        { step: step('11:45'), unrealised: dollars('-0.50') },
      ],
      worthBefore: undefined,
    });
    const text = points.map(({ at, total }) => [
      at.toISOString().slice(11, 16),
      total === null ? null : formatDollars(total),
    ]);
    expect(text).toEqual([
      ['11:15', '0.0000'],
      ['11:30', '-2.1000'],
      ['11:45', '-2.1000'],
      // 5.00 − 0.30 − 0.50
      ['12:00', '4.2000'],
      ['12:05', '3.7000'],
    ]);
  });

  it('has a gap where something was traded and nobody wrote down what it was worth', () => {
    const points = toCurve({
      range: 'day',
      now,
      openedAt: step('11:30'),
      present: { realised: 0n, fees: dollars('0.10'), unrealised: null },
      booked: [{ step: step('11:45'), realised: 0n, fees: dollars('0.10') }],
      worth: [],
      worthBefore: undefined,
    });
    expect(points.map(({ total }) => total)).toEqual([0n, null, null]);
    expect(points.map(({ fees }) => formatDollars(fees))).toEqual(['0.0000', '0.1000', '0.1000']);
  });

  it('begins with what was known before the range, and with nothing where the account is older than its history', () => {
    const old = { range: 'day', now, openedAt: new Date('2026-01-01'), booked: [], worth: [] } as const;
    const present = { realised: 0n, fees: 0n, unrealised: 1n };
    const [first] = toCurve({ ...old, present, worthBefore: dollars('2') });
    expect(first).toMatchObject({ at: new Date('2026-11-20T12:15:00Z'), total: dollars('2') });
    expect(toCurve({ ...old, present, worthBefore: undefined })[0]!.total).toBeNull();
    expect(rangeStart('year', now)).toEqual(new Date('2025-11-17T00:00:00Z'));
  });
});

describe('the drawing of lines', () => {
  it.each([
    [0, 0, [-1, 0, 1]],
    [-20, 0, [-20, -15, -10, -5, 0]],
    [-3, 7, [-5, -2.5, 0, 2.5, 5, 7.5]],
    [0, 0.04, [0, 0.01, 0.02, 0.03, 0.04]],
  ])('has round ticks from %d to %d', (min, max, expected) => {
    expect(ticksAround(min, max)).toEqual(expected);
  });

  it('keeps every point inside, zero among the ticks, and gaps open', () => {
    const value = fc.option(fc.integer({ min: -1e9, max: 1e9 }).map((cents) => cents / 100));
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 120 }), (values) => {
        const text = values.map(String);
        const lines = [{ name: 'total', values }];
        const chart = toLineChart({ summary: '', labels: text, axis: text, lines, formatTick: String });
        const numbers = chart.lines[0]!.paths.flatMap((path) => path.match(/-?[\d.]+ -?[\d.]+/g) ?? []);
        expect(numbers.length).toBe(values.filter((v) => v !== null).length);
        for (const point of numbers) {
          const [x, y] = point.split(' ').map(Number);
          expect(x! >= 0 && x! <= chart.width && y! >= -0.1 && y! <= chart.height + 0.1).toBe(true);
        }
        expect(chart.ticks.filter(({ isZero }) => isZero).length).toBe(1);
        expect(chart.ticks.length).toBeLessThanOrEqual(7);
      }),
      { numRuns: 60 },
    );
  });
});

describe('a sale', () => {
  const bids = (...levels: [price: string, contracts: number][]) =>
    toLevels(levels.map(([price, contracts]) => ({ price: dollars(price), contracts })));
  const book: OrderBook = { yes: bids(['0.56', 100], ['0.55', 50]), no: [] };
  const held = { side: 'yes' as const, contracts: 120, cost: dollars('72.00') };
  const feeRule = { type: 'quadratic' as const, multiplier: 1_000_000n };

  it('is proposed for all that finds a bid, at the worst of those bids', () => {
    expect(proposeSale(book, held)).toEqual({ contracts: 120, limitPrice: dollars('0.55') });
    expect(proposeSale(book, { ...held, contracts: 999 })).toEqual({
      contracts: 150,
      limitPrice: dollars('0.55'),
    });
    expect(proposeSale({ yes: [], no: [] }, held)).toBeUndefined();
  });

  it('is quoted to the last digit, with what it realises and what it leaves', () => {
    // 100 at 0.56 and 20 at 0.55 are 67.00, with 2.0713 of fees; they cost 72.00.
    const all = quoteSale(book, feeRule, held, { contracts: 120, limitPrice: dollars('0.55') });
    expect([all.balanceChange, all.fees, all.realised].map(formatDollars)).toEqual([
      '64.9287',
      '2.0713',
      '-5.0000',
    ]);
    expect(all.left).toEqual({ side: 'yes', contracts: 0, cost: 0n });
    // The limit leaves out the second level: 20 of the 120 stay, at 0.60 each.
    const some = quoteSale(book, feeRule, held, { contracts: 120, limitPrice: dollars('0.56') });
    expect([some.filledContracts, formatDollars(some.realised)]).toEqual([100, '-4.0000']);
    expect(some.left).toEqual({ side: 'yes', contracts: 20, cost: dollars('12.00') });
  });

  it.each([
    [{ contracts: '0', limitPrice: '0.5' }, '/contracts'],
    [{ contracts: '1.555', limitPrice: '0.5' }, '/contracts'],
    [{ contracts: '121', limitPrice: '0.5' }, '/contracts'],
    [{ contracts: '1', limitPrice: '1.00' }, '/limitPrice'],
    [{ contracts: '1', limitPrice: '0.1234567' }, '/limitPrice'],
    [{ contracts: '1' }, '/limitPrice'],
  ])('that nobody can mean is refused: %j', (fields, pointer) => {
    expect(() => readSale(fields as Record<string, string>, 120)).toThrow(pointer);
  });
});
