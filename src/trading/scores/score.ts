import type { OrderBook } from '../market/book.js';
import { asksOf, isCrossed } from '../market/book.js';
import { DOLLAR } from '../market/money.js';
import { outcomeProbabilities, yesProbabilities, type Outcomes } from '../market/outcomes.js';

/**
 * What a probability counts as at the least. A forecast that has ruled out what then happens is punished hard, but once
 * is not for ever.
 */
export const LEAST_PROBABILITY = 1e-4;
/** Dollars. Between a bid and an ask that are further apart there is no price to speak of. */
const WIDEST_SPREAD = DOLLAR / 5n;

/** −ln of what was given to the outcome: 0 is perfect, smaller is better. I. J. Good, Rational Decisions, JRSS B 14 (1952). */
export const logScore = (probabilities: readonly number[], outcome: number): number =>
  Math.log(1 / Math.max(LEAST_PROBABILITY, probabilities[outcome]!));

/**
 * The ranked probability score of ordered outcomes, divided by one less than their number: 0 is perfect, 1 the worst.
 * Being off by one bracket costs less than by two. E. S. Epstein, A Scoring System for Probability Forecasts of Ranked
 * Categories, J. Appl. Meteor. 8 (1969).
 */
export function rankedProbabilityScore(probabilities: readonly number[], outcome: number): number {
  let forecast = 0;
  let sum = 0;
  for (const [i, probability] of probabilities.slice(0, -1).entries()) {
    forecast += probability;
    sum += (forecast - (i >= outcome ? 1 : 0)) ** 2;
  }
  return sum / (probabilities.length - 1);
}

/**
 * What the order books of an event say each market's YES is worth: the middle between bid and ask, without fees, made to sum to
 * one over the outcomes. Between thresholds an outcome is worth what the lower one is worth more than the higher, and nothing where
 * it is worth less. Where nobody bids the bid is nothing, where nobody asks the ask is a dollar. Null if a book is crossed or has no price.
 * @param books by market
 */
export function impliedProbabilities(
  books: readonly (OrderBook | undefined)[],
  outcomes: Outcomes,
): number[] | null {
  const mids = books.map(midOf).filter((mid) => mid !== null);
  if (mids.length < books.length) return null;
  const worths = outcomeProbabilities(outcomes, mids);
  const total = worths.reduce((sum, worth) => sum + worth, 0);
  if (!(total > 0)) return null;
  return yesProbabilities(
    outcomes,
    worths.map((worth) => worth / total),
  );
}

/** In dollars; null where there is none. */
function midOf(book: OrderBook | undefined): number | null {
  if (!book || isCrossed(book)) return null;
  const bid = book.yes[0]?.price ?? 0n;
  const ask = asksOf(book, 'yes')[0]?.price ?? DOLLAR;
  return ask - bid > WIDEST_SPREAD ? null : Number(bid + ask) / 2 / Number(DOLLAR);
}
