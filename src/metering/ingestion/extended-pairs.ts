import { createRecentMap } from '../../core/collections.js';
import { MINUTE_MS } from '../../core/time.js';
import type { FlushPair } from './outcome.js';

type Pair = Pick<FlushPair, 'hashedSecret' | 'slug' | 'metric'>;

const MAX_PAIRS = 10_000;
const KEPT_MS = MINUTE_MS;

/** The texts of ingestion, each of which also records what the ones before it record. */
const texts = ['plain', 'extended', 'priced'] as const;
export type TextKind = (typeof texts)[number];

export type ExtendedPairs = ReturnType<typeof createExtendedPairs>;

/**
 * Remembers for a minute which pairs a text refused, and which text records them. This only selects the first text of a flush.
 * Each text checks its pairs itself, so an outdated entry costs time and changes no outcome.
 */
export function createExtendedPairs() {
  const known = createRecentMap<string, { text: TextKind; untilMs: number }>(MAX_PAIRS);
  return {
    /** The first text that is known to record all pairs. */
    textFor: (pairs: readonly Pair[], nowMs: number): TextKind =>
      furthest(
        pairs.map((pair) => {
          const entry = known.get(pairKey(pair));
          return entry !== undefined && nowMs < entry.untilMs ? entry.text : 'plain';
        }),
      ),
    add: (pair: Pair, text: TextKind, nowMs: number): void =>
      known.set(pairKey(pair), { text, untilMs: nowMs + KEPT_MS }),
  };
}

export const furthest = (kinds: readonly TextKind[]): TextKind =>
  texts.findLast((text) => kinds.includes(text)) ?? 'plain';

const pairKey = ({ hashedSecret, slug, metric }: Pair): string => `${hashedSecret}\n${slug}\n${metric}`;
