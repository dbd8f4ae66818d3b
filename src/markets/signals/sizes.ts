import type { Steps } from '../../core/steps.js';
import type { Holding } from '../ledger/positions.js';
import { markPosition } from '../ledger/valuation.js';
import { outcomeProbabilities, outcomesOf } from '../market/brackets.js';
import type { MarketEvent } from '../market/event.js';
import { feeRuleOf } from '../market/fees.js';
import { BALANCE_STEP, shareOf, type Micros } from '../market/money.js';
import type { MarketData } from '../market/source.js';
import { sizeEvent, type SizedEvent } from '../sizing/event.js';
import { paidFor } from '../sizing/fund.js';
import type { EventCase } from './event-case.js';
import { DAY_CAP, EVENT_CAP, KELLY_SHARE, MARKET_CAP } from './signal.js';
import type { SizedPurchase } from '../sizing/model.js';

export interface SignalAccount {
  cash: Micros;
  holdings: ReadonlyMap<string, Holding>;
}

/** Proceeds of selling into current bids after fees, or the announced payout. Zero without a bid. */
export function worthOf(
  holdings: SignalAccount['holdings'],
  markets: MarketData['markets'],
  data: Pick<MarketData, 'books' | 'feeRules'>,
): Micros {
  let worth = 0n;
  for (const market of markets) {
    const held = holdings.get(market.ticker);
    if (!held || held.contracts === 0) continue;
    const [book, feeRule] = [data.books.get(market.ticker), feeRuleOf(data, market)];
    worth += markPosition(held, { market, book, feeRule, knownValue: null }).value ?? 0n;
  }
  return worth;
}

/** Fees included: the used part of a cap. */
export const paidOf = (
  holdings: SignalAccount['holdings'],
  markets: MarketData['markets'],
  data: Pick<MarketData, 'feeRules'>,
): Micros =>
  markets.reduce((sum, market) => sum + paidFor(holdings.get(market.ticker), feeRuleOf(data, market)), 0n);

export interface Money extends SignalAccount {
  bankroll: Micros;
}

export interface EventSizes extends SizedEvent {
  isDayTighter: boolean;
  crowdedOut: readonly SizedPurchase[];
  scarce: 'day' | 'cash';
}

interface Room {
  /** Room under the cap of the climate date; undefined without a limit. */
  day: Micros | undefined;
  cash: Micros;
}

/**
 * The event with the most growth comes first; later ones are resized to fit what is left of the day's cap and the cash.
 * Ties are broken by ticker, so the order of the input does not matter.
 */
export function* sizeEvents(
  cases: readonly EventCase[],
  events: readonly MarketEvent[],
  money: Money,
  data: MarketData,
): Steps<ReadonlyMap<EventCase, EventSizes>> {
  const first = new Map<EventCase, EventSizes>();
  for (const one of cases) {
    if (one.problem !== undefined) continue;
    first.set(one, { ...sizeWithin(one, money, data, { day: undefined, cash: money.cash }), ...alone });
    yield;
  }
  const headroom = headroomOfDays(events, money, data);
  let { cash } = money;
  const sizes = new Map(first);
  const inTurn = [...first].filter(([{ withheld }]) => withheld === undefined).toSorted(byGrowth);
  for (const [one, wanted] of inTurn) {
    const { date } = one.event;
    const day = headroom.get(date)!;
    const most = spentOn(wanted);
    const fits = most <= day && most <= cash;
    const given = fits ? wanted : resize(one, wanted, money, data, { day, cash });
    sizes.set(one, given);
    headroom.set(date, atLeastNothing(day - spentOn(given)));
    cash = atLeastNothing(cash - spentOn(given));
    if (!fits) yield;
  }
  return sizes;
}

/** Closing pairs spends nothing: each pair returns its dollar and frees its cost. */
const spentOn = ({ purchases }: SizedEvent): Micros =>
  purchases.reduce((sum, { contracts, closing, stake }) => (closing < contracts ? sum + stake : sum), 0n);

const atLeastNothing = (amount: Micros): Micros => (amount < 0n ? 0n : amount);

const noPurchase = { purchases: [], stake: 0n, worstCase: 0n, growth: 0 };

const alone = { isDayTighter: false, crowdedOut: [], scarce: 'day' } as const;

const byGrowth = ([a, { growth }]: [EventCase, SizedEvent], [b, other]: [EventCase, SizedEvent]): number =>
  other.growth - growth || (a.event.eventTicker < b.event.eventTicker ? -1 : 1);

/** After all holdings. Maxima, minima and hours share the room because their weather is correlated. */
function headroomOfDays(events: readonly MarketEvent[], { bankroll, holdings }: Money, data: MarketData) {
  const headroom = new Map<string, Micros>();
  for (const { date, markets } of events) {
    const left = headroom.get(date) ?? shareOf(bankroll, DAY_CAP);
    headroom.set(date, left - paidOf(holdings, markets, data));
  }
  return new Map([...headroom].map(([date, left]) => [date, atLeastNothing(left)]));
}

function resize(
  one: EventCase,
  wanted: SizedEvent,
  money: Money,
  data: MarketData,
  left: { day: Micros; cash: Micros },
): EventSizes {
  const scarce = left.cash < left.day ? 'cash' : 'day';
  const isNothingLeft = left.cash < BALANCE_STEP || left.day < BALANCE_STEP;
  if (isNothingLeft && wanted.purchases.every(({ closing }) => closing === 0))
    return { ...wanted, ...noPurchase, isDayTighter: true, crowdedOut: wanted.purchases, scarce };
  const sized = sizeWithin(one, money, data, left);
  const isBought = ({ ticker, side }: SizedPurchase) =>
    sized.purchases.some((bought) => bought.ticker === ticker && bought.side === side);
  return {
    ...sized,
    // Refused even with the whole cap.
    refused: wanted.refused,
    isDayTighter:
      paidOf(money.holdings, one.event.markets, data) + left.day < shareOf(money.bankroll, EVENT_CAP),
    crowdedOut: wanted.purchases.filter((purchase) => !isBought(purchase)),
    scarce,
  };
}

function sizeWithin(
  { event, day, problems }: EventCase,
  { bankroll, holdings }: Money,
  data: MarketData,
  left: Room,
): SizedEvent {
  const ownCap = shareOf(bankroll, EVENT_CAP);
  const ofDay = left.day === undefined ? ownCap : paidOf(holdings, event.markets, data) + left.day;
  const outcomes = outcomesOf(event.markets.map(({ bracket }) => bracket));
  const probabilities = event.markets.map(({ ticker }) => day!.probabilities.get(ticker)!);
  return sizeEvent({
    outcomes: outcomeProbabilities(outcomes, probabilities),
    markets: event.markets.map((market, i) => ({
      ticker: market.ticker,
      probability: probabilities[i]!,
      pays: outcomes.pays[i]!,
      book: problems.has(market.ticker) ? undefined : data.books.get(market.ticker),
      feeRule: feeRuleOf(data, market),
      held: holdings.get(market.ticker),
    })),
    bankroll: bankroll - worthOf(holdings, event.markets, data),
    cash: left.cash,
    kellyShare: KELLY_SHARE,
    marketRoom: shareOf(bankroll, MARKET_CAP),
    eventRoom: ofDay < ownCap ? ofDay : ownCap,
  });
}
