import {
  asksOf,
  bidsOf,
  emptyBook,
  otherSide,
  quoteOrder,
  worstCost,
  type MarketableOrder,
  type OrderBook,
  type Quote,
  type Side,
} from '../market/book.js';
import { isPlaced, labelOf, type ListedMarket } from '../market/market.js';
import { BALANCE_STEP, CENT, ceilTo, DOLLAR, floorTo, shareOf, type Micros } from '../market/money.js';
import type { RestTerms } from '../ledger/order-input.js';
import { bidOf, shownAt } from '../orders/queue.js';
import { applyFill, type Holding } from '../ledger/positions.js';
import { chargeFill, newOrderAccount, type FeeRule } from '../market/fees.js';
import { formatDecimal, formatMoney, formatPrice, roundToCent } from '../../core/pages/format.js';
import { subtractCounts, valueOf } from '../market/contracts.js';

export interface ReviewInput {
  market: ListedMarket;
  /** The venue's book minus the contracts that the Organization's paper orders have taken. */
  book: OrderBook;
  feeRule: FeeRule;
  order: MarketableOrder & { rest?: RestTerms };
  /** The full book, in which a resting order queues. */
  whole: OrderBook;
  held: Holding | undefined;
  cash: Micros;
  /** Null if the order would be refused. */
  reserve: Micros | null;
  /** Probability that YES pays; null without a forecast. */
  probability: number | null;
  doubt?: Doubt | null;
}

/** Why the forecast proposes nothing here. */
export interface Doubt {
  /** The end of `The forecast says 55%, but …`. */
  because: string;
  /** Probability of the order's side at the market's prices. */
  market: number | null;
  isWithheld: boolean;
}

export type Review = ReturnType<typeof reviewOrder>;

type Fact = { label: string; note?: string; isSum?: true } & (
  | { money: Micros }
  | { change: Micros }
  | { contracts: number }
);

export function reviewOrder(input: ReviewInput) {
  const { order, market, book: offered, feeRule } = input;
  const now = quoteOrder(order.rest?.postOnly ? emptyBook : offered, feeRule, order);
  const isWaiting = order.rest !== undefined && now.filledContracts === 0;
  const quote = isWaiting ? quoteOrder(bookAt(order), feeRule, order, true) : now;
  const name = `${formatDecimal(order.contracts)} ${order.side.toUpperCase()}`;
  const price = formatPrice(order.limitPrice);
  const shown = {
    headline: order.action === 'buy' ? `Buy ${name} at ${price} or less` : `Sell ${name} at ${price} or more`,
    outcome: order.rest ? restingOutcome(input, now) : outcomeOf(order, now, offered),
  };
  if (quote.filledContracts === 0)
    return { ...shown, isWaiting, facts: [], results: [], chance: null, warning: null };
  const chance = chanceOf(input, quote);
  const booked = book(input, quote);
  const isClosing = order.action === 'sell' || booked.closed === quote.filledContracts;
  const isClosingPairs = isClosing && order.action === 'buy';
  const { tone, text } = shown.outcome;
  return {
    ...shown,
    /** The economics are those of a fill at the limit. */
    isWaiting,
    outcome:
      isClosingPairs && !isWaiting
        ? { tone, text: `${text} It closes ${closingText(booked, order.side)}` }
        : shown.outcome,
    facts: isWaiting ? reserveOf(input) : (order.action === 'buy' ? costs : proceeds)(input, quote),
    results: isClosing
      ? [
          { label: 'received', change: booked.received },
          { label: booked.result < 0n ? 'loss' : 'profit', change: booked.result },
        ]
      : resultsOf(order.side, booked.received - valueOf(DOLLAR, booked.closed), quote, market),
    chance: isClosingPairs ? null : chance,
    warning: warningOf(chance, isClosing),
  };
}

/** Someone takes all of the order at its limit. */
function bookAt(order: MarketableOrder): OrderBook {
  const { side, price } = bidOf(order);
  return { ...emptyBook, [otherSide[side]]: [{ price: DOLLAR - price, contracts: order.contracts }] };
}

/** Why the forecast does not support the order. */
function warningOf({ forecast, doubt }: ReturnType<typeof chanceOf>, isClosing: boolean): string | null {
  if (forecast && forecast.expected < 0n && !(doubt && isClosing))
    return `On average ${isClosing ? 'holding is worth more' : 'this order loses money'}, if the forecast is right.`;
  return forecast && doubt && !isClosing ? 'The forecast is not proven, so it is no reason to buy.' : null;
}

