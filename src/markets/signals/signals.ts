import {
  formatCount,
  formatDecimal,
  formatDegrees,
  formatExactProbability,
  formatMoney,
  formatPrice,
  formatTime,
} from '../../core/pages/format.js';
import { allAtOnce, type Steps } from '../../core/steps.js';
import type { RunningDay } from '../learning/running-day.js';
import type { DayForecast } from '../learning/forecast.js';
import { asksOf, bidsOf } from '../market/book.js';
import { valueOf } from '../market/contracts.js';
import { bracketLabel } from '../market/brackets.js';
import { chargeFill, feeRuleOf, newOrderAccount } from '../market/fees.js';
import { isOnTick, type Market } from '../market/market.js';
import { CENT, DOLLAR, type Micros } from '../market/money.js';
import { TIME_TO_LIVE_MS, type MarketData } from '../market/source.js';
import { nearExtremeOf } from './near-extreme.js';
import { sizeEvents, worthOf, type EventSizes, type Money, type SignalAccount } from './sizes.js';
import { buildCase, type EventCase, type Situation } from './event-case.js';
import {
  DAY_CAP,
  EVENT_CAP,
  KELLY_SHARE,
  MARKET_CAP,
  nothingBought,
  type Signal,
  type SignalReport,
  type WithheldSignal,
} from './signal.js';
import type { SizedPurchase } from '../sizing/model.js';
import { sides } from '../sizing/offers.js';

interface SignalParts {
  purchase: SizedPurchase;
  sizes: EventSizes;
  one: EventCase;
  day: DayForecast;
  money: Money;
  data: MarketData;
}

function toSignal(parts: SignalParts): Signal {
  const { one, data, sizes } = parts;
  const { ticker, ...purchase } = parts.purchase;
  const market = one.event.markets.find((market) => market.ticker === ticker)!;
  const lives = data.fetchedAt.getTime() + TIME_TO_LIVE_MS;
  const limitedBy = purchase.limitedBy === 'event' && sizes.isDayTighter ? 'day' : purchase.limitedBy;
  return {
    ...purchase,
    market,
    edge: purchase.probability - purchase.breakEven,
    worstCase: purchase.stake,
    rest: hintAtRest(market, purchase, parts),
    limitedBy,
    reasons: [
      describeForecast(purchase, bracketLabel(market.bracket), parts.day),
      describePrice(purchase),
      describeSize(purchase, limitedBy, parts),
      one.gate.reason,
    ],
    expiresAt: new Date(Math.min(lives, market.closeTime.getTime())),
  };
}

type Purchase = Omit<SizedPurchase, 'ticker'>;

function hintAtRest(market: Market, purchase: Purchase, { data, day }: Pick<SignalParts, 'data' | 'day'>) {
  const { side, probability, contracts } = purchase;
  const [book, feeRule] = [data.books.get(market.ticker), feeRuleOf(data, market)];
  const [best, ask] = [book && bidsOf(book, side)[0], book && asksOf(book, side)[0]];
  if (!best || !ask || !feeRule || purchase.isHedge) return null;
  const better = best.price + stepAt(market.priceRanges, best.price);
  const isBetter = better < ask.price && isOnTick(market.priceRanges, better);
  const price = isBetter ? better : best.price;
  const { balanceChange } = chargeFill(feeRule, newOrderAccount, {
    action: 'buy',
    price,
    contracts,
    isMaker: true,
  });
  const breakEven = Number(-balanceChange) / Number(valueOf(DOLLAR, contracts));
  const edge = probability - breakEven;
  const taken = probability - purchase.breakEven;
  return {
    price,
    contractsAhead: isBetter ? 0 : best.contracts,
    breakEven,
    edge,
    worthMoreAbove: edge > 0 ? taken / edge : null,
    problem: nearExtremeOf(day, market, data.fetchedAt.getTime()) ?? null,
  };
}

const stepAt = (ranges: Market['priceRanges'], price: Micros): Micros =>
  ranges.find(({ start, end }) => price >= start && price < end)?.step ?? CENT;

const points = (difference: number): string => `${(Math.abs(difference) * 100).toFixed(1)} points`;

/** `71.3° ± 1.5°F`. */
const spread = (mean: number, deviation: number): string =>
  `${formatDegrees(mean, 1)} ± ${formatDegrees(deviation, 1)}F`;

function describeForecast({ side, probability }: Purchase, label: string, day: DayForecast): string {
  const { membersF, modelRunAt, rawMeanF, rawDeviationF } = day;
  const bracket = `${side === 'yes' ? '' : 'not '}${label}`;
  return (
    `${formatExactProbability(probability)} for ${bracket}: ${membersF.length} members of the run of ` +
    `${formatTime(modelRunAt)} expect ${spread(rawMeanF, rawDeviationF)}, ${describeCorrection(day)}${describeProgress(day)}.`
  );
}

/** Less would be shown as 0.0%. */
export const LEAST_SHOWN = 0.0005;

function describeProgress({ distribution: { atLeast, atMost = null }, running }: DayForecast): string {
  if (atLeast === null && atMost === null) return '';
  const reached =
    atMost === null
      ? `the day has certainly reached ${atLeast}°F`
      : `the day has certainly fallen to ${atMost}°F`;
  const stays = running && running.stays >= LEAST_SHOWN ? formatExactProbability(running.stays) : null;
  return `; ${reached}${stays ? `, with a ${stays} chance that it stays there${describeDays(running!)}` : ''}`;
}

const describeDays = ({ fit }: RunningDay): string =>
  fit ? `, from ${formatCount(fit.n, 'day')} at the same hour` : '';

