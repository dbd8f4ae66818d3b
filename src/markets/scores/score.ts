import type { BracketCost, ForecastRecord } from '../learning/table.js';
import { asksOf, isCrossed, quoteOrder, type OrderBook, type Side } from '../market/book.js';
import {
  bracketOf,
  outcomeAt,
  outcomeProbabilities,
  outcomesOf,
  yesProbabilities,
  type Bracket,
  type Outcomes,
} from '../market/brackets.js';
import { probabilityOf, probabilityWithin, type TemperatureDistribution } from '../market/distribution.js';
import type { FeeRule } from '../market/fees.js';
import type { TemperatureKind } from '../market/market.js';
import { DOLLAR } from '../market/money.js';
import { atMostOfMarket, type AtMost } from './implied.js';

/** Smaller probabilities do not visibly change the score. */
const NEGLIGIBLE = 1e-8;
/** °F. The sum ends for any distribution. */
const MAX_DISTANCE = 500;
/** °F. Hundredths would be ten times the work for the same score. */
const WIDTH_OF_HUNDREDTHS = 0.1;

/**
 * In °F: ∫ (F(x) − 1{outcome ≤ x})² dx, summed over whole degrees or, for hundredths, tenths. J. E. Matheson & R. L.
 * Winkler, Management Science 22 (1976); T. Gneiting & A. E. Raftery, JASA 102 (2007).
 */
export function degreeCrps(atMost: AtMost, outcome: number, step: 1 | 0.01 = 1): number {
  const width = step === 1 ? 1 : WIDTH_OF_HUNDREDTHS;
  // F is constant between reported temperatures.
  const middle = (width - step) / 2;
  let sum = 0;
  for (let i = 1; i * width < MAX_DISTANCE; i++) {
    const below = atMost(outcome - i * width + middle);
    if (below < NEGLIGIBLE) break;
    sum += below ** 2;
  }
  for (let i = 0; i * width < MAX_DISTANCE; i++) {
    const above = 1 - atMost(outcome + i * width + middle);
    if (above < NEGLIGIBLE) break;
    sum += above ** 2;
  }
  return sum * width;
}

/** Rounded and bounded by the day's observations so far. */
export const atMostOf =
  (distribution: TemperatureDistribution, step: 1 | 0.01 = 1): AtMost =>
  (degrees) =>
    probabilityWithin(distribution, { lowest: null, highest: degrees, step });

/** Each rounded member has an equal share; observations are ignored. */
export function atMostOfMembers(membersF: readonly number[], step: 1 | 0.01 = 1): AtMost {
  const rounded = step === 1 ? membersF.map(Math.round) : membersF;
  return (degrees) => rounded.filter((member) => member <= degrees).length / rounded.length;
}

/** Null if an input is missing. */
export type Scores = ReturnType<typeof scoreRecord>;

export type ScorableRecord = Pick<
  ForecastRecord,
  | 'kind'
  | 'brackets'
  | 'mean'
  | 'deviation'
  | 'atLeast'
  | 'atMost'
  | 'members'
  | 'climateMean'
  | 'climateDeviation'
> &
  Partial<Pick<ForecastRecord, 'stays' | 'shape' | 'models'>>;

/** Over the outcomes that the market trades, and over degrees. */
export const scoreRecord = (record: ScorableRecord, temperatureF: number) => ({
  ...scoreBrackets(record, temperatureF),
  ...scoreDegrees(record, temperatureF),
  modelScores: scoreModels(record, temperatureF),
});

/** Scores each by the same rules as the mixture. */
function scoreModels({ kind, brackets, models }: ScorableRecord, temperatureF: number) {
  if (!models) return null;
  const step = stepOf(kind);
  return Object.fromEntries(
    models.map(({ model, mean, deviation, shape = 'normal' }) => {
      const distribution = { mean, deviation, shape, atLeast: null };
      const ownBrackets = brackets.map((each) => ({
        ...each,
        model: probabilityOf(distribution, recordedBracket(each, kind)),
      }));
      const { outcome, model: given } = outcomeOf({ kind, brackets: ownBrackets }, temperatureF);
      const crps = degreeCrps(atMostOf(distribution, step), temperatureF, step);
      return [model, { logScore: logScore(given, outcome), crps }];
    }),
  );
}

/** Gates are judged by these scores. */
export function scoreBrackets(record: Pick<ScorableRecord, 'kind' | 'brackets'>, temperatureF: number) {
  const { outcome: winner, model, market } = outcomeOf(record, temperatureF);
  return {
    modelLogScore: logScore(model, winner),
    modelRps: rankedProbabilityScore(model, winner),
    marketLogScore: market && logScore(market, winner),
    marketRps: market && rankedProbabilityScore(market, winner),
    ...scoreAgainstCosts(record, model, winner),
  };
}

/**
 * In nats: the log growth of money spread over all outcomes in the model's proportions, each bought at its cost (J. L.
 * Kelly, 1956). `worstAdvantage`, over all outcomes, is known before the day. Null if an outcome had no price.
 */
function scoreAgainstCosts(
  { kind, brackets }: Pick<ScorableRecord, 'kind' | 'brackets'>,
  model: readonly number[],
  winner: number,
): Pick<ForecastRecord, 'advantage' | 'worstAdvantage'> {
  const costs = brackets.map(({ cost }) => cost).filter((cost) => cost != null);
  if (costs.length < brackets.length) return { advantage: null, worstAdvantage: null };
  const outcomes = outcomesOf(brackets.map((bracket) => recordedBracket(bracket, kind)));
  const advantages = outcomeCosts(outcomes, costs).map((cost, i) =>
    Math.log(Math.max(MIN_PROBABILITY, model[i]!) / cost),
  );
  return { advantage: advantages[winner]!, worstAdvantage: Math.min(...advantages) };
}