/** `3 YES: you receive $0.89, a loss of $0.05, fee included.` */
export function closingText(
  { closed, received, result }: { closed: number; received: Micros; result: Micros },
  side: Side,
  verb = 'receive',
): string {
  const change = `a ${result < 0n ? 'loss' : 'profit'} of ${formatMoney(result < 0n ? -result : result)}`;
  return `${formatDecimal(closed)} ${otherSide[side].toUpperCase()}: you ${verb} ${formatMoney(received)}, ${change}, fee included.`;
}

/** The part that fills now, and the queue ahead of the rest. */
function restingOutcome({ order, whole }: ReviewInput, { filledContracts }: Quote) {
  const rest = subtractCounts(order.contracts, filledContracts);
  if (rest === 0) return { tone: 'good', text: `All ${formatDecimal(order.contracts)} fill now.` };
  const ahead = shownAt(whole, bidOf(order));
  const queue =
    ahead === 0 ? 'first in line at this price' : `behind ${formatDecimal(ahead)} at the same price`;
  const now =
    filledContracts === 0
      ? `Nothing fills now. All ${formatDecimal(rest)}`
      : `${formatDecimal(filledContracts)} fill now. The other ${formatDecimal(rest)}`;
  return { tone: 'warn', text: `${now} rest in the book, ${queue}, and may never fill.` };
}

function reserveOf({ order, reserve, cash, held }: ReviewInput): Fact[] {
  if (!order.rest || order.action !== 'buy' || reserve === null) return [];
  const paid = reserve === 0n && held && `closing your ${held.side.toUpperCase()} pays for it`;
  const note = paid || 'while it rests';
  return [{ label: 'Reserved', money: reserve, isSum: true, note }, cashAfter(cash, -reserve)];
}

function outcomeOf(order: MarketableOrder, quote: Quote, book: OrderBook) {
  const { contracts, side, timeInForce } = order;
  const { filledContracts } = quote;
  const isBuy = order.action === 'buy';
  const [isOffered, offer] = isBuy ? ['offered', 'ask'] : ['bid for', 'bid'];
  const count = formatDecimal(contracts);
  if (filledContracts === contracts)
    return { tone: 'good', text: contracts === 1 ? 'The contract fills now.' : `All ${count} fill now.` };
  if (filledContracts > 0) {
    const others = formatDecimal(subtractCounts(contracts, filledContracts));
    const text = `${formatDecimal(filledContracts)} of ${count} fill now. No more is ${isOffered} within your limit; the other ${others} are cancelled.`;
    return { tone: 'warn', text };
  }
  const [best] = isBuy ? asksOf(book, side) : bidsOf(book, side);
  const bad = (text: string) => ({ tone: 'bad', text });
  if (!best) return bad(`Nothing fills: there are no ${offer}s for ${side.toUpperCase()} at the moment.`);
  const isBeyond = isBuy ? best.price > order.limitPrice : best.price < order.limitPrice;
  if (!isBeyond && timeInForce === 'fill_or_kill')
    return bad(
      `Nothing fills: fewer than ${count} are ${isOffered} within your limit, and the order is fill or kill.`,
    );
  return bad(`Nothing fills at your limit: the best ${offer} is ${formatPrice(best.price)}.`);
}

/** In cents that add up: the cost is what the cash loses, and the fee is the cost without the price. */
function costs(input: ReviewInput, quote: Quote): Fact[] {
  const { order, cash, feeRule } = input;
  const { cashChange, received, realised, result, closed } = book(input, quote);
  const pairs = valueOf(DOLLAR, closed);
  const total = pairs - received;
  const rounded = roundToCent(-quote.balanceChange - quote.fees);
  const price = rounded < total ? rounded : total;
  const worst = worstCost(feeRule, order);
  const isClosing = closed === quote.filledContracts;
  const pay = {
    label: 'Pairs closed',
    change: pairs,
    note: `${formatDecimal(closed)} pairs of YES and NO pay $1 each at once`,
  };
  const profit = isClosing
    ? { label: 'Profit or loss', change: result, note: 'fee included' }
    : { label: 'Realised', change: roundToCent(realised), note: 'before fees' };
  const facts: (Fact | false)[] = [
    isClosing && { label: 'You receive', money: received, isSum: true },
    isClosing && pay,
    { label: 'Price', money: price, note: averageNote(quote) },
    { label: 'Fee', money: feeOf(total - price, quote) },
    !isClosing && { label: 'Cost', money: total, isSum: true },
    !isClosing && closed > 0 && pay,
    closed > 0 && profit,
    worst > -quote.balanceChange && {
      label: 'Maximum cost',
      money: ceilTo(worst, CENT),
      note: 'if the book moves',
    },
    !isClosing && { label: 'Maximum payout', money: quote.maximumPayout - pairs },
    cashAfter(cash, cashChange),
  ];
  return facts.filter((fact) => fact !== false);
}

