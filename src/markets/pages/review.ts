import {
  asksOf,
  bidsOf,
  emptyBook,
  quoteOrder,
  worstCost,
  type MarketableOrder,
  type OrderBook,
  type Quote,
  type Side,
} from '../market/book.js';
import { isPlaced, labelOf, type ListedMarket } from '../market/market.js';
import { BALANCE_STEP, CENT, DOLLAR, floorTo, shareOf, type Micros } from '../market/money.js';
import type { RestTerms } from '../ledger/order-input.js';
import { bidOf, shownAt } from '../orders/queue.js';
import { applyFill, type Holding } from '../ledger/positions.js';
import { chargeFill, newOrderAccount, type FeeRule } from '../market/fees.js';
import { formatDecimal, formatExactMoney, formatPrice } from '../../core/pages/format.js';
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
}

export interface Review {
  headline: string;
  outcome: { tone: 'good' | 'warn' | 'bad'; text: string };
  facts: Fact[];
  results: { label: string; change: Micros }[];
  /** Values are for the order's side. */
  chance: {
    isBuy: boolean;
    sideName: string;
    breakEven: number;
    forecast: { probability: number; edge: number; expected: Micros } | null;
  } | null;
  /** On average, if the forecast is right. */
  loses: boolean;
}

type Fact = { label: string; note?: string; isSum?: true } & (
  | { money: Micros }
  | { change: Micros }
  | { contracts: number }
);

export function reviewOrder(input: ReviewInput): Review {
  const { order, market, book, feeRule } = input;
  const quote = quoteOrder(order.rest?.postOnly ? emptyBook : book, feeRule, order);
  const name = `${formatDecimal(order.contracts)} ${order.side.toUpperCase()}`;
  const price = formatPrice(order.limitPrice);
  const chance = quote.filledContracts === 0 ? null : chanceOf(input, quote);
  return {
    headline: order.action === 'buy' ? `Buy ${name} at ${price} or less` : `Sell ${name} at ${price} or more`,
    outcome: order.rest ? restingOutcome(input, quote) : outcomeOf(order, quote, book),
    facts:
      quote.filledContracts === 0
        ? reserveOf(input)
        : order.action === 'buy'
          ? costs(input, quote)
          : proceeds(input, quote),
    results:
      quote.filledContracts === 0
        ? []
        : order.action === 'buy'
          ? resultsOf(order.side, quote, market)
          : resultsOfSale(input, quote),
    chance,
    loses: (chance?.forecast?.expected ?? 0n) < 0n,
  };
}

