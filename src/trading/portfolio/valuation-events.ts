import type { MarketEvent } from '../markets/event.js';
import { DOLLAR, type Micros } from '../money.js';
import { isWholeLadder } from '../settlement/brackets.js';
import type { Holding } from './positions.js';
import { valueOf } from '../contracts.js';

/** A position among the others of its event. */
export type HeldBracket = Pick<Holding, 'side' | 'contracts' | 'cost'> & { ticker: string };

/** One way for a day to end, and what the positions then make. */
export interface Outcome {
  /** The bracket that wins; null for every one of which nothing is held and that is not listed by name. */
  ticker: string | null;
  payout: Micros;
  /** Payout less cost. Fees are apart: they are paid already. */
  result: Micros;
}

export interface EventOutcomes {
  eventTicker: string;
  /** What the positions cost together. */
  cost: Micros;
  outcomes: Outcome[];
  worstCase: Micros;
  bestCase: Micros;
}

/**
 * What the positions of one event pay in each way that it can end. Exactly one bracket wins, so they are netted: YES on
 * one bracket covers NO on another. A void market, which gives the cost back, is not among them.
 *
 * @param event its brackets from cold to warm, if the venue lists it
 */
export function eventOutcomes(
  eventTicker: string,
  held: readonly HeldBracket[],
  event: Pick<MarketEvent, 'markets'> | undefined,
): EventOutcomes {
  const listed = event?.markets ?? [];
  const named = [
    ...new Set([...listed.map(({ ticker }) => ticker), ...held.map(({ ticker }) => ticker)]),
  ] as (string | null)[];
  // Only a ladder that is known to be whole rules out that yet another bracket wins.
  const isWhole = isWholeLadder(listed.map(({ bracket }) => bracket)) && named.length === listed.length;
  const cost = held.reduce((sum, position) => sum + position.cost, 0n);
  const outcomes = (isWhole ? named : [...named, null]).map((winner): Outcome => {
    const payout = held.reduce((sum, { ticker, side, contracts }) => {
      const pays = (side === 'yes') === (ticker === winner);
      return pays ? sum + valueOf(DOLLAR, contracts) : sum;
    }, 0n);
    return { ticker: winner, payout, result: payout - cost };
  });
  const results = outcomes.map(({ result }) => result);
  return {
    eventTicker,
    cost,
    outcomes,
    worstCase: results.reduce((worst, next) => (next < worst ? next : worst)),
    bestCase: results.reduce((best, next) => (next > best ? next : best)),
  };
}
