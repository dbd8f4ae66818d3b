import { describe, expect, it } from 'vitest';
import { solveJoint as solve, type JointProblem } from '../../../src/markets/sizing/joint.js';
import { stakeOnExclusive } from './smoczynski-tomkins.js';
import { randomOf, randomProblem } from '../support/joint-arbitraries.js';

const pays = ({ pays: { from, to }, side }: JointProblem['legs'][number], j: number) =>
  (j >= from && j <= to) === (side === 'yes') ? 1 : 0;
const only = (outcome: number) => ({ from: outcome, to: outcome });
const wealthAt = ({ wealth, legs }: JointProblem, contracts: readonly number[]) =>
  wealth.map((dollars, j) =>
    legs.reduce((sum, leg, l) => sum + contracts[l]! * (pays(leg, j) - leg.cost), dollars),
  );
const valueAt = (problem: JointProblem, contracts: readonly number[]) => {
  const after = wealthAt(problem, contracts);
  return problem.probabilities.reduce((sum, p, j) => (p > 0 ? sum + p * Math.log(after[j]!) : sum), 0);
};
const solveJoint = (problem: JointProblem) => {
  const found = solve(problem);
  const nothing = problem.legs.map(() => 0);
  return { ...found, growth: valueAt(problem, found.contracts) - valueAt(problem, nothing) };
};
type JointOptimum = ReturnType<typeof solveJoint>;
const spentOf = (weights: readonly number[], contracts: readonly number[]) =>
  weights.reduce((sum, weight, l) => sum + weight * contracts[l]!, 0);

const withFee = (price: number): number => price + 0.07 * price * (1 - price);
const p = [0.05, 0.15, 0.35, 0.28, 0.12, 0.05];

describe('the optimum over YES and NO of all brackets', () => {
  it('equals the one that twenty starts of a general optimiser agree on', () => {
    const asks = [0.03, 0.12, 0.27, 0.3, 0.2, 0.13];
    const bids = [0.02, 0.11, 0.25, 0.27, 0.18, 0.11];
    const legs: JointProblem['legs'] = [
      ...asks.map((ask, outcome) => ({
        pays: only(outcome),
        side: 'yes' as const,
        cost: withFee(ask),
        contracts: Infinity,
      })),
      ...bids.map((bid, outcome) => ({
        pays: only(outcome),
        side: 'no' as const,
        cost: withFee(1 - bid),
        contracts: Infinity,
      })),
    ];
    const limits = [{ room: 1, weights: legs.map(({ cost }) => cost) }];
    const found = solveJoint({ probabilities: p, wealth: p.map(() => 1), legs, limits });
    const expected = [0.01841, 0.024384, 0.07016, 0, 0, 0, 0, 0, 0, 0, 0.231492, 0.449604];
    expected.forEach((share, l) =>
      expect(Math.abs(found.contracts[l]! * legs[l]!.cost - share)).toBeLessThan(1e-6),
    );
    const spent = spentOf(limits[0]!.weights, found.contracts);
    expect(Math.abs(1 - spent - 0.205951)).toBeLessThan(1e-6);
    expect(Math.abs(found.growth - 0.03844731)).toBeLessThan(1e-8);
    expect(found.gap).toBeLessThan(1e-12);
  });

  it('equals Smoczynski and Tomkins if only YES can be bought, at one price and in any size', () => {
    const random = randomOf(10);
    for (let run = 0; run < 120; run++) {
      const problem = randomProblem(random, {
        outcomes: 2 + Math.floor(random() * 9),
        levels: 1,
        noise: 0.3,
        isYesOnly: true,
        discount: run % 3 === 0 ? 8 : 0,
      });
      const { probabilities, legs, limits, wealth } = problem;
      const costs = probabilities.map((_, k) => legs.find(({ pays }) => pays.from === k)?.cost ?? 5);
      const exact = stakeOnExclusive(probabilities, costs);
      const found = solveJoint({
        ...problem,
        legs: legs.map((leg) => ({ ...leg, contracts: Infinity })),
        limits,
      });
      expect(found.gap).toBeLessThan(1e-9);
      expect(Math.abs(found.growth - exact.growth)).toBeLessThan(1e-9);
      legs.forEach(({ pays: { from: outcome }, cost }, l) => {
        // The number of contracts on an impossible outcome makes no difference.
        if (probabilities[outcome] === 0) return;
        const share = (found.contracts[l]! * cost) / wealth[0]!;
        expect(Math.abs(share - exact.fractions[outcome]!)).toBeLessThan(1e-6);
      });
    }
  });
});

