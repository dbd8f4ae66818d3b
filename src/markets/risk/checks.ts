import type { ErrorCode } from '../../core/errors.js';
import { formatCount, formatDecimal, formatExactMoney, formatPrice } from '../../core/pages/format.js';
import { switchStates } from '../ledger/risk-table.js';
import { asksOf, bidsOf, worstCost } from '../market/book.js';
import { endsOf } from '../market/event.js';
import { feeRuleOf } from '../market/fees.js';
import type { Micros } from '../market/money.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';
import {
  dayLossOf,
  positionAfter,
  toLeg,
  worstCaseLoss,
  type CandidateOrder,
  type Leg,
  type RiskInput,
} from './exposure.js';
import { switchOwners, type Permissions, type SwitchOwner } from './facts.js';

/** In the order in which they are checked. The detail of a `risk_limit` error starts with the reason. */
const riskChecks = [
  'unknown_state',
  'market_access',
  'halt',
  'reduce_only',
  'data_age',
  'clock_skew',
  'data_source',
  'exchange_paused',
  'not_held',
  'max_order_contracts',
  'price_collar',
  'max_open_orders',
  'max_order_cost',
  'max_position_contracts',
  'max_event_loss',
  'max_daily_loss',
] as const;
type RiskCheck = (typeof riskChecks)[number];

export interface RiskRefusal {
  check: RiskCheck;
  detail: string;
  /** Default: `risk_limit`. */
  code?: ErrorCode;
  cause?: unknown;
}

export const refuse = (check: RiskCheck, text: string): RiskRefusal => ({
  check,
  detail: `${check}: ${text}`,
});

