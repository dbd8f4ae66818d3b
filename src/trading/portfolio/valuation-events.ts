import type { MarketEvent } from '../market/event.js';
import { endsOf } from '../market/event-ends.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Holding } from '../ledger/positions.js';
import { valueOf } from '../market/contracts.js';

/** A position among the others of its event. */
export type HeldBracket = Pick<Holding, 'side' | 'contracts' | 'cost'> & { ticker: string };

/** One way for an event to end, and what the positions then make. */
export interface Outcome {
  /** The bracket that wins, or the highest threshold that is passed; null for every one that is not listed by name. */
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
 * What the positions of one event pay in each way that it can end, netted as `endsOf` says: YES on one bracket of a day covers NO on
 * another. A void market, which gives the cost back, is not among them. Where it is not known how the markets go together, only the
 * worst and the best way are listed.
 *
 * @param event its brackets from cold to warm, if the venue lists it
 */
export function eventOutcomes(
  eventTicker: string,
  held: readonly HeldBracket[],
  event: Pick<MarketEvent, 'kind' | 'markets'> | undefined,
): EventOutcomes {
  const tickers = held.map(({ ticker }) => ticker);
  const { outcomes: ends, free } = endsOf(eventTicker, event, tickers);
  const cost = held.reduce((sum, position) => sum + position.cost, 0n);
  const bound = held.filter(({ ticker }) => !free.has(ticker));
  const loose = held.filter(({ ticker }) => free.has(ticker));
  // Of each either all of its contracts are paid or none.
  const most = loose.reduce((sum, position) => sum + valueOf(DOLLAR, position.contracts), 0n);
  const toOutcome = (ticker: string | null, payout: Micros): Outcome => ({
    ticker,
    payout,
    result: payout - cost,
  });
  const certain = ends.map(({ ticker, paying }) => toOutcome(ticker, payoutOf(bound, paying)));
  const payouts = ends.length === 0 ? [0n] : certain.map(({ payout }) => payout);
  const worst = toOutcome(null, payouts.reduce(lower));
  const best = toOutcome(null, payouts.reduce(higher) + most);
  return {
    eventTicker,
    cost,
    outcomes: loose.length === 0 ? certain : [worst, best],
    worstCase: worst.result,
    bestCase: best.result,
  };
}

const payoutOf = (held: readonly HeldBracket[], paying: ReadonlySet<string>): Micros =>
  held.reduce((sum, { ticker, side, contracts }) => {
    const pays = (side === 'yes') === paying.has(ticker);
    return pays ? sum + valueOf(DOLLAR, contracts) : sum;
  }, 0n);

const lower = (a: Micros, b: Micros): Micros => (a < b ? a : b);
const higher = (a: Micros, b: Micros): Micros => (a > b ? a : b);
