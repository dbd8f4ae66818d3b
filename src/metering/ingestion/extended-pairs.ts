import { createRecentMap } from '../../core/collections.js';
import { MINUTE_MS } from '../../core/time.js';
import type { FlushPair } from './plan.js';

type Pair = Pick<FlushPair, 'hashedSecret' | 'slug' | 'metric'>;

const MAX_PAIRS = 10_000;
const KEPT_MS = MINUTE_MS;

/** `extended` also handles limits and thresholds, `priced` credits, and `full` both. */
export type TextKind = 'plain' | 'extended' | 'priced' | 'full';

/** Records everything that the given variants record. */
export const joinKinds = (kinds: readonly TextKind[]): TextKind =>
  kinds.includes('full') || (kinds.includes('extended') && kinds.includes('priced'))
    ? 'full'
    : (kinds.find((kind) => kind !== 'plain') ?? 'plain');

export type ExtendedPairs = ReturnType<typeof createExtendedPairs>;

/**
 * Only selects the variant that a flush tries first. Each statement checks its pairs itself, so an outdated entry costs
 * time but never changes the outcome.
 */
export function createExtendedPairs() {
  const known = createRecentMap<string, { text: TextKind; untilMs: number }>(MAX_PAIRS);
  const textOf = (pair: Pair, nowMs: number): TextKind => {
    const entry = known.get(pairKey(pair));
    return entry !== undefined && nowMs < entry.untilMs ? entry.text : 'plain';
  };
  return {
    /** Expected to record all pairs. */
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
