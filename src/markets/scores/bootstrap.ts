import { createRecall } from '../../core/collections.js';

export type Interval = ReturnType<typeof blockBootstrap>;

interface BootstrapOptions {
  /** Values drawn together, which preserves their dependence. */
  blockLength: number;
  resamples: number;
  /** With equal tails. */
  confidence: number;
  seed: number;
}

/**
 * Circular block bootstrap (D. N. Politis & J. P. Romano, in Exploring the Limits of Bootstrap, 1992), studentised by
 * the spread of the blocks (F. Götze & H. R. Künsch, Ann. Statist. 24, 1996): plain percentiles are too narrow for few
 * blocks and skewed values.
 * @param values serially dependent daily values in the order of days, at least two blocks
 */
export function blockBootstrap(values: readonly number[], options: BootstrapOptions) {
  const { blockLength, resamples, confidence, seed } = options;
  const mean = averageOf(values);
  const blocks = blockMeans(values, blockLength).map((block) => block - mean);
  const count = Math.floor(values.length / blockLength);
  // All blocks share the series' mean, which hides a fraction blockLength / values.length of their spread.
  const hidden = values.length / (values.length - blockLength);
  const error = Math.sqrt((hidden * averageOf(blocks.map((block) => block ** 2))) / count);
  const ratios = drawRatios(Float64Array.from(blocks), count, resamples, seed);
  const out = (1 - confidence) / 2;
  return {
    mean,
    low: mean - ratios[rankOf(1 - out, resamples)]! * error,
    high: mean - ratios[rankOf(out, resamples)]! * error,
  };
}

const averageOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Blocks wrap around, so that every value is in equally many. */
function blockMeans(values: readonly number[], blockLength: number): number[] {
  return values.map((_, start) => {
    let sum = 0;
    for (let i = 0; i < blockLength; i++) sum += values[(start + i) % values.length]!;
    return sum / blockLength;
  });
}

/** In units of their own standard errors, ascending. */
function drawRatios(blocks: Float64Array, count: number, resamples: number, seed: number): Float64Array {
  const drawn = recallDraws(`${blocks.length} ${count * resamples} ${seed}`, () =>
    drawIndices(blocks.length, count * resamples, seed),
  );
  const ratios = new Float64Array(resamples);
  for (let draw = 0; draw < resamples; draw++) {
    let sum = 0;
    let squares = 0;
    for (let i = draw * count; i < (draw + 1) * count; i++) {
      const block = blocks[drawn[i]!]!;
      sum += block;
      squares += block * block;
    }
    const variance = (squares - (sum * sum) / count) / (count - 1);
    // A resample that repeats a single block has no spread from which to estimate its error.
    ratios[draw] = variance > 0 ? sum / Math.sqrt(count * variance) : 0;
  }
  return ratios.sort();
}

/** All gates have about the same number of days, so they share draws. */
const recallDraws = createRecall<Uint32Array>(32);

function drawIndices(below: number, count: number, seed: number): Uint32Array {
  const random = randomNumbers(seed);
  return Uint32Array.from({ length: count }, () => Math.floor(random() * below));
}

const rankOf = (share: number, resamples: number) => Math.min(resamples - 1, Math.floor(share * resamples));

/** Mulberry32: fast, and uniform enough for thousands of draws. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
