import { describe, expect, it } from 'vitest';
import type { HourlyDay } from '../../evaluate/hourly.js';
import { createMinuteMaker, REPORT_LEAD } from '../../evaluate/made-up-minutes.js';
import { formatEpochDay, parseDay } from '../../evaluate/training.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { evaluate } from './run-evaluate.js';

const hours = Array.from({ length: 24 }, (_, hour) => hour);
const first = parseDay('2015-01-01')!;

function makeDay(i: number, stationId: string): HourlyDay {
  const size = 12 + 3 * gaussian('size', i);
  const curveF = hours.map((h) => 60 + size * Math.cos(((h - 15) * Math.PI) / 12));
  let error = 0;
  const observedF = curveF.map((f, h) => f + (error += 1.2 * gaussian(stationId, i, h)));
  return { stationId, day: first + i, observedF, curveF };
}

const days = Array.from({ length: 76 }, (_, i) => [makeDay(i, 'KNYC'), makeDay(i, 'KLAX')]).flat();
const names = [...hours.map((h) => `o${h}`), ...hours.map((h) => `f${h}`)];
const header = ['station', 'date', ...names.map((name) => name.replace(/\b(.)(\d)$/, '$10$2'))].join(',');
const toCsv = (rows: readonly HourlyDay[]): string =>
  [
    header,
    ...rows.map(({ stationId, day, observedF, curveF }) =>
      [stationId, formatEpochDay(day), ...[...observedF, ...curveF].map((t) => t.toFixed(2))].join(','),
    ),
  ].join('\n');
const flags = ['-', '--hourly', '--minutes', '--hours', '12,18', '--from', formatEpochDay(first + 64)];

interface Score {
  noise: number;
  excessF: number;
  n: number;
  crps: Record<string, number>;
  ratio: Record<string, number>;
}
const run = async (args: string[]) => {
  const { code, stdout, stderr } = await evaluate(toCsv(days), [...flags, ...args]);
  return { code, stderr, found: code === 0 ? (JSON.parse(stdout) as Score[]) : [] };
};

describe('evaluate --hourly --minutes', () => {
  it('prints a score for each noise, better with minutes, and the same each time', async () => {
    const { code, stderr, found } = await run(['--noise', '0.45,0.8']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const times = ['12:00', '12:15', '12:30', '12:45', '18:00', '18:15', '18:30', '18:45'];
    expect(found.map(({ noise, n, ratio }) => ({ noise, n, times: Object.keys(ratio) }))).toEqual(
      [0.45, 0.8].map((noise) => ({ noise, n: 24, times })),
    );
    expect(Object.keys(found[0]!.crps)).toEqual(['12', '18']);
    for (const { crps, ratio } of found) {
      expect(crps['12']).toBeGreaterThan(crps['18']!);
      expect(ratio['12:30']).toBeLessThan(0.95);
      expect(ratio['18:00']).toBeLessThan(0.9);
      expect(ratio['12:00']).toBeLessThan(1.01);
    }
    expect(found[1]!.excessF).toBeGreaterThan(found[0]!.excessF);
    expect((await run(['--noise', '0.8'])).found).toEqual([found[1]]);
  });

  it('scores minima, and only days before the end', async () => {
    const { found } = await run(['--minimum', '--noise', '0.6', '--until', formatEpochDay(first + 70)]);
    expect(found[0]).toMatchObject({ noise: 0.6, n: 12 });
    expect(found[0]!.excessF).toBeGreaterThan(0.2);
  });

  it('gains less if reports tell the extremes of six hours', async () => {
    const [known] = (await run(['--noise', '0.8', '--six-hours'])).found;
    const [found] = (await run(['--noise', '0.8'])).found;
    expect(known!.crps['18']).toBeLessThan(found!.crps['18']!);
    expect(known!.excessF).toBeLessThan(found!.excessF);
  });

  it('refuses unknown stations, other lists and days without history', async () => {
    const unknown = toCsv(days).replaceAll('KLAX', 'KXXX');
    expect((await evaluate(unknown, flags)).stderr).toContain('Gauge knows no station "KXXX"');
    for (const args of [
      ['--noise', '0'],
      ['--noise', '0.5,x'],
      ['--hours', '2'],
      ['--hours', '12.5'],
    ])
      expect((await run(args)).stderr).toContain('It must be');
    expect((await run(['--from', '2015-01-01', '--until', '2015-02-01'])).stderr).toContain('No day');
  });
});

describe('made-up minutes', () => {
  const few = days.slice(0, 120);

  it('pass through the reports of each hour', () => {
    for (const [i, minutes] of few.map(createMinuteMaker(few, 0.6)).entries())
      for (const hour of hours.slice(1)) {
        const official = minutes[hour * 60 - REPORT_LEAD]!;
        expect(Math.abs(official - few[i]!.observedF[hour]!)).toBeLessThan(0.52);
      }
  });

  it('differ less from the next than from a minute half an hour later', () => {
    const step = (apart: number) =>
      few
        .map(createMinuteMaker(few, 0.8))
        .reduce(
          (sum, minutes) => sum + minutes.slice(apart).reduce((all, t, k) => all + (t - minutes[k]!) ** 2, 0),
          0,
        );
    expect(step(1)).toBeLessThan(0.3 * step(30));
  });
});
