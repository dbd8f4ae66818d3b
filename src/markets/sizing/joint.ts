import type { Side } from '../market/book.js';
import { isPaid, type Payout } from '../market/brackets.js';
import { climb, type Guess } from './active-set.js';
import { optimalityGap, rowsAt, type ConcaveProblem } from './concave.js';
import { toLimits } from './fund.js';
import { inDollars, type Offer } from './offers.js';
import type { Fund, Headroom, Optimum, Limit, Leg } from './model.js';

const TARGET_GAP = 1e-10;
/** With restarts, all but 2 of 360,000 random events (almost half of them degenerate) have a proven optimum. */
const SHIFTS = [1e-4, 1e-6, 1e-8];

/** If degenerate bounds make the active-set method cycle, restarts from slightly perturbed bounds. */
function maximise(problem: ConcaveProblem) {
  const measure = ({ x, multipliers }: Guess) => ({
    x: x.slice(),
    multipliers: multipliers.slice(),
    gap: optimalityGap(problem, x, multipliers),
  });
  let best = measure(nothingBought(problem));
  for (const guess of guesses(problem)) {
    if (best.gap <= TARGET_GAP) break;
    const found = measure(climb(problem, guess()));
    if (found.gap < best.gap) best = found;
  }
  return best;
}

const guesses = (problem: ConcaveProblem): (() => Guess)[] => [
  () => nothingBought(problem),
  ...SHIFTS.map((shift) => () => guessFrom(problem, shift)),
];

const nothingBought = ({ slack, targets, upper }: ConcaveProblem): Guess => ({
  x: new Float64Array(upper.length),
  multipliers: targets.map((target, i) => target / slack[i]!),
  isFree: Array.from(upper, () => false),
  isTight: Array.from(targets, () => false),
});

/** By different fractions, so that no two bounds are met at the same point. */
function guessFrom(problem: ConcaveProblem, shift: number): Guess {
  const raised = (value: number, i: number) => value * (1 + shift * ((GOLDEN_RATIO * (i + 1)) % 1));
  const { slack, targets, upper } = problem;
  const apart = {
    ...problem,
    upper: upper.map(raised),
    slack: slack.map((value, i) => (targets[i]! > 0 ? value : raised(value, i))),
  };
  const { x, isFree, ...rest } = climb(apart, nothingBought(apart));
  const inBounds = x.map((value, l) => (isFree[l] ? Math.min(value, upper[l]!) : value > 0 ? upper[l]! : 0));
  return { ...rest, isFree, x: inBounds };
}

const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

/** Relative and absolute. */
const NEARLY = 1e-6;
const NO_CONTRACTS = 1e-6;

/** Reports show the uncapped Kelly share, and the caps are usually met anyway. */
export function findOptimum(fund: Fund, headroom: Headroom, offers: readonly Offer[]): Optimum {
  const limits = toLimits(headroom, offers, fund);
  const legs = offers.flatMap((offer) => offer.legs);
  const { probabilities, wealth } = fund;
  const solve = (limits: readonly Limit[]) => solveJoint({ probabilities, wealth, legs, limits });
  const always = [limits.fund, limits.cash];
  const free = solve(always);
  const caps = [limits.event, ...limits.markets];
  const isWithin = caps.every(({ room, weights }) => used(weights, free.contracts) <= Math.max(0, room));
  const capped = isWithin ? undefined : solve([...always, ...caps]);
  const ofOffer = split(offers);
  const contracts = ofOffer((capped ?? free).contracts);
  const wanted = ofOffer(free.contracts);
  const costs = ofOffer(free.contracts.map((bought, l) => bought * legs[l]!.cost));
  return {
    contracts,
    shares: costs.map((dollars) => dollars / inDollars(fund.whole)),
    limitedBy: offers.map(({ market, depth }, i) => {
      const isCut = capped !== undefined && contracts[i]! < wanted[i]! - NO_CONTRACTS;
      if (isCut && isFull(limits.markets[market]!, capped.contracts)) return 'market';
      if (isCut && isFull(limits.event, capped.contracts)) return 'event';
      if (isFull(limits.cash, (capped ?? free).contracts)) return 'cash';
      return contracts[i]! > depth - NO_CONTRACTS ? 'depth' : null;
    }),
    gap: Math.max(free.gap, capped?.gap ?? 0),
  };
}

/** By usage: if a limit binds only one leg, its price may be hidden in that leg's own bound. */
const isFull = ({ room, weights }: Limit, contracts: readonly number[]): boolean =>
  used(weights, contracts) >= Math.max(0, room) * (1 - NEARLY);

const used = (weights: readonly number[], contracts: readonly number[]): number =>
  weights.reduce((sum, weight, l) => sum + weight * contracts[l]!, 0);

const split =
  (offers: readonly Offer[]) =>
  (perLeg: readonly number[]): number[] => {
    let at = 0;
    return offers.map(({ legs }) =>
      perLeg.slice(at, (at += legs.length)).reduce((sum, value) => sum + value, 0),
    );
  };

export interface JointProblem {
  probabilities: readonly number[];
  /** In each outcome without a purchase, all positive. */
  wealth: readonly number[];
  legs: readonly Leg[];
  limits: readonly Limit[];
}

