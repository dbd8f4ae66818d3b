import { createRecentMap } from '../../core/collections.js';
import { MINUTE_MS } from '../../core/time.js';
import type { FlushPair } from './plan.js';

type Pair = Pick<FlushPair, 'hashedSecret' | 'slug' | 'metric'>;

const MAX_PAIRS = 10_000;
const KEPT_MS = MINUTE_MS;

/**
 * Variants of the ingestion statement: `extended` also handles limits and thresholds, `priced` credits, and `full`
 * both.
 */
export type TextKind = 'plain' | 'extended' | 'priced' | 'full';

/** Returns the variant that records everything that the given variants record. */
export const joinKinds = (kinds: readonly TextKind[]): TextKind =>
  kinds.includes('full') || (kinds.includes('extended') && kinds.includes('priced'))
    ? 'full'
    : (kinds.find((kind) => kind !== 'plain') ?? 'plain');

export type ExtendedPairs = ReturnType<typeof createExtendedPairs>;

/**
 * Remembers for a minute which pairs a variant refused, and which variant records them. This only selects the first
 * variant that a flush tries. Each statement checks its pairs itself, so an outdated entry costs time but never changes
 * the outcome.
 */
export function createExtendedPairs() {
  const known = createRecentMap<string, { text: TextKind; untilMs: number }>(MAX_PAIRS);
  const textOf = (pair: Pair, nowMs: number): TextKind => {
    const entry = known.get(pairKey(pair));
    return entry !== undefined && nowMs < entry.untilMs ? entry.text : 'plain';
  };
  return {
    /** The variant expected to record all pairs. */
    textFor: (pairs: readonly Pair[], nowMs: number): TextKind =>
      // Pairs that differ only by dimensions are adjacent.
      joinKinds(
        pairs.filter((pair, i) => !isSamePair(pair, pairs[i - 1])).map((pair) => textOf(pair, nowMs)),
      ),
    add: (pair: Pair, text: TextKind, nowMs: number): void =>
      known.set(pairKey(pair), {
        text: joinKinds([textOf(pair, nowMs), text]),
        untilMs: nowMs + KEPT_MS,
      }),
  };
}

const isSamePair = (a: Pair, b: Pair | undefined): boolean =>
  a.slug === b?.slug && a.metric === b.metric && a.hashedSecret === b.hashedSecret;

const pairKey = ({ hashedSecret, slug, metric }: Pair): string => `${hashedSecret}\n${slug}\n${metric}`;
