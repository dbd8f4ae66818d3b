import { createRecentMap } from '../../core/collections.js';
import { MINUTE_MS } from '../../core/time.js';
import type { FlushPair } from './outcome.js';

type Pair = Pick<FlushPair, 'hashedSecret' | 'slug' | 'metric'>;

const MAX_PAIRS = 10_000;
const KEPT_MS = MINUTE_MS;

export type ExtendedPairs = ReturnType<typeof createExtendedPairs>;

/**
 * Remembers for a minute which pairs the plain text refused, because only the extended text records them. This only selects
 * the first text of a flush. Each text checks its pairs itself, so an outdated entry costs time and changes no outcome.
 */
export function createExtendedPairs() {
  const until = createRecentMap<string, number>(MAX_PAIRS);
  return {
    has: (pair: Pair, nowMs: number): boolean => nowMs < (until.get(pairKey(pair)) ?? 0),
    add: (pair: Pair, nowMs: number): void => until.set(pairKey(pair), nowMs + KEPT_MS),
  };
}

const pairKey = ({ hashedSecret, slug, metric }: Pair): string => `${hashedSecret}\n${slug}\n${metric}`;