/** As a share of wealth. */
const NOTHING = 1e-9;
/** Other legs are added only if needed, which is rare. */
const FAR_BELOW = 0.05;

/**
 * Maximises Σ pⱼ·ln Wⱼ with Wⱼ = wealthⱼ + Σ x·(the leg's payout in j − cost), within depth and limits. Outcomes with
 * zero probability only require Wⱼ ≥ 0. The problem is concave, so its optimality conditions prove the optimum: see
 * `optimalityGap`.
 */
export function solveJoint(problem: JointProblem) {
  const { probabilities, wealth, legs, limits } = problem;
  const unit = wealth.reduce((sum, dollars) => sum + dollars, 0) / wealth.length;
  const upper = upperBounds(problem, unit);
  let worths = worthsOf(
    problem,
    wealth.map((dollars, j) => (probabilities[j]! * unit) / dollars),
    [],
  );
  const isUsed = legs.map((_, l) => upper[l]! > 0 && worths[l]! > -FAR_BELOW);
  for (;;) {
    const used = legs.flatMap((_, l) => (isUsed[l] ? [l] : []));
    const binding = limits.filter((limit) => couldBind(limit, used, upper));
    const scaled = toConcave(problem, { used, binding, upper, unit });
    const { x, multipliers, gap } = maximise(scaled);
    const s = rowsAt(scaled, x);
    const prices = limits.map((limit) => {
      const row = probabilities.length + binding.indexOf(limit);
      return row < probabilities.length ? 0 : multipliers[row]!;
    });
    const derivatives = probabilities.map((p, j) => (p > 0 ? p / s[j]! : multipliers[j]!));
    worths = worthsOf(problem, derivatives, prices);
    const missing = legs.flatMap((_, l) => (!isUsed[l] && upper[l]! > 0 && worths[l]! > 0 ? [l] : []));
    if (missing.length === 0) {
      const contracts = legs.map(() => 0);
      used.forEach((l, at) => (contracts[l] = x[at]! * unit));
      return {
        /** Unrounded. */
        contracts,
        /** Per extra dollar of room, for each limit. */
        prices: prices.map((price) => price / unit),
        /** Upper bound on what any other purchase could add. */
        gap,
      };
    }
    for (const l of missing) isUsed[l] = true;
  }
}

/** Per contract, in units of wealth, given the derivative by outcome and the price of each limit. */
function worthsOf({ legs, limits }: JointProblem, derivatives: readonly number[], prices: readonly number[]) {
  const below = [0];
  for (const value of derivatives) below.push(below.at(-1)! + value);
  const all = below.at(-1)!;
  return legs.map(({ pays, side, cost }, l) => {
    // A single outcome is read directly, because a difference of sums would lose digits.
    const here = pays.from === pays.to ? derivatives[pays.from]! : below[pays.to + 1]! - below[pays.from]!;
    let worth = (side === 'yes' ? here : all - here) - cost * all;
    for (let i = 0; i < prices.length; i++) if (prices[i]! > 0) worth -= prices[i]! * limits[i]!.weights[l]!;
    return worth;
  });
}

interface Chosen {
  used: readonly number[];
  binding: readonly Limit[];
  upper: readonly number[];
  unit: number;
}

function toConcave({ probabilities, wealth, legs }: JointProblem, { used, binding, upper, unit }: Chosen) {
  const outcomes = probabilities.length;
  const rows = outcomes + binding.length;
  const columns = new Float64Array(rows * used.length);
  used.forEach((l, at) => {
    const { cost } = legs[l]!;
    for (let j = 0; j < outcomes; j++) columns[at * rows + j] = (isWon(legs[l]!, j) ? 1 : 0) - cost;
    for (let i = 0; i < binding.length; i++) columns[at * rows + outcomes + i] = -binding[i]!.weights[l]!;
  });
  return {
    columns,
    slack: Float64Array.from([...wealth, ...binding.map(({ room }) => room)], (dollars) => dollars / unit),
    targets: Float64Array.from({ length: rows }, (_, i) => probabilities[i] ?? 0),
    upper: Float64Array.from(used, (l) => upper[l]! / unit),
  };
}

/** If smaller than the depth, twice the room within the limits, so that the limit binds and carries the price. */
function upperBounds({ legs, limits }: JointProblem, unit: number): number[] {
  const upper = legs.map(({ contracts }) => contracts);
  for (const { room, weights } of limits) {
    const freed = weights.reduce(
      (sum, weight, l) => (weight < 0 ? sum - weight * legs[l]!.contracts : sum),
      0,
    );
    for (let l = 0; l < upper.length; l++)
      if (weights[l]! > 0)
        upper[l] = room > NOTHING * unit ? Math.min(upper[l]!, (2 * (room + freed)) / weights[l]!) : 0;
  }
  return upper;
}

function couldBind({ room, weights }: Limit, used: readonly number[], upper: readonly number[]): boolean {
  if (room <= 0) return false;
  let most = 0;
  for (const l of used) most += Math.max(0, weights[l]!) * upper[l]!;
  return most > room;
}

export const isWon = ({ pays, side }: { pays: Payout; side: Side }, outcome: number): boolean =>
  isPaid(pays, outcome) === (side === 'yes');