/** Dollars. */
const MIN_COST = 0.01;

/**
 * YES of the bracket or, between thresholds, YES of the lower plus NO of the higher, minus the dollar that the two
 * always pay.
 */
function outcomeCosts({ ranges, pays }: Outcomes, costs: readonly BracketCost[]): number[] {
  if (ranges.length === pays.length) return costs.map(({ yes }) => yes);
  const from = (outcome: number) => costs[pays.findIndex((payout) => payout.from === outcome)];
  return ranges.map((_, outcome) => {
    const cost = (from(outcome)?.yes ?? 1) + (from(outcome + 1)?.no ?? 1) - 1;
    return Math.min(1, Math.max(MIN_COST, cost));
  });
}

/** Null if the market has no price. */
export function outcomeOf(
  { kind, brackets }: Pick<ScorableRecord, 'kind' | 'brackets'>,
  temperatureF: number,
) {
  const all = brackets.map((bracket) => recordedBracket(bracket, kind));
  const outcomes = outcomesOf(all);
  const prices = pricesOf(brackets);
  const chances = brackets.map(({ model }) => model);
  return {
    outcome: outcomeAt(all, temperatureF),
    model: outcomeProbabilities(outcomes, chances),
    market: prices && outcomeProbabilities(outcomes, prices),
  };
}

/** The same sum for all four. Null for records from before members were recorded. */
function scoreDegrees(record: ScorableRecord, temperatureF: number) {
  const { kind, members, mean, deviation, atLeast, atMost, stays = null, shape } = record;
  const { climateMean, climateDeviation } = record;
  if (members === null) return { modelCrps: null, rawCrps: null, climateCrps: null, marketCrps: null };
  const step = stepOf(kind);
  const crps = (atMost: AtMost) => degreeCrps(atMost, temperatureF, step);
  const model = atMostOf({ mean, deviation, atLeast, atMost, stays, shape: shape ?? 'normal' }, step);
  const market = impliedOf(record);
  const climate =
    climateMean === null || climateDeviation === null
      ? null
      : atMostOf({ mean: climateMean, deviation: climateDeviation, atLeast: null }, step);
  return {
    modelCrps: crps(model),
    rawCrps: crps(atMostOfMembers(members, step)),
    climateCrps: climate && crps(climate),
    marketCrps: market && crps(market),
  };
}

function impliedOf({ kind, brackets, atLeast, atMost }: ScorableRecord) {
  const prices = pricesOf(brackets);
  if (!prices) return null;
  const outcomes = outcomesOf(brackets.map((bracket) => recordedBracket(bracket, kind)));
  const probabilities = outcomeProbabilities(outcomes, prices);
  const shares = outcomes.ranges.map((range, i) => ({ ...range, probability: probabilities[i]! }));
  return atMostOfMarket(shares, { atLeast, atMost, step: outcomes.step });
}

function pricesOf(brackets: ForecastRecord['brackets']): number[] | null {
  const prices = brackets.map(({ market }) => market);
  return prices.every((price) => price !== null) ? prices : null;
}

/** °F. */
const stepOf = (kind: TemperatureKind): 1 | 0.01 => (kind === 'hourly' ? 0.01 : 1);

export const recordedBracket = (
  { floor, cap }: Pick<ScorableRecord['brackets'][number], 'floor' | 'cap'>,
  kind: TemperatureKind,
): Bracket => bracketOf(floor, cap, stepOf(kind));

/** A forecast that ruled out the outcome is penalised heavily, but not infinitely. */
const MIN_PROBABILITY = 1e-4;
/** Beyond it, the mid price is not meaningful. */
const MAX_SPREAD = DOLLAR / 5n;

const COSTED_CONTRACTS = 10;

/** Dollars per contract, fee included; a dollar if too few are for sale. Null if unknown or crossed. */
export function costsOf(book: OrderBook | undefined, feeRule: FeeRule | undefined): BracketCost | null {
  if (!book || !feeRule || isCrossed(book)) return null;
  const costOf = (side: Side): number => {
    const order = { action: 'buy', contracts: COSTED_CONTRACTS, limitPrice: DOLLAR } as const;
    const { breakEven } = quoteOrder(book, feeRule, { ...order, side, timeInForce: 'fill_or_kill' });
    return breakEven === null ? 1 : Math.min(1, breakEven);
  };
  return { yes: costOf('yes'), no: costOf('no') };
}

/** −ln of the outcome's probability. I. J. Good, Rational Decisions, JRSS B 14 (1952). */
export const logScore = (probabilities: readonly number[], outcome: number): number =>
  Math.log(1 / Math.max(MIN_PROBABILITY, probabilities[outcome]!));

/**
 * Divided by the number of outcomes minus one: 0 is perfect, 1 the worst. Off by one bracket costs less than off by
 * two. E. S. Epstein, J. Appl. Meteor. 8 (1969).
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
 * Mid prices without fees, normalised over the outcomes. An outcome between two thresholds is worth the difference of
 * their prices, at least zero. A missing bid counts as zero, a missing ask as a dollar. Null if a book is crossed or
 * empty.
 */
export function impliedProbabilities(books: readonly (OrderBook | undefined)[], outcomes: Outcomes) {
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

/** Dollars; null without a usable book. */
function midOf(book: OrderBook | undefined): number | null {
  if (!book || isCrossed(book)) return null;
  const bid = book.yes[0]?.price ?? 0n;
  const ask = asksOf(book, 'yes')[0]?.price ?? DOLLAR;
  return ask - bid > MAX_SPREAD ? null : Number(bid + ask) / 2 / Number(DOLLAR);
}
