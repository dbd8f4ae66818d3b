import type { JointProblem } from '../../../src/markets/sizing/joint.js';
import type { Leg, Limit } from '../../../src/markets/sizing/model.js';

/** Seeded random numbers between 0 and 1, so that a thousand events are the same on every run. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const withFee = (price: number): number => price + 0.07 * price * (1 - price);

interface Kind {
  outcomes: number;
  levels: number;
  /** Width of the random offset between prices and probabilities. */
  noise: number;
  isYesOnly?: boolean;
  /** True if markets are thresholds between outcomes; each market pays in all outcomes above its threshold. */
  isNested?: boolean;
  hasHeld?: boolean;
  hasCaps?: boolean;
  /** Lowers all asks by this many cents. With a large enough discount, the ladder costs less than it pays. */
  discount?: number;
}

export function randomProblem(random: () => number, kind: Kind): JointProblem {
  const { outcomes, levels, noise, isYesOnly, isNested = false, hasHeld, hasCaps, discount = 0 } = kind;
  const raw = Array.from({ length: outcomes }, () =>
    random() < 0.1 && outcomes > 2 ? 0 : -Math.log(random()),
  );
  raw[0] = raw[0]! + 0.01;
  const total = raw.reduce((sum, value) => sum + value, 0);
  const probabilities = raw.map((value) => value / total);
  const base = 10 ** (1 + 3 * random());
  const legs: Leg[] = [];
  const markets = isNested
    ? probabilities.slice(1).map((_, i) => ({ from: i + 1, to: outcomes - 1 }))
    : probabilities.map((_, i) => ({ from: i, to: i }));
  markets.forEach((pays) => {
    const p = probabilities.slice(pays.from, pays.to + 1).reduce((sum, value) => sum + value, 0);
    const middle = Math.min(0.94, Math.max(0.05, p + (random() - 0.5) * noise));
    for (const side of isYesOnly ? (['yes'] as const) : (['yes', 'no'] as const)) {
      let cents = Math.round((side === 'yes' ? middle : 1 - middle) * 100) + 1 - discount;
      for (let level = 0; level < levels && cents < 99; level++) {
        const contracts = [1, Math.ceil(random() * 300), 1_000_000][Math.floor(random() * 3)]!;
        if (cents > 0) legs.push({ pays, side, cost: withFee(cents / 100), contracts });
        cents += 1 + Math.floor(random() * 3);
      }
    }
  });
  const wealth = probabilities.map(() => base * (hasHeld ? 0.3 + 3 * random() : 1));
  return { probabilities, wealth, legs, limits: limitsFor(legs, Math.min(...wealth), outcomes, hasCaps) };
}

function limitsFor(legs: readonly Leg[], cash: number, outcomes: number, hasCaps = false): Limit[] {
  const costs = legs.map(({ cost }) => cost);
  const ofMarket = (market: number) => legs.map(({ pays, cost }) => (pays.from === market ? cost : 0));
  return [
    { room: cash, weights: costs },
    ...(hasCaps ? [{ room: 0.4 * cash, weights: costs }] : []),
    ...(hasCaps
      ? Array.from({ length: outcomes }, (_, market) => ({ room: 0.2 * cash, weights: ofMarket(market) }))
      : []),
  ];
}
