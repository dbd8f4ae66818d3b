import { compareDecimals, subtractDecimals } from '../../core/decimal.js';

const NEAR = 0.8;

interface Use {
  unitCap: string | null;
  usedThisMonth: string;
}

export function toCap({ unitCap, usedThisMonth: used }: Use) {
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

/** At 80% to 100% of the cap, and above it. */
export const capsOf = <T extends { cap: ReturnType<typeof toCap> }>(products: readonly T[]) => ({
  nearCap: products.filter(({ cap }) => cap?.isNear),
  overCap: products.filter(({ cap }) => cap?.isOver),
});