/** The part that fills now, and the queue ahead of the rest. */
function restingOutcome({ order, whole }: ReviewInput, { filledContracts }: Quote): Review['outcome'] {
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

const reserveOf = ({ order, reserve }: ReviewInput): Review['facts'] =>
  order.rest && order.action === 'buy' && reserve !== null
    ? [
        {
          label: 'Reserved',
          money: reserve,
          note: reserve === 0n ? 'the pairs that it closes pay for it' : 'while it rests',
        },
      ]
    : [];

function outcomeOf(order: MarketableOrder, quote: Quote, book: OrderBook): Review['outcome'] {
  const { contracts, action, side, timeInForce } = order;
  const { filledContracts } = quote;
  const name = side.toUpperCase();
  if (filledContracts === contracts)
    return {
      tone: 'good',
      text: contracts === 1 ? 'The contract fills now.' : `All ${formatDecimal(contracts)} fill now.`,
    };
  if (filledContracts > 0) {
    return {
      tone: 'warn',
      text: `${formatDecimal(filledContracts)} of ${formatDecimal(contracts)} fill now. No more is offered within your limit; the other ${formatDecimal(subtractCounts(contracts, filledContracts))} are cancelled.`,
    };
  }
  const [best] = action === 'buy' ? asksOf(book, side) : bidsOf(book, side);
  if (!best)
    return {
      tone: 'bad',
      text: `Nothing fills: there are no ${action === 'buy' ? 'asks' : 'bids'} for ${name} at the moment.`,
    };
  const isBeyond = action === 'buy' ? best.price > order.limitPrice : best.price < order.limitPrice;
  if (!isBeyond && timeInForce === 'fill_or_kill')
    return {
      tone: 'bad',
      text: `Nothing fills: fewer than ${formatDecimal(contracts)} are offered within your limit, and the order is fill or kill.`,
    };
  return {
    tone: 'bad',
    text: `Nothing fills at your limit: the best ${action === 'buy' ? 'ask' : 'bid'} is ${formatPrice(best.price)}.`,
  };
}

function costs({ order, held, cash, feeRule }: ReviewInput, quote: Quote): Review['facts'] {
  const total = -quote.balanceChange;
  const { cashChange, realised, closed } = book(held, order, quote);
  const worst = worstCost(feeRule, order);
  return [
    { label: 'Price', money: total - quote.fees, note: averageNote(quote) },
    { label: 'Fee', money: quote.fees },
    { label: 'Cost', money: total, isSum: true },
    ...(closed > 0
      ? [
          {
            label: 'Pairs closed',
            change: valueOf(DOLLAR, closed),
            note: `${formatDecimal(closed)} pairs of YES and NO pay $1 each at once`,
          },
          { label: 'Realised', change: realised, note: 'before fees' },
        ]
      : []),
    ...(worst > total
      ? [
          {
            label: 'Maximum cost',
            money: worst,
            note: `for all ${formatDecimal(order.contracts)}, if the book moves before the order arrives`,
          },
        ]
      : []),
    { label: 'Maximum payout', money: quote.maximumPayout },
    { label: 'Cash after', money: cash + cashChange, note: `${formatExactMoney(cash)} now` },
  ];
}

function proceeds({ order, held, cash, feeRule }: ReviewInput, quote: Quote): Review['facts'] {
  const { cashChange, realised, left } = book(held, order, quote);
  const all = chargeFill(feeRule, newOrderAccount, {
    action: 'sell',
    price: order.limitPrice,
    contracts: quote.filledContracts,
  });
  const least = all.balanceChange;
  return [
    { label: 'Price', money: quote.balanceChange + quote.fees, note: averageNote(quote) },
    { label: 'Fee', money: quote.fees },
    { label: 'You receive', money: quote.balanceChange, isSum: true },
    ...(least < quote.balanceChange
      ? [
          {
            label: 'At least',
            money: least,
            note: 'for the same number, if the book moves before the order arrives',
          },
        ]
      : []),
    { label: 'Realised', change: realised, note: 'against the average cost, before fees' },
    { label: 'After the fee', change: realised - quote.fees },
    { label: 'Remaining', contracts: left },
    { label: 'Cash after', money: cash + cashChange, note: `${formatExactMoney(cash)} now` },
  ];
}

const averageNote = ({ filledContracts, averagePrice }: Quote): string =>
  `${formatDecimal(filledContracts)} × ${formatPrice(averagePrice ?? 0n)}${filledContracts > 1 ? ' on average' : ''}`;

/** Books the fills as the service would. */
function book(
  held: Holding | undefined,
  order: MarketableOrder,
  { fills, balanceChange, filledContracts }: Quote,
) {
  const own = held?.side === order.side ? held.contracts : 0;
  if (order.action === 'sell' && own < filledContracts)
    return { cashChange: balanceChange, realised: 0n, closed: 0, left: own };
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
  return { cashChange, realised, closed, left: holding?.contracts ?? 0 };
}

/** At settlement, compared with not trading. */
function resultsOf(
  side: Side,
  { balanceChange, maximumPayout }: Quote,
  market: ListedMarket,
): Review['results'] {
  const ifSide = balanceChange + maximumPayout;
  const [ifYes, ifNo] = side === 'yes' ? [ifSide, balanceChange] : [balanceChange, ifSide];
  return isPlaced(market)
    ? [toResult(`if it is ${labelOf(market)}`, ifYes), toResult('if it is not', ifNo)]
    : [toResult('if YES wins', ifYes), toResult('if NO wins', ifNo)];
}

/** They no longer depend on the weather. */
const resultsOfSale = ({ held, order }: ReviewInput, quote: Quote): Review['results'] => [
  toResult('received', quote.balanceChange),
  toResult('profit or loss', book(held, order, quote).realised - quote.fees),
];

const toResult = (label: string, change: Micros) => ({ label, change });

function chanceOf(
  { order: { side, action }, probability }: ReviewInput,
  { balanceChange, maximumPayout }: Quote,
): NonNullable<Review['chance']> {
  const isBuy = action === 'buy';
  const amount = isBuy ? -balanceChange : balanceChange;
  const breakEven = Math.max(0, Number(amount) / Number(maximumPayout));
  const asked = { isBuy, sideName: side.toUpperCase(), breakEven };
  if (probability === null) return { ...asked, forecast: null };
  const probabilityOfSide = side === 'yes' ? probability : 1 - probability;
  const edge = isBuy ? probabilityOfSide - breakEven : breakEven - probabilityOfSide;
  const worth = shareOf(maximumPayout, probabilityOfSide);
  // Rounded as a signal's is.
  const expected = floorTo(isBuy ? worth - amount : amount - worth, CENT);
  return { ...asked, forecast: { probability: probabilityOfSide, edge, expected } };
}
