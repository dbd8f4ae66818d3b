import { areThresholds, bracketPays, bracketRange, isWholeLadder, type Bracket } from './brackets.js';

/** Reported temperatures, both ends included; null where there is none. */
export interface Range {
  lowest: number | null;
  highest: number | null;
}

/** The outcomes in which a market's YES pays: from one to another, both included. */
export interface Payout {
  from: number;
  to: number;
}

/**
 * The ways for an event to end that its markets tell apart, from cold to warm; one of them comes. Of a ladder of brackets they are
 * the brackets, of n thresholds the n + 1 intervals between them, the first of which pays nobody.
 */
export interface Outcomes {
  ranges: readonly Range[];
  /** By market, in the order that was given. */
  pays: readonly Payout[];
  /** °F: what temperatures are rounded to. */
  step: number;
}

/** True if it is certain how the markets of an event go together: one of them wins, or each by itself above its threshold. */
export const areOutcomesKnown = (brackets: readonly Bracket[]): boolean =>
  isWholeLadder(brackets) || areThresholds(brackets);

/** @param brackets of one event; `areOutcomesKnown` */
export function outcomesOf(brackets: readonly Bracket[]): Outcomes {
  const step = brackets[0]?.step ?? 1;
  const ranges = brackets.map(bracketRange);
  if (!areThresholds(brackets)) return { ranges, pays: brackets.map((_, i) => ({ from: i, to: i })), step };
  const lowest = ranges.map((range) => range.lowest!);
  const ends = lowest.toSorted((a, b) => a - b);
  const below = (end: number) => Math.round((end - step) * 100) / 100;
  return {
    ranges: [
      { lowest: null, highest: below(ends[0]!) },
      ...ends.map((end, i) => ({ lowest: end, highest: i + 1 < ends.length ? below(ends[i + 1]!) : null })),
    ],
    pays: lowest.map((end) => ({ from: ends.indexOf(end) + 1, to: ends.length })),
    step,
  };
}

export const isPaid = ({ from, to }: Payout, outcome: number): boolean => outcome >= from && outcome <= to;

/** The probability of each outcome, by those of the markets' YES. */
export function outcomeProbabilities({ ranges, pays }: Outcomes, ofYes: readonly number[]): number[] {
  // Each threshold's is what it and all above it have together.
  const isNested = ranges.length > pays.length;
  if (!isNested) return [...ofYes];
  const above = Array.from({ length: ranges.length + 1 }, () => 0);
  above[0] = 1;
  pays.forEach(({ from }, i) => (above[from] = ofYes[i]!));
  return ranges.map((_, outcome) => Math.max(0, above[outcome]! - above[outcome + 1]!));
}

/** The probability of each market's YES, by those of the outcomes. */
export const yesProbabilities = ({ pays }: Outcomes, ofOutcomes: readonly number[]): number[] =>
  pays.map(({ from, to }) => {
    let sum = 0;
    for (let outcome = from; outcome <= to; outcome++) sum += ofOutcomes[outcome]!;
    return sum;
  });

/** Which of the outcomes a reported temperature is; −1 for none. */
export function outcomeAt(brackets: readonly Bracket[], temperatureF: number): number {
  if (areThresholds(brackets)) return brackets.filter((bracket) => bracketPays(bracket, temperatureF)).length;
  return brackets.findIndex((bracket) => bracketPays(bracket, temperatureF));
}