function describeCorrection({ fit, seasonalFit, meanF, deviationF }: DayForecast): string {
  if (fit === null) return 'not corrected';
  const whose = fit.stationId === null ? ' of all stations' : '';
  return `corrected by ${formatCount(fit.n, fit.kind === 'hourly' ? 'hour' : 'day')}${whose}${describeSeasons(seasonalFit)} to ${spread(meanF, deviationF)}`;
}

const describeSeasons = (fit: DayForecast['seasonalFit']): string =>
  fit ? ` and, with half of the weight, ${formatCount(fit.n, 'day')} of this station, with its seasons,` : '';

function describePrice({ side, price, depth, probability, breakEven, isHedge }: Purchase): string {
  const edge = probability - breakEven;
  const asked = `${side.toUpperCase()} is asked at ${formatPrice(price)} (${formatDecimal(depth)} contracts); with the exact fee`;
  return isHedge
    ? `${asked} it costs ${points(edge)} more than it is worth alone, but pays when the others lose.`
    : `${asked} it is worth buying above ${formatExactProbability(breakEven)}: an edge of ${points(edge)}.`;
}

function describeSize(purchase: Purchase, limitedBy: Signal['limitedBy'], parts: SignalParts): string {
  const { fullKelly, contracts, limitPrice, stake } = purchase;
  const { money, one } = parts;
  const isHeld = one.event.markets.some(({ ticker }) => money.holdings.has(ticker));
  const held = isHeld ? ', given its holdings,' : '';
  const limit = limitedBy === null ? '' : `, limited by ${limitNames[limitedBy]}`;
  return (
    `The best joint purchase of the event's brackets${held} puts ${formatExactProbability(fullKelly)} of the bankroll here, and a quarter of that ` +
    `is used${limit}: ${formatCount(contracts, 'contract')} up to ${formatPrice(limitPrice)} for ${formatMoney(stake)}.`
  );
}

const capOf = (share: number): string => `${share * 100}% of the bankroll`;

const limitNames = {
  market: `the cap of ${capOf(MARKET_CAP)} for a market`,
  event: `the cap of ${capOf(EVENT_CAP)} for an event`,
  day: `the cap of ${capOf(DAY_CAP)} for all events of a day, which favours events with more growth`,
  cash: 'the remaining cash',
  depth: 'the depth of the book',
} as const;

/** Either a hypothetical account with the bankroll in cash, or a real one. */
export type SignalInput = Situation &
  ({ bankroll: Micros; account?: undefined } | { bankroll?: undefined; account: SignalAccount });

/** A signal or a reason for each side of each tradable market. Each event is sized as a whole. */
export function* makeSignalsInSteps(input: SignalInput): Steps<SignalReport> {
  const open = input.events.filter(({ markets }) => markets.some(({ status }) => status === 'active'));
  const cases: EventCase[] = [];
  for (const event of open) {
    cases.push(buildCase(event, input));
    yield;
  }
  const money = moneyOf(input);
  const sizes = yield* sizeEvents(cases, input.events, money, input.data);
  return {
    bankroll: money.bankroll,
    kellyShare: KELLY_SHARE,
    marketCap: MARKET_CAP,
    eventCap: EVENT_CAP,
    dayCap: DAY_CAP,
    sizing: 'joint_event',
    events: cases.map((one) => toEventSignals(one, sizes.get(one), money, input.data)),
  };
}

export const makeSignals = (input: SignalInput): SignalReport => allAtOnce(makeSignalsInSteps(input));

const nothingHeld: SignalAccount['holdings'] = new Map();

function moneyOf({ account, bankroll, data }: SignalInput): Money {
  if (!account) return { bankroll, cash: bankroll, holdings: nothingHeld };
  return { ...account, bankroll: account.cash + worthOf(account.holdings, data.markets, data) };
}

function toEventSignals(one: EventCase, sizes: EventSizes | undefined, money: Money, data: MarketData) {
  const { event, day, gate, problems, withheld } = one;
  const isSaid = day !== undefined && sizes !== undefined && withheld === undefined;
  const signals = isSaid
    ? sizes.purchases.map((purchase) => toSignal({ purchase, sizes, one, day, money, data }))
    : [];
  const isSignal = new Set(signals.map(({ market, side }) => `${market.ticker} ${side}`));
  const reasons = sizes ? reasonsOf(sizes) : new Map<string, string>();
  const held = new Set(isSaid ? [] : sizes?.purchases.map(({ ticker, side }) => `${ticker} ${side}`));
  const suppressed: WithheldSignal[] = [];
  for (const { ticker } of event.markets)
    for (const side of sides) {
      const key = `${ticker} ${side}`;
      if (isSignal.has(key)) continue;
      const isWithheld = held.has(key);
      const own = problems.get(ticker) ?? reasons.get(key) ?? 'there are no asks';
      suppressed.push({ ticker, side, reason: (isWithheld && withheld) || own, isWithheld });
    }
  return {
    eventTicker: event.eventTicker,
    kind: event.kind,
    stationId: event.station.id,
    date: event.date,
    hour: event.hour,
    method: day?.method ?? null,
    isCalibrated: day?.isCalibrated ?? false,
    gate,
    signals,
    suppressed,
    ...(isSaid ? totalsOf(sizes) : nothingBought),
  };
}

const totalsOf = ({ stake, worstCase, growth, gap }: EventSizes) => ({ stake, worstCase, growth, gap });

function reasonsOf({ refused, crowdedOut, scarce }: EventSizes) {
  const reasons = new Map(refused.map(({ ticker, side, reason }) => [`${ticker} ${side}`, reason]));
  const crowded = scarce === 'cash' ? 'the cash' : 'the cap of the day';
  for (const { ticker, side } of crowdedOut)
    reasons.set(`${ticker} ${side}`, `events with more growth use up ${crowded}`);
  return reasons;
}