/** The check's name is meant for programs. */
export const withoutName = ({ detail }: RiskRefusal): string => detail.replace(/^\w+: /, '');

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`;

/** Network delay is excluded already: a larger difference is a wrong clock, which also spoils ages and signatures. */
const MAX_CLOCK_SKEW_MS = 2_000;

const ownerNames: Record<SwitchOwner, string> = {
  service: "the service's switch",
  operator: "the operator's switch for the Organization",
  own: "the Organization's own switch",
};

type AskedOrder = Pick<RiskInput['order'], 'action' | 'contracts' | 'side' | 'ticker'>;

interface OrderFacts extends Pick<CandidateOrder, 'isReducing' | 'closable'> {
  input: { order: AskedOrder };
  facts: Permissions;
}

/** A read-only Organization can still close its positions. */
export function checkAccess({ input, facts, isReducing, closable }: OrderFacts): RiskRefusal | undefined {
  const check = 'market_access';
  if (facts.access === 'none') {
    const detail = 'The Organization has no access to markets. Ask the operator of this service for access.';
    return { check, code: 'entitlement_required', detail };
  }
  if (facts.access === 'trade' || isReducing) return undefined;
  const detail = `The Organization can read markets and close positions only. This order would ${describeOrder(input.order)}, of which ${formatDecimal(closable)} would close a position.`;
  return { check, code: 'entitlement_read_only', detail };
}

const describeOrder = ({ action, contracts, side, ticker }: AskedOrder): string =>
  `${action} ${formatCount(contracts, `${side} contract`)} of ${ticker}`;

/** `reduce_only` refuses every order that does not reduce a position. */
export function checkSwitches({ input, facts, isReducing, closable }: OrderFacts): RiskRefusal | undefined {
  const { switches } = facts;
  for (const owner of switchOwners)
    if (!switchStates.includes(switches[owner].state)) throw new RangeError(`${owner} switch is not known`);
  const halting = switchOwners.find((owner) => switches[owner].state === 'halt');
  if (halting)
    return refuse(
      'halt',
      `${ownerNames[halting]} is at halt${because(switches[halting].reason)}. No orders are accepted.`,
    );
  const reducing = switchOwners.find((owner) => switches[owner].state === 'reduce_only');
  if (!reducing || isReducing) return undefined;
  return refuse(
    'reduce_only',
    `${ownerNames[reducing]} allows only orders that reduce a position${because(switches[reducing].reason)}. This order would ${describeOrder(input.order)}, of which ${formatDecimal(closable)} would close a position.`,
  );
}

export function checkData({ input: { snapshot, at } }: CandidateOrder): RiskRefusal | undefined {
  const ageMs = at.getTime() - snapshot.asOf.getTime();
  if (Number.isNaN(ageMs)) throw new RangeError('the age of the data is not known');
  if (ageMs < -MAX_CLOCK_SKEW_MS)
    return refuse('clock_skew', `the market data is from ${seconds(-ageMs)} in the future.`);
  if (!(ageMs <= MAX_TRADING_AGE_MS))
    return refuse(
      'data_age',
      `the market data is ${seconds(ageMs)} old; the limit is ${seconds(MAX_TRADING_AGE_MS)}.`,
    );
  const { isTrading, clockSkewMs } = snapshot.data;
  if (clockSkewMs !== undefined && !Number.isFinite(clockSkewMs))
    throw new RangeError('the difference of the clocks is not known');
  if (clockSkewMs !== undefined && Math.abs(clockSkewMs) > MAX_CLOCK_SKEW_MS)
    return refuse(
      'clock_skew',
      `the venue's clock and the server's are ${seconds(Math.abs(clockSkewMs))} apart; the limit is ${seconds(MAX_CLOCK_SKEW_MS)}.`,
    );
  const source = snapshot.sources.find(({ part }) => part === 'markets');
  // A failing source is judged by the age of its data; one with unexpected answers is not trusted.
  if (source?.state !== 'ok' && source?.state !== 'failing')
    return refuse(
      'data_source',
      `the market data cannot be trusted: the source is ${source?.state ?? 'not known'}.`,
    );
  if (!isTrading) return refuse('exchange_paused', 'the exchange has paused trading.');
  return undefined;
}

const because = (reason: string | null): string => (reason === null ? '' : ` (${reason})`);

export function checkOrder({ input, facts, isReducing, closable }: CandidateOrder): RiskRefusal | undefined {
  const { limits, pending } = facts;
  const { ticker, side, action, contracts, limitPrice } = input.order;
  if (action === 'sell' && !isReducing)
    return refuse(
      'not_held',
      `this order would sell ${formatCount(contracts, `${side} contract`)} of ${ticker}, of which ${formatDecimal(closable)} are held and not being sold already.`,
    );
  if (!(contracts <= limits.maxOrderContracts))
    return refuse(
      'max_order_contracts',
      `this order is for ${formatCount(contracts, 'contract')} of ${ticker}; the limit is ${formatDecimal(limits.maxOrderContracts)}.`,
    );
  const best = bestPrice(input);
  if (best === undefined)
    return refuse(
      'price_collar',
      `there are no ${action === 'buy' ? 'asks' : 'bids'} for ${side} contracts of ${ticker}, so there is nothing to compare the limit price with.`,
    );
  const beyond = action === 'buy' ? limitPrice - best : best - limitPrice;
  if (!(beyond <= limits.priceCollar))
    return refuse(
      'price_collar',
      `the limit price ${formatPrice(limitPrice)} is ${formatPrice(beyond)} ${action === 'buy' ? 'above' : 'below'} the best price ${formatPrice(best)} of ${ticker}; the limit is ${formatPrice(limits.priceCollar)}.`,
    );
  const open = pending.length + 1;
  if (!(open <= limits.maxOpenOrders))
    return refuse(
      'max_open_orders',
      `this order would be open order ${open}; the limit is ${limits.maxOpenOrders}.`,
    );
  return undefined;
}

export function checkExposure({ input, facts }: CandidateOrder): RiskRefusal | undefined {
  const { order, market, snapshot, worstCost: spent } = input;
  const { limits, positions, pending } = facts;
  const { ticker, side, contracts } = order;
  // Null would compare as zero.
  if (typeof spent !== 'bigint' || spent < 0n) throw new RangeError('what the order may cost is not known');
  if (!(spent <= limits.maxOrderCost))
    return refuse(
      'max_order_cost',
      `this order may cost ${formatExactMoney(spent)}; the limit is ${formatExactMoney(limits.maxOrderCost)}.`,
    );

  const position = positionAfter(input, facts);
  if (!(position <= limits.maxPositionContracts))
    return refuse(
      'max_position_contracts',
      `this order would make ${formatCount(position, `${side} contract`)} of ${ticker}; the limit is ${formatDecimal(limits.maxPositionContracts)}.`,
    );

  const { eventTicker } = market;
  const held: Leg[] = positions.filter((one) => one.eventTicker === eventTicker);
  const out = pending.filter((one) => one.eventTicker === eventTicker).map(toLeg);
  const asked: Leg = { ticker, side, contracts, cost: grossCost(input) };
  const event = snapshot.events.find((one) => one.eventTicker === eventTicker);
  const ends = endsOf(
    eventTicker,
    event,
    [...held, ...out, asked].map((leg) => leg.ticker),
  );
  const before = worstCaseLoss(ends, held, out);
  const after = worstCaseLoss(ends, [...held, asked], out);
  // A hedge passes even if the limit is used up.
  if (!(after <= limits.maxEventLoss || after <= before))
    return refuse(
      'max_event_loss',
      `with this order ${eventTicker} could lose ${formatExactMoney(after)} in its worst outcome (${formatExactMoney(before)} without it); the limit is ${formatExactMoney(limits.maxEventLoss)}.`,
    );

  const lost = dayLossOf(facts, snapshot);
  if (!(lost < limits.maxDailyLoss && limits.maxDailyLoss > 0n))
    return refuse(
      'max_daily_loss',
      `${formatExactMoney(lost > 0n ? lost : 0n)} were lost since midnight UTC; the limit is ${formatExactMoney(limits.maxDailyLoss)}. Only orders that reduce positions are accepted.`,
    );
  return undefined;
}

/** At the limit price, fee included, even for contracts that close pairs. */
function grossCost({ order, market, snapshot }: RiskInput): Micros {
  const feeRule = feeRuleOf(snapshot.data, market);
  if (!feeRule) throw new RangeError(`the fee of ${market.seriesTicker} is not known`);
  return worstCost(feeRule, order);
}

/** The venue's own best price if paper orders have taken the whole book. */
function bestPrice({ order, book, snapshot }: RiskInput): Micros | undefined {
  for (const candidate of [book, snapshot.data.books.get(order.ticker)]) {
    if (!candidate) continue;
    const levels = order.action === 'buy' ? asksOf(candidate, order.side) : bidsOf(candidate, order.side);
    if (levels[0]) return levels[0].price;
  }
  return undefined;
}
