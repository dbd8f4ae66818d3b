import { compareDecimals, subtractDecimals } from '../../core/decimal.js';

export const NEAR = 0.8;

export function toCap({ unitCap, usedThisMonth: used }: { unitCap: string | null; usedThisMonth: string }) {
  if (unitCap === null) return undefined;
  const isUsed = compareDecimals(used, '0') > 0;
  const share = Number(unitCap) > 0 ? Number(used) / Number(unitCap) : isUsed ? Infinity : 0;
  const isOver = compareDecimals(used, unitCap) > 0;
  return {
    unitCap,
    used,
    remaining: subtractDecimals(unitCap, used),
    above: subtractDecimals(used, unitCap),
    /** A double, for drawing. */
    share,
    isNear: share >= NEAR && !isOver,
    isOver,
  };
}

interface Capped {
  cap: { isNear: boolean; isOver: boolean; reachedAt?: Date | undefined } | undefined;
}

/** At 80% to 100% of the cap or going to reach it, and above it. */
export const capsOf = <T extends Capped>(products: readonly T[]) => ({
  nearCap: products.filter(({ cap }) => cap?.isNear || cap?.reachedAt),
  overCap: products.filter(({ cap }) => cap?.isOver),
});
