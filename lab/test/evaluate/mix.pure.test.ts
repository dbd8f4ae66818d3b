import { afterAll, describe, expect, it } from 'vitest';
import { formatEpochDay, parseDay } from '../../evaluate/training.js';
import type { MixSummary } from '../../evaluate/mix.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { createFolder, evaluate } from './run-evaluate.js';

const folder = createFolder();
afterAll(folder.remove);

const FIRST = parseDay('2024-01-01')!;
const date = (day: number) => formatEpochDay(FIRST + day);

interface Made {
  days: number;
  places?: number;
  /** Day from which `b` is 6 degrees warmer. Default: never. */
  breakAt?: number;
}

/** `a` and `b` are equally good and independent; `c` is `a` plus noise. */
const linesOf = ({ days, places = 2, breakAt = Infinity }: Made): string[] =>
  Array.from({ length: days * places }, (_, i) => {
    const [day, place] = [Math.floor(i / places), i % places];
    const truth = 60 + 8 * gaussian('truth', day, place);
    const a = truth + 2 * gaussian('a', day, place);
    const b = truth + 2 * gaussian('b', day, place) + (day >= breakAt ? 6 : 0);
    const c = a + 4 * gaussian('c', day, place);
    return [date(day), `p${place}`, ...[truth, a, b, c, 2].map((x) => x.toFixed(2))].join(',');
  });

const flags = ['-', '--obs', 'obs', '--date', 'day', '--by', 'place', '--train-days', '40', '--lag', '1'];
const three = ['--mix', 'a=^a$', '--mix', 'b=^b$', '--mix', 'c=^c$'];

async function run(lines: readonly string[], args: readonly string[]) {
  const csv = ['day,place,obs,a,b,c,sd', ...lines].join('\n');
  const { code, stdout, stderr } = await evaluate(csv, [...flags, ...args]);
  return { code, stderr, found: (code === 0 ? JSON.parse(stdout) : undefined) as MixSummary };
}

describe('evaluate --mix', () => {
  it('weights models by their errors and reports what each one adds', async () => {
    const { code, stderr, found } = await run(linesOf({ days: 120 }), three);
    expect(code).toBe(0);
    const { n, mix, models, without } = found;
    expect(n).toBe((120 - 41) * 2);
    expect(mix.crps).toBeLessThan(0.9 * models.a!.crps);
    expect(mix.weights.c).toBeLessThan(0.1);
    expect(mix.weights.a! + mix.weights.b! + mix.weights.c!).toBeCloseTo(1, 9);
    expect(without.b!.crpsDifference.low).toBeGreaterThan(0);
    expect(without.a!.crpsDifference.low).toBeGreaterThan(0);
    expect(without.c!.crpsDifference.mean).toBeLessThan(0.05);
    expect(stderr).toMatch(/model +CRPS.*\nmix .*\na .*\nb .*\nc /);
  });

  it('leaves a model out of the rows where it has no value, and tests the rows of the first', async () => {
    const lines = linesOf({ days: 100 }).map((line, i) =>
      i % 10 === 0 ? line.replace(/^((?:[^,]*,){4})[^,]*/, '$1') : line,
    );
    const { found } = await run(lines, three);
    expect(found.models.b!.n).toBeLessThan(found.n);
    expect(found.models.a!.n).toBe(found.n);
  });

  it('never uses the forecast day or later ones', async () => {
    const lines = linesOf({ days: 44 });
    const changed = lines.map((line) => {
      const [day, place, , ...rest] = line.split(',');
      return day! >= date(42) ? [day, place, '200', ...rest].join(',') : line;
    });
    const [known, other] = [await run(lines, three), await run(changed, three)];
    expect(other.found.mix.weights).toEqual(known.found.mix.weights);
  });

  it('learns the bias of a new version faster when its date is given', async () => {
    const file = folder.write('versions.csv', `model,version,from\nb,2.0,${date(60)}\n`);
    const lines = linesOf({ days: 90, breakAt: 60 });
    const [told, untold] = [await run(lines, [...three, '--versions', file]), await run(lines, three)];
    expect(told.found.models.b!.crps).toBeLessThan(0.9 * untold.found.models.b!.crps);
    expect(told.found.mix.crps).toBeLessThan(untold.found.mix.crps);
  });

  it('uses a standard deviation that the model states', async () => {
    const { code } = await run(linesOf({ days: 60 }), [...three, '--spread', 'a=sd']);
    expect(code).toBe(0);
  });

  it('refuses wrong flags and versions, and names the place', async () => {
    const lines = linesOf({ days: 60 });
    const versions = (name: string, text: string) => ['--versions', folder.write(name, text)];
    for (const [args, problem] of [
      [['--mix', 'a=^a$'], /Give --mix 2 to 20 times/],
      [['--mix', 'a'], /It must be a name/],
      [['--mix', 'main=^a$'], /It must be a name/],
      [[...three, '--mix', 'a=^b$'], /a appears twice/],
      [[...three, '--mix', 'd=^d$'], /matches no column/],
      [[...three, '--spread', 'd=sd'], /there is no model d/],
      [[...three, '--spread', 'a=sigma'], /there is no column "sigma"/],
      [[...three, ...versions('1.csv', 'model,from\n')], /there is no column "version"/],
      [
        [...three, ...versions('2.csv', 'model,version,from\nb,1,2024-02-30\n')],
        /line 2: from must be a date/,
      ],
      [
        [...three, ...versions('3.csv', 'model,version,from\nz,1,2024-02-01\n')],
        /line 2: there is no model "z"/,
      ],
      [[...three, '--versions', folder.path('none.csv')], /none\.csv/],
    ] as const) {
      const { code, stderr } = await run(lines, args);
      expect(code).toBe(2);
      expect(stderr).toMatch(problem);
    }
    expect((await run(linesOf({ days: 20 }), three)).stderr).toContain('No row can be tested');
  });
});