function proceeds(input: ReviewInput, quote: Quote): Fact[] {
  const { order, cash, feeRule } = input;
  const { cashChange, received, result, left } = book(input, quote);
  const all = chargeFill(feeRule, newOrderAccount, {
    action: 'sell',
    price: order.limitPrice,
    contracts: quote.filledContracts,
  });
  const rounded = roundToCent(quote.balanceChange + quote.fees);
  const price = rounded > received ? rounded : received;
  return [
    { label: 'Price', money: price, note: averageNote(quote) },
    { label: 'Fee', money: feeOf(price - received, quote) },
    { label: 'You receive', money: received, isSum: true },
    ...(all.balanceChange < quote.balanceChange
      ? [{ label: 'At least', money: floorTo(all.balanceChange, CENT), note: 'if the book moves' }]
      : []),
    { label: 'Profit or loss', change: result, note: 'against the average cost, fee included' },
    { label: 'Remaining', contracts: left },
    cashAfter(cash, cashChange),
  ];
}

/** As the portfolio will show it. Cash and change may both have parts of a cent. */
const cashAfter = (cash: Micros, by: Micros) => ({ label: 'Cash after', money: roundToCent(cash + by) });

/** In cents, or the least amount instead of nothing. */
const feeOf = (inCents: Micros, { fees }: Quote): Micros =>
  inCents === 0n && fees > 0n ? BALANCE_STEP : inCents;

const averageNote = ({ filledContracts, averagePrice }: Quote): string =>
  `${formatDecimal(filledContracts)} × ${formatPrice(averagePrice ?? 0n)}${filledContracts > 1 ? ' on average' : ''}`;

/** Books the fills as the service would. `received` and `result` are in cents, after fees. */
function book({ held, order }: ReviewInput, { fills, fees, balanceChange, filledContracts }: Quote) {
  const own = held?.side === order.side ? held.contracts : 0;
  if (order.action === 'sell' && own < filledContracts) {
    const [cashChange, received] = [balanceChange, roundToCent(balanceChange)];
    return { cashChange, received, realised: 0n, result: roundToCent(-fees), closed: 0, left: own };
  }
  const closed =
    order.action === 'buy' && held && held.side !== order.side
      ? Math.min(held.contracts, filledContracts)
      : 0;
  let [holding, cashChange, realised] = [held, 0n, 0n];
  for (const { price, contracts, fee } of fills) {
    const booking = applyFill(holding, { side: order.side, action: order.action, price, contracts, fee });
    holding = booking.holding;
    cashChange += booking.postings.cash;
    realised -= booking.postings.realised;
  }
  realised = floorTo(realised, BALANCE_STEP);
  const result = roundToCent(realised - fees);
  const received = roundToCent(cashChange);
  return { cashChange, received, realised, result, closed, left: holding?.contracts ?? 0 };
}

/** At settlement, compared with not trading. */
function resultsOf(side: Side, paid: Micros, { maximumPayout }: Quote, market: ListedMarket) {
  const ifSide = paid + maximumPayout;
  const changes = side === 'yes' ? [ifSide, paid] : [paid, ifSide];
  const ends = isPlaced(market) ? [`it is ${labelOf(market)}`, 'it is not'] : ['YES wins', 'NO wins'];
  return ends.map((end, i) => ({ label: `if ${end}`, change: changes[i]! }));
}

/** For the order's side. */
function chanceOf(
  { order: { side, action }, probability, doubt = null }: ReviewInput,
  { balanceChange, maximumPayout }: Quote,
) {
  const isBuy = action === 'buy';
  const amount = isBuy ? -balanceChange : balanceChange;
  const breakEven = Math.max(0, Number(amount) / Number(maximumPayout));
  const asked = { isBuy, sideName: side.toUpperCase(), breakEven, doubt };
  if (probability === null) return { ...asked, forecast: null };
  const probabilityOfSide = side === 'yes' ? probability : 1 - probability;
  const edge = isBuy ? probabilityOfSide - breakEven : breakEven - probabilityOfSide;
  const worth = shareOf(maximumPayout, probabilityOfSide);
  // Rounded as a signal's is.
  const expected = floorTo(isBuy ? worth - amount : amount - worth, CENT);
  return { ...asked, forecast: { probability: probabilityOfSide, edge, expected } };
}
