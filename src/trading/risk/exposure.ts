import type { MarketEvent } from '../markets/event.js';
import type { Side } from '../markets/book.js';
import { DOLLAR, type Micros } from '../money.js';
import { isWholeLadder } from '../settlement/brackets.js';
import { valueOf } from '../contracts.js';

/** Contracts of one bracket and what was paid for them; both negative for what is sold. */
export interface Leg {
  ticker: string;
  side: Side;
  contracts: number;
  cost: Micros;
}

/** The market that pays YES; null: none of those that are known. */
export type Outcome = string | null;

/**
 * How an event can end: exactly one of its brackets wins. If some bracket is not known, it may be that one, so `null` is
 * among the outcomes unless the markets cover every degree.
 */
export function outcomesOf(event: MarketEvent | undefined, legs: readonly Leg[]): Outcome[] {
  const markets = event?.markets ?? [];
  const known = new Set(markets.map(({ ticker }) => ticker));
  const isWhole = isWholeLadder(markets.map(({ bracket }) => bracket));
  if (isWhole && legs.every(({ ticker }) => known.has(ticker))) return [...known];
  return [...known, ...legs.map(({ ticker }) => ticker).filter((ticker) => !known.has(ticker)), null];
}

/**
 * What an event loses in its worst outcome, 0 if it cannot lose. `possible` are legs that may come or not (orders that are
 * out): of each the worse of both counts, outcome by outcome.
 */
export function worstCaseLoss(
  outcomes: readonly Outcome[],
  certain: readonly Leg[],
  possible: readonly Leg[],
): Micros {
  let worst: Micros = 0n;
  for (const outcome of outcomes) {
    let profit: Micros = 0n;
    for (const leg of certain) profit += profitOf(leg, outcome);
    for (const leg of possible) {
      const ifFilled = profitOf(leg, outcome);
      if (ifFilled < 0n) profit += ifFilled;
    }
    if (-profit > worst) worst = -profit;
  }
  return worst;
}

function profitOf({ ticker, side, contracts, cost }: Leg, outcome: Outcome): Micros {
  const pays = (ticker === outcome) === (side === 'yes');
  return (pays ? valueOf(DOLLAR, contracts) : 0n) - cost;
}