/**
 * Checks the Karush–Kuhn–Tucker conditions of the problem as stated. A leg strictly between its bounds gains exactly
 * the shadow price of the limits that it uses. A leg at its full depth gains at least that much, and a leg that is not
 * bought gains at most that much. Only binding limits have a shadow price.
 */
function brokenConditions(problem: JointProblem, found: JointOptimum): string[] {
  const { probabilities, legs, limits } = problem;
  const unit = Math.min(...problem.wealth);
  const after = wealthAt(problem, found.contracts);
  // A floor reached in an impossible outcome also has a shadow price, but the solver does not report it; the slow
  // method covers such events.
  if (after.some((dollars, j) => probabilities[j] === 0 && dollars < 1e-6 * unit)) return ['floor'];
  const slope = probabilities.map((p, j) => (p > 0 ? (p / after[j]!) * unit : 0));
  const tolerance = 1e-7 * Math.max(1, ...slope);
  const broken: string[] = [];
  const demand = (isMet: boolean, name: string) => void (isMet || broken.push(name));
  limits.forEach(({ room, weights }, i) => {
    const left = room - spentOf(weights, found.contracts);
    demand(left > -1e-9 * unit, 'a limit is kept');
    demand(found.prices[i]! >= 0, 'no price is negative');
    demand(left <= 1e-6 * unit || found.prices[i]! * unit < tolerance, 'what is left over has no price');
  });
  legs.forEach((leg, l) => {
    const bought = found.contracts[l]!;
    demand(bought >= 0 && bought <= leg.contracts * (1 + 1e-12), 'no more is bought than there is');
    const gain = slope.reduce((sum, value, j) => sum + value * (pays(leg, j) - leg.cost), 0);
    const price = limits.reduce((sum, { weights }, i) => sum + found.prices[i]! * unit * weights[l]!, 0);
    demand(bought <= 1e-6 || gain - price > -tolerance, 'what is bought is worth it');
    demand(bought >= leg.contracts - 1e-6 || gain - price < tolerance, 'what is left is not worth it');
  });
  return broken;
}

/**
 * A slow, independent method: Frank–Wolfe directions for pairs of legs. One pass runs a golden-section search on every
 * transfer between two legs and on every change of an individual leg within its bounds.
 */
function improveByPairs(problem: JointProblem, from: readonly number[]): number {
  const { legs, limits } = problem;
  const contracts = [...from];
  let best = valueAt(problem, contracts);
  for (let a = 0; a < legs.length; a++)
    for (let b = a; b < legs.length; b++)
      for (const sign of [1, -1]) {
        // One dollar more of leg a for one dollar less of leg b, or for nothing if they are the same leg.
        const step = legs.map((leg, l) => (l === a ? sign / leg.cost : l === b ? -sign / leg.cost : 0));
        const moved = (t: number) => contracts.map((x, l) => x + t * step[l]!);
        const most = longest(problem, contracts, step);
        if (!(most > 0)) continue;
        let [low, high] = [0, most];
        for (let i = 0; i < 60; i++) {
          const [left, right] = [low + 0.382 * (high - low), low + 0.618 * (high - low)];
          if (valueAt(problem, moved(left)) < valueAt(problem, moved(right))) low = left;
          else high = right;
        }
        const value = valueAt(problem, moved(low));
        if (value > best) {
          best = value;
          moved(low).forEach((x, l) => (contracts[l] = x));
        }
      }
  expect(limits.every(({ room, weights }) => spentOf(weights, contracts) <= room * (1 + 1e-9))).toBe(true);
  return best;
}

