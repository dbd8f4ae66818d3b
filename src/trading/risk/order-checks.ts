import { asksOf, bidsOf } from '../market/book.js';
import type { Micros } from '../market/money.js';
import { worstCost } from '../market/quote.js';
import { dayLossOf } from './day-loss.js';
import { positionAfter, toLeg, type Deal } from './deal.js';
import { endsOf } from '../market/event-ends.js';
import { worstCaseLoss, type Leg } from './exposure.js';
import type { RiskInput } from './gate.js';
import { count, dollars, refuse, type Refusal } from './refusal.js';
import { feeRuleOf } from '../market/fee-rules.js';

/** What every order is held to, also one that only reduces. */
export function checkOrder({
  input,
  facts: { limits, pending },
  isReducing,
  closable,
}: Deal): Refusal | undefined {
  const { ticker, side, action, contracts, limitPrice } = input.order;
  if (action === 'sell' && !isReducing)
    return refuse(
      'not_held',
      `this order would sell ${count(contracts, `${side} contract`)} of ${ticker}, of which ${closable} are held and not being sold already.`,
    );
  if (!(contracts <= limits.maxOrderContracts))
    return refuse(
      'max_order_contracts',
      `this order is for ${count(contracts, 'contract')} of ${ticker}, the limit is ${limits.maxOrderContracts}.`,
    );
  const best = bestPrice(input);
  if (best === undefined)
    return refuse(
      'price_collar',
      `nobody ${action === 'buy' ? 'offers' : 'bids for'} ${side} contracts of ${ticker}, so there is nothing to hold the limit price against.`,
    );
  const beyond = action === 'buy' ? limitPrice - best : best - limitPrice;
  if (!(beyond <= limits.priceCollar))
    return refuse(
      'price_collar',
      `the limit price ${dollars(limitPrice)} is ${dollars(beyond)} ${action === 'buy' ? 'above' : 'below'} the best price ${dollars(best)} of ${ticker}, the limit is ${dollars(limits.priceCollar)}.`,
    );
  const open = pending.length + 1;
  if (!(open <= limits.maxOpenOrders))
    return refuse(
      'max_open_orders',
      `this order would be open order ${open}, the limit is ${limits.maxOpenOrders}.`,
    );
  return undefined;
}

/** What only orders can break that open or enlarge a position. */
export function checkExposure({ input, facts }: Deal): Refusal | undefined {
  const { order, market, snapshot, worstCost: spent } = input;
  const { limits, positions, pending } = facts;
  const { ticker, side, contracts } = order;
  // Null would count as nothing.
  if (typeof spent !== 'bigint' || spent < 0n) throw new RangeError('what the order may cost is not known');
  if (!(spent <= limits.maxOrderCost))
    return refuse(
      'max_order_cost',
      `this order may cost ${dollars(spent)}, the limit is ${dollars(limits.maxOrderCost)}.`,
    );

  const position = positionAfter(input, facts);
  if (!(position <= limits.maxPositionContracts))
    return refuse(
      'max_position_contracts',
      `this order would make ${count(position, `${side} contract`)} of ${ticker}, the limit is ${limits.maxPositionContracts}.`,
    );

  const { eventTicker } = market;
  const held: Leg[] = positions.filter((one) => one.eventTicker === eventTicker);
  const out = pending.filter((one) => one.eventTicker === eventTicker).map(toLeg);
  const asked: Leg = { ticker, side, contracts, cost: grossCost(input) };
  const event = snapshot.events.find((one) => one.eventTicker === eventTicker);
  const ends = endsOf(eventTicker, event, tickersOf([...held, ...out, asked]));
  const before = worstCaseLoss(ends, held, out);
  const after = worstCaseLoss(ends, [...held, asked], out);
  // An order that makes the worst outcome no worse is a hedge: it may pass also where the limit is used up.
  if (!(after <= limits.maxEventLoss || after <= before))
    return refuse(
      'max_event_loss',
      `with this order ${eventTicker} could lose ${dollars(after)} in its worst outcome (${dollars(before)} without it), the limit is ${dollars(limits.maxEventLoss)}.`,
    );

  const lost = dayLossOf(facts, snapshot);
  if (!(lost < limits.maxDailyLoss && limits.maxDailyLoss > 0n))
    return refuse(
      'max_daily_loss',
      `${dollars(lost > 0n ? lost : 0n)} were lost since midnight UTC, the limit is ${dollars(limits.maxDailyLoss)}. Only orders pass that reduce what is held.`,
    );
  return undefined;
}

const tickersOf = (legs: readonly Leg[]): string[] => legs.map(({ ticker }) => ticker);

/** All that is paid for the contracts at the limit price, fee included, also for those that close pairs. */
function grossCost({ order, market, snapshot }: RiskInput): Micros {
  const feeRule = feeRuleOf(snapshot.data, market);
  if (!feeRule) throw new RangeError(`the fee of ${market.seriesTicker} is not known`);
  return worstCost(feeRule, order);
}

/** The best price for the order; the venue's own where the Organization's paper orders have taken all of the book. */
function bestPrice({ order, book, snapshot }: RiskInput): Micros | undefined {
  for (const candidate of [book, snapshot.data.books.get(order.ticker)]) {
    if (!candidate) continue;
    const levels = order.action === 'buy' ? asksOf(candidate, order.side) : bidsOf(candidate, order.side);
    if (levels[0]) return levels[0].price;
  }
  return undefined;
}
