import { describe, expect, it } from 'vitest';
import { normalCdf } from '../../../src/core/statistics/distributions.js';
import { decompose, weightedCrps } from '../../evaluate/decomposition.js';
import { formatEpochDay, parseDay } from '../../evaluate/training.js';
import { crpsOfNormal } from '../../../src/markets/learning/crps.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { evaluate } from './run-evaluate.js';

interface Scores {
  crps: number;
  logScore: number;
  coverage: number;
  twCrps?: number;
  reliability: number;
  resolution: number;
  uncertainty: number;
}
interface Output {
  n: number;
  raw: { crps: number };
  emos: Scores;
  shrunk: Scores;
  seasonal: Scores;
  coefficients: Record<string, unknown>;
  comparison: { model: string; against: string; crps: { mean: number; low: number; high: number } }[];
}

const flags = ['-', '--obs', 'obs', '--members', '^fc', '--date', 'day', '--by', 'place'];

async function run(lines: readonly string[], args: string[]) {
  const { code, stdout, stderr } = await evaluate(['day,place,obs,fc', ...lines].join('\n'), [
    ...flags,
    ...args,
  ]);
  return { code, stderr, found: (code === 0 ? JSON.parse(stdout) : undefined) as Output };
}

/** CSV lines for places that each have a small bias and one forecast per day. */
const places = (days: number, count = 6): string[] =>
  Array.from({ length: days * count }, (_, i) => {
    const [day, place] = [Math.floor(i / count), i % count];
    const truth = 60 + 10 * gaussian('truth', place, day);
    const predicted = truth + 0.7 * gaussian('bias', place) + 2 * gaussian('error', place, day);
    return [
      formatEpochDay(parseDay('2021-01-01')! + day),
      `p${place}`,
      truth.toFixed(1),
      predicted.toFixed(1),
    ].join(',');
  });

/** CSV lines for one place whose bias and spread vary by season. */
const seasons = (days: number): string[] =>
  Array.from({ length: days }, (_, day) => {
    const season = Math.cos((2 * Math.PI * (parseDay('2017-01-01')! + day)) / 365.25);
    const truth = 10 - 12 * season + 3 * gaussian('season', day);
    const predicted = truth + 4 * season + (2 + season) * gaussian('season error', day);
    return [formatEpochDay(parseDay('2017-01-01')! + day), 'p', truth.toFixed(1), predicted.toFixed(1)].join(
      ',',
    );
  });

describe('evaluate --model', () => {
  it('learns from few days by pooling all places', async () => {
    const { code, stderr, found } = await run(places(60), ['--train-days', '20', '--model', 'emos,shrunk']);
    expect(code).toBe(0);
    expect(found.n).toBe(40 * 6);
    expect(found.shrunk.crps).toBeLessThan(found.emos.crps);
    expect(found.shrunk.coverage).toBeGreaterThan(0.85);
    const [compared] = found.comparison;
    expect(compared).toMatchObject({ model: 'shrunk', against: 'emos' });
    expect(compared!.crps.mean).toBeCloseTo(found.shrunk.crps - found.emos.crps, 10);
    expect(compared!.crps.low).toBeLessThan(0);
    expect(stderr).toMatch(/model +CRPS +log score +covers.*\nemos .*\nshrunk .* -0\.\d+ \(-0\.\d+ to /);
  });

  it('learns the seasons from a long history', async () => {
    const { found } = await run(seasons(1400), ['--train-until', '2020-01-01', '--model', 'emos,seasonal']);
    expect(found.seasonal.crps).toBeLessThan(0.9 * found.emos.crps);
    expect(found.comparison[0]!.crps.high).toBeLessThan(0);
  });

  it('prints the scores of one model under its name, with the parts of its CRPS', async () => {
    const { found, stderr } = await run(places(60), [
      '--train-days',
      '20',
      '--model',
      'shrunk',
      '--above',
      '65',
    ]);
    expect(stderr).toBe('');
    expect(Object.keys(found)).toEqual(['n', 'raw', 'shrunk', 'coefficients']);
    const { crps, twCrps, reliability, resolution, uncertainty } = found.shrunk;
    expect(reliability - resolution + uncertainty).toBeCloseTo(crps, 10);
    expect(reliability).toBeGreaterThan(0);
    expect(uncertainty).toBeGreaterThan(resolution);
    expect(twCrps).toBeGreaterThan(0);
    expect(twCrps).toBeLessThan(crps);
  });

  it('never uses the forecast day or later ones', async () => {
    const lines = places(40);
    const args = ['--train-days', '20', '--lag', '1', '--model', 'emos,shrunk,seasonal'];
    const { found } = await run(lines.slice(0, 6 * 22), args);
    const changed = lines.slice(0, 6 * 22).map((line, i) => {
      const [day, place, , predicted] = line.split(',');
      return i < 6 * 20 || i >= 6 * 21 ? line : [day, place, '200', predicted].join(',');
    });
    expect((await run(changed, args)).found.coefficients).toEqual(found.coefficients);
  });

  it('refuses conflicting flags', async () => {
    const args = ['--train-days', '20'];
    for (const wrong of [
      ['--model', 'best'],
      ['--above', '3'],
      ['--model', 'emos', '--above', '3', '--below', '2'],
      ['--model', 'emos', '--above', 'x'],
      ['--model', 'emos', '--widen'],
      ['--model', 'emos', '--html', 'x.html'],
    ])
      expect((await run(places(30), [...args, ...wrong])).code).toBe(2);
    const { code, stderr } = await run(places(10), [...args, '--model', 'shrunk']);
    expect(code).toBe(2);
    expect(stderr).toContain('No row can be tested');
  });
});

describe('parts of the CRPS', () => {
  const cases = Array.from({ length: 400 }, (_, i) => {
    const mean = 5 * gaussian('mean', i);
    return { mean, deviation: 1.5, observed: mean + 1.5 * gaussian('obs', i) };
  });
  const crps =
    cases.reduce((sum, { mean, deviation, observed }) => sum + crpsOfNormal(mean, deviation, observed), 0) /
    400;

  it('sum to the CRPS above and below a threshold, and equal it without one', () => {
    expect(weightedCrps(cases, normalCdf, { side: 'above', threshold: -1e3 })).toBeCloseTo(crps, 2);
    const [above, below] = (['above', 'below'] as const).map((side) =>
      weightedCrps(cases, normalCdf, { side, threshold: 1 }),
    );
    expect(above! + below!).toBeCloseTo(crps, 2);
  });

  it('give a calibrated forecast better reliability than an overconfident one, with equal resolution', () => {
    const sure = cases.map((each) => ({ ...each, deviation: 0.4 }));
    const sureCrps =
      sure.reduce((sum, { mean, deviation, observed }) => sum + crpsOfNormal(mean, deviation, observed), 0) /
      400;
    const [good, bad] = [decompose(cases, normalCdf, crps), decompose(sure, normalCdf, sureCrps)];
    expect(good.reliability).toBeLessThan(0.6 * bad.reliability);
    expect(good.resolution / bad.resolution).toBeCloseTo(1, 1);
    expect(good.uncertainty).toBeCloseTo(bad.uncertainty, 1);
  });

  it('give a constant forecast no resolution', () => {
    const same = cases.map(({ observed }) => ({ mean: 0, deviation: 5.2, observed }));
    const { resolution } = decompose(same, normalCdf, 1);
    expect(Math.abs(resolution)).toBeLessThan(1e-9);
  });
});
