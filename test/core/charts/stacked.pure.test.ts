import fc from 'fast-check';
import { expect, it } from 'vitest';
import { toStackedChart, type StackedInput } from '../../../src/core/charts/stacked.js';

const toInput = (series: StackedInput['series'], days = series[0]?.values.length ?? 0): StackedInput => ({
  title: 'Calls by day and key',
  stepName: 'Day (UTC)',
  steps: Array.from({ length: days }, (_, i) => ({ axis: String(i + 1), name: `Day ${i + 1}` })),
  series,
  nameOthers: (count) => `${count} other keys`,
});

it('stacks series by name, so that sizes do not change their fills, with exact values', () => {
  const chart = toStackedChart(
    toInput([
      { name: 'small', values: ['0.1', '2000', '0'] },
      { name: 'unused', values: ['0', '0', '0'] },
      { name: 'large', values: ['0.2', '1000', '0'] },
    ]),
  );
  expect(chart.legend).toEqual([
    { name: 'large', total: '1,000.20' },
    { name: 'small', total: '2,000.10' },
  ]);
  expect(chart.bars.map(({ label }) => label)).toEqual([
    'Day 1: 0.30\nlarge 0.20\nsmall 0.10',
    'Day 2: 3,000\nlarge 1,000\nsmall 2,000',
    'Day 3: 0',
  ]);
  expect(chart.table.columns).toEqual(['Day (UTC)', 'large', 'small', 'Total']);
  expect(chart.table.rows).toEqual([
    ['Day 1', '0.2', '0.1', '0.3'],
    ['Day 2', '1,000.0', '2,000.0', '3,000.0'],
  ]);
  expect(chart.summary).toBe('Calls by day and key: 3,000.30 in total. The numbers are in the table below.');
});

it('a series without a name of its own is last', () => {
  const series = [
    { name: 'No model', values: ['9'], isLast: true },
    { name: 'small', values: ['1'] },
  ];
  const { legend } = toStackedChart(toInput(series));
  expect(legend.map(({ name }) => name)).toEqual(['small', 'No model']);
});

it('one series has neither a sum nor its name in the labels', () => {
  const chart = toStackedChart(toInput([{ name: 'only', values: ['1', '2'] }]));
  expect(chart.bars[1]!.label).toBe('Day 2: 2');
  expect(chart.table.columns).toEqual(['Day (UTC)', 'only']);
});

it('steps that have not begun have only an estimate', () => {
  const before = { name: 'Before', values: ['4', '5', '6'] };
  const input = { ...toInput([{ name: 'only', values: ['0', '0', '0'] }]), before, estimates: [0, 1, 2] };
  const chart = toStackedChart({ ...input, begun: 2, series: [{ name: 'only', values: ['3', '0', '0'] }] });
  expect(chart.bars.map(({ label }) => label)).toEqual([
    'Day 1: 3\nBefore 4',
    'Day 2: 0\nestimated 1\nBefore 5',
    'Day 3: estimated 2\nBefore 6',
  ]);
  expect(chart.table.rows.slice(1)).toEqual([
    ['Day 2', '0', '5', '1'],
    ['Day 3', '', '6', '2'],
  ]);
});

it('without usage every bar is empty', () => {
  const chart = toStackedChart(toInput([], 3));
  expect(chart.bars.map(({ parts }) => parts)).toEqual([[], [], []]);
  expect(chart.legend).toEqual([]);
});

it('any number of series becomes at most six, and no value is lost', () => {
  const values = fc.array(fc.nat(1000), { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(fc.array(values, { minLength: 1, maxLength: 40 }), (all) => {
      const series = all.map((values, i) => ({ name: `key ${i}`, values: values.map(String) }));
      const { legend, table } = toStackedChart(toInput(series));
      expect(legend.length).toBeLessThanOrEqual(6);
      const sum = all.flat().reduce((total, value) => total + value, 0);
      const shown = legend.reduce((total, one) => total + Number(one.total.replaceAll(',', '')), 0);
      expect(shown).toBe(sum);
      const last = table.rows.map((row) => Number(row.at(-1)!.replaceAll(',', '')));
      expect(last.reduce((total, value) => total + value, 0)).toBe(sum);
    }),
  );
});
