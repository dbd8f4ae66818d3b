/** Pseudo-random numbers, reproducible from a seed. */
export interface Random {
  /** In [0, 1). */
  next(): number;
  /** An integer in [from, to]. */
  between(from: number, to: number): number;
  chance(probability: number): boolean;
  pick<T>(values: readonly T[]): T;
  shuffle<T>(values: T[]): T[];
}

/** Returns 32 well-mixed bits of an integer (the MurmurHash3 finalizer). */
export function mix(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

export function createRandom(seed: number): Random {
  let state = mix(seed);
  const next = () => mix((state = (state + 0x9e3779b9) | 0)) / 2 ** 32;
  const between = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    chance: (probability) => next() < probability,
    pick: (values) => values[between(0, values.length - 1)]!,
    shuffle(values) {
      for (let i = values.length - 1; i > 0; i--) {
        const j = between(0, i);
        [values[i], values[j]] = [values[j]!, values[i]!];
      }
      return values;
    },
  };
}