function longest(problem: JointProblem, contracts: readonly number[], step: readonly number[]): number {
  const ways = problem.legs.flatMap(({ contracts: depth }, l) =>
    step[l]! > 0 ? [(depth - contracts[l]!) / step[l]!] : step[l]! < 0 ? [contracts[l]! / -step[l]!] : [],
  );
  for (const { room, weights } of problem.limits) {
    const use = spentOf(weights, step);
    if (use > 1e-12) ways.push((room - spentOf(weights, contracts)) / use);
  }
  const now = wealthAt(problem, contracts);
  const fall = wealthAt({ ...problem, wealth: problem.wealth.map(() => 0) }, step);
  now.forEach((dollars, j) => fall[j]! < 0 && ways.push((dollars * (1 - 1e-12)) / -fall[j]!));
  return Math.min(...ways);
}

describe.each([
  ['brackets', false],
  ['thresholds', true],
])('the optimum of 1,000 random events of %s', (_what, isNested) => {
  const random = randomOf(4);
  const events = Array.from({ length: 1_000 }, (_, run) =>
    randomProblem(random, {
      outcomes: [2, 3, 6, 6, 6, 10][run % 6]!,
      levels: [1, 2, 5, 10][run % 4]!,
      noise: [0.02, 0.1, 0.3][run % 3]!,
      isNested,
      hasHeld: run % 5 < 2,
      hasCaps: run % 7 < 4,
      discount: run % 11 === 0 ? 5 : 0,
    }),
  );
  const optima = events.map(solveJoint);

  it('is certified to 1e-12 of growth in nearly all, and far below the accepted gap in all', () => {
    const gaps = optima.map(({ gap }) => gap).toSorted((a, b) => a - b);
    expect(gaps[989]).toBeLessThan(1e-12);
    expect(gaps.at(-1)).toBeLessThan(1e-9);
    // Guards against a vacuous test: most events are worth buying.
    expect(optima.filter(({ growth }) => growth > 1e-6).length).toBeGreaterThan(700);
  });

  it('satisfies the optimality conditions of the problem as stated', () => {
    const broken = events.map((problem, i) => brokenConditions(problem, optima[i]!));
    const floors = broken.filter(([name]) => name === 'floor').length;
    expect(floors).toBeLessThan(150);
    expect(broken.flat().filter((name) => name !== 'floor')).toEqual([]);
  });

  it('cannot be improved by moving money between two legs', () => {
    const small = events.flatMap((problem, i) => (problem.legs.length <= 14 ? [i] : [])).slice(0, 12);
    expect(small).toHaveLength(12);
    for (const i of small) {
      const before = valueAt(events[i]!, optima[i]!.contracts);
      expect(improveByPairs(events[i]!, optima[i]!.contracts) - before).toBeLessThan(1e-9);
    }
  });

  it('is within its gap of what the slow method finds from zero', () => {
    const small = events.filter(({ legs }) => legs.length <= 8).slice(0, 12);
    for (const problem of small) {
      const nothing = problem.legs.map(() => 0);
      const found = solveJoint(problem);
      const best = valueAt(problem, found.contracts);
      const slow = improveByPairs(problem, nothing);
      expect(slow).toBeLessThanOrEqual(best + found.gap + 1e-12);
      expect(slow).toBeGreaterThan(
        valueAt(
          problem,
          problem.legs.map(() => 0),
        ) - 1e-15,
      );
    }
  });

  it('does not decrease with an additional leg, however bad', () => {
    events.slice(0, 120).forEach((problem, i) => {
      const worse = { pays: only(0), side: 'yes' as const, cost: 0.97, contracts: 50 };
      const more = solveJoint({
        ...problem,
        legs: [...problem.legs, worse],
        limits: problem.limits.map((limit) => ({ ...limit, weights: [...limit.weights, worse.cost] })),
      });
      expect(more.growth).toBeGreaterThan(optima[i]!.growth - 1e-9);
    });
  });

  it('grows in proportion to bankroll and depth', () => {
    events.slice(0, 120).forEach((problem, i) => {
      const tenfold = solveJoint({
        ...problem,
        wealth: problem.wealth.map((dollars) => 10 * dollars),
        legs: problem.legs.map((leg) => ({ ...leg, contracts: 10 * leg.contracts })),
        limits: problem.limits.map(({ room, weights }) => ({ room: 10 * room, weights })),
      });
      expect(Math.abs(tenfold.growth - optima[i]!.growth)).toBeLessThan(1e-9);
    });
  });
});

