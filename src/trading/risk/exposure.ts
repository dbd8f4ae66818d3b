import type { Side } from '../market/book.js';
import type { EventEnds } from '../market/event-ends.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { valueOf } from '../market/contracts.js';

/** Contracts of one market and what was paid for them; both negative for what is sold. */
export interface Leg {
  ticker: string;
  side: Side;
  contracts: number;
  cost: Micros;
}

/**
 * What an event loses in its worst outcome, 0 if it cannot lose. `possible` are legs that may come or not (orders that are
 * out): of each the worse of both counts, outcome by outcome. Markets that are not known to exclude or include others are not
 * netted with them: each counts by its own worst.
 */
export function worstCaseLoss(
  { outcomes, free }: EventEnds,
  certain: readonly Leg[],
  possible: readonly Leg[],
): Micros {
  const lossIf = (paying: ReadonlySet<string>, isCounted: (ticker: string) => boolean): Micros => {
    let loss: Micros = 0n;
    for (const leg of certain) if (isCounted(leg.ticker)) loss -= profitOf(leg, paying);
    for (const leg of possible) {
      const ifFilled = isCounted(leg.ticker) ? profitOf(leg, paying) : 0n;
      if (ifFilled < 0n) loss -= ifFilled;
    }
    return loss;
  };
  const isBound = (ticker: string) => !free.has(ticker);
  let worst = highest(outcomes.map(({ paying }) => lossIf(paying, isBound)));
  for (const ticker of free) {
    const isOwn = (other: string) => other === ticker;
    worst += highest([lossIf(free, isOwn), lossIf(new Set(), isOwn)]);
  }
  return worst > 0n ? worst : 0n;
}

const highest = (amounts: readonly Micros[]): Micros =>
  amounts.length === 0 ? 0n : amounts.reduce((most, next) => (next > most ? next : most));

function profitOf({ ticker, side, contracts, cost }: Leg, paying: ReadonlySet<string>): Micros {
  const pays = paying.has(ticker) === (side === 'yes');
  return (pays ? valueOf(DOLLAR, contracts) : 0n) - cost;
}