describe('an event with bounds that are met at one point', () => {
  it('is proved where the active-set method from zero stops 7e-9 below the optimum', () => {
    const both = [0.753468, 0.782397, 0.294112, 0.304413, 0.242397, 0.252768, 0.801613, 0.830332];
    const depths = [149, 165, 27, 132, 146, 1, 292, 222];
    const found = solveJoint({
      probabilities: [0.8311573535257234, 0.16884264647427658],
      wealth: [31.29345184512892, 5.722143858279476],
      legs: both.map((cost, l) => ({
        pays: only(l < 4 ? 0 : 1),
        side: l % 4 < 2 ? ('yes' as const) : ('no' as const),
        cost,
        contracts: depths[l]!,
      })),
      limits: [
        { room: 5.722143858279476, weights: both },
        { room: 2.2888575433117904, weights: both },
        { room: 1.1444287716558952, weights: both.map((cost, l) => (l < 4 ? cost : 0)) },
        { room: 1.1444287716558952, weights: both.map((cost, l) => (l < 4 ? 0 : cost)) },
      ],
    });
    expect(found.gap).toBeLessThan(1e-12);
  });

  it('is proved with every leg and every limit twice, and with hardly any room', () => {
    const random = randomOf(5);
    for (let run = 0; run < 600; run++) {
      const problem = randomProblem(random, {
        outcomes: [2, 6, 10][run % 3]!,
        levels: [1, 5][run % 2]!,
        noise: 0.1,
        isNested: run % 2 === 0,
        hasCaps: true,
      });
      const { legs, limits } = problem;
      const twice = limits.map(({ room, weights }) => ({ room, weights: [...weights, ...weights] }));
      for (const change of [
        { legs: [...legs, ...legs], limits: twice },
        { limits: [...limits, ...limits] },
        { limits: limits.map(({ room, weights }) => ({ room: room * 1e-7, weights })) },
      ])
        expect(solveJoint({ ...problem, ...change }).gap).toBeLessThan(1e-9);
    }
  });
});

describe('an event with nothing to gain', () => {
  const cost = [0.6, 0.6];
  const problem = (contracts: number, room: number): JointProblem => ({
    probabilities: [0.5, 0.5],
    wealth: [100, 100],
    legs: cost.map((cost, outcome) => ({ pays: only(outcome), side: 'yes', cost, contracts })),
    limits: [{ room, weights: cost }],
  });

  it('gets no purchases at any depth, nor does one without room', () => {
    for (const depth of [1, 1_000_000])
      expect(solveJoint(problem(depth, 100))).toMatchObject({ contracts: [0, 0], growth: 0, gap: 0 });
    const cheap = problem(1_000, 0);
    expect(
      solveJoint({ ...cheap, legs: cheap.legs.map((leg) => ({ ...leg, cost: 0.1 })) }).contracts,
    ).toEqual([0, 0]);
    expect(solveJoint({ ...cheap, legs: [], limits: [] })).toMatchObject({
      contracts: [],
      growth: 0,
      gap: 0,
    });
  });

  it('spends everything on a sure gain, and may leave nothing in an impossible outcome', () => {
    const sure = solveJoint({
      probabilities: [1, 0],
      wealth: [100, 100],
      legs: [{ pays: only(0), side: 'yes', cost: 0.8, contracts: 1_000_000 }],
      limits: [{ room: 100, weights: [0.8] }],
    });
    expect(sure.contracts[0]).toBeCloseTo(125, 9);
    expect(sure.growth).toBeCloseTo(Math.log(1.25), 12);
  });
});
