import type { AppError, ErrorCode } from '../../core/errors.js';
import { toAddress } from '../../core/pages/address.js';
import type { FormFields, FormState } from '../../core/pages/form.js';
import { formatDecimal, formatMoney, formatPrice, inSentence } from '../../core/pages/format.js';
import { asksOf, worstCost, type Side } from '../market/book.js';
import { cityOf, expectedPayout, isPlaced, labelOf, type ListedMarket } from '../market/market.js';
import { CENT, DOLLAR, type Micros } from '../market/money.js';
import { nameOrder, type OrderRefusal, type Remedy } from '../orders/order.js';
import type { ListedOrder } from '../portfolio/order-queries.js';
import type { Action } from '../ledger/order-input.js';
import { timesInForce } from './order-view.js';
import { addressOfEvent, inCents, overviewAddress, ticketAddress } from './addresses.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { Freshness } from './freshness.js';
import { statusOf } from './ladder.js';
import { kindLabels, kindNames, marketStatusLabels } from './labels.js';
import { formatClimateDay, formatMoment, sourceNames } from './market-view.js';
import { isFairPrice } from '../settlement/settlement-event.js';
import { unplacedTitle } from './overview-view.js';
import type { Review, ReviewInput } from './review.js';
import { bestPrice, pickFields, ticketFields } from './ticket-form.js';
import { addCounts, isCount, MIN_CONTRACTS, ORDER_SIZE, perContract } from '../market/contracts.js';
import { feeRuleOf } from '../market/fees.js';
import type { RiskLimits } from '../risk/limits.js';
import type { TradingSwitch } from '../risk/switches.js';

export interface TicketFacts extends Pick<
  ReviewInput,
  'market' | 'book' | 'whole' | 'held' | 'cash' | 'probability'
> {
  snapshot: Snapshot;
  tradingSwitch: TradingSwitch;
  /** The fields, after what has happened to the order that the ticket changes. */
  given: FormFields;
  /** The order that the ticket changes, whose reserve is free. */
  replaced: ListedOrder | undefined;
  news: string | undefined;
  /** By resting orders. It is not part of the cash. */
  reserved: Micros;
  /** Before the first order, cash is the opening balance. */
  isAccountOpen: boolean;
  limits: Pick<RiskLimits, 'maxOrderContracts' | 'maxOrderCost'>;
}

export interface TicketInput extends TicketFacts {
  form: FormState;
  /** The user has not typed a limit. */
  isFollowing: boolean;
  /** The size was typed, or is what is held. */
  hasOwnSize: boolean;
  review: Review | null;
  refusal: OrderRefusal | undefined;
  freshness: Freshness;
  mayOrder: boolean;
  /** If false, positions may only be sold. */
  mayOpen: boolean;
  role: string;
  error: AppError | undefined;
  now: Date;
}

export function toTicketView(input: TicketInput) {
  const { market, book, held, cash, reserved, isAccountOpen, form } = input;
  const side = form.values.side === 'no' ? 'no' : 'yes';
  const end = toEnd(input);
  const typed = Number(form.values.contracts);
  const isTyped = input.hasOwnSize && form.values.size !== 'suggested';
  /** For another purchase. */
  const size = isTyped && form.values.action === 'buy' && isCount(typed) && typed > 0 ? typed : undefined;
  return {
    end,
    isTyped,
    composed: {
      ticker: market.ticker,
      href: toAddress(ticketAddress(market.ticker), toComposed(input)),
      size,
    },
    action: ticketAddress(market.ticker),
    replaced: input.replaced && nameOrder(input.replaced),
    ...toSubject(market),
    rules: toRules(market),
    closeTime: market.closeTime,
    tabs: end ? [] : toTabs(input, size),
    cash,
    reserved,
    hasTaken: book !== input.whole,
    isAccountOpen,
    held: held && {
      text: `${held.contracts} ${held.side.toUpperCase()}`,
      average: perContract(held.cost, held.contracts),
    },
    form: withOwnLimit(form, input.limits.maxOrderContracts),
    mostContracts: input.limits.maxOrderContracts,
    fieldNames: ticketFields,
    timesInForce,
    limit: toLimit(input),
    follows:
      input.isFollowing &&
      (input.hasOwnSize ? 'The limit follows the price.' : 'Both follow the price until you edit them.'),
    slider: sliderOf(input, side),
    review: end ? null : input.review,
    refusal: toRefusal(input),
    blocked: blockedBecause(input),
    problem: input.error && problemOf(input.error, input),
  };
}

/** The range ends at the Organization's own limit. */
function withOwnLimit(form: FormState, most: number): FormState {
  const { contracts, ...errors } = form.errors;
  const own = `From ${MIN_CONTRACTS} to ${formatDecimal(most)} (your risk limit for one order), at most two decimals.`;
  return contracts?.includes(ORDER_SIZE.slice(1)) ? { ...form, errors: { contracts: own, ...errors } } : form;
}

/** Null while the market can still take orders. */
function toEnd({ market, now }: TicketInput) {
  const { status, closeTime } = market;
  if (status === 'initialized' || status === 'inactive' || (status === 'active' && now < closeTime))
    return null;
  const value = expectedPayout(market);
  return {
    ...(statusOf(market) ?? marketStatusLabels.closed),
    text:
      value === null || isFairPrice(value)
        ? ''
        : `Each ${value === 0n ? 'NO' : 'YES'} ${status === 'finalized' ? 'paid' : 'pays'} ${formatPrice(DOLLAR)}.`,
  };
}

function toLimit({ market, isFollowing }: TicketInput) {
  const step = market.priceRanges.map((range) => range.step).reduce((a, b) => (b < a ? b : a));
  return {
    isFollowing,
    attributes: {
      min: inCents(step),
      max: inCents(DOLLAR - step),
      step: inCents(step),
      inputmode: 'decimal',
      autocomplete: 'off',
      ...(isFollowing ? { 'data-follows': '' } : {}),
    },
  };
}

/** Up to what the book, the cash and the limits of one order allow, whatever is typed. */
function sliderOf({ snapshot, market, book, held, cash, limits, form }: TicketInput, side: Side) {
  if (form.values.action === 'sell')
    return { most: Math.floor(held?.contracts ?? 0), because: 'all you hold' };
  const feeRule = feeRuleOf(snapshot.data, market);
  const money = cash < limits.maxOrderCost ? cash : limits.maxOrderCost;
  let [offered, paid] = [0, 0];
  for (const { price, contracts } of feeRule ? asksOf(book, side) : []) {
    offered = addCounts(offered, contracts);
    const affordable = Number(money / worstCost(feeRule!, { contracts: 1, limitPrice: price }));
    paid = Math.max(paid, Math.min(offered, affordable));
  }
  const most = Math.floor(Math.min(paid, limits.maxOrderContracts));
  if (most === limits.maxOrderContracts) return { most, because: 'your risk limit for one order' };
  const [best] = asksOf(book, side);
  // Below the offers, more can rest than is offered, and the cash covers more.
  if (best && Number(form.values.limitPrice) < Number(inCents(best.price))) return { most, because: null };
  if (most === Math.floor(offered)) return { most, because: 'all that is offered' };
  if (money === cash) return { most, because: 'all your cash' };
  return { most, because: `your risk limit of ${formatMoney(limits.maxOrderCost)} for one order` };
}

function toSubject(market: ListedMarket) {
  if (isPlaced(market)) {
    const { station, kind } = market;
    return {
      heading: `${station.city}: ${labelOf(market)}`,
      about: `${kindLabels[kind].value} ${kind === 'hourly' ? 'at' : 'of'} ${formatMoment(market)}.`,
      back: { href: addressOfEvent(market), text: 'All outcomes' },
    };
  }
  const { date, kind, label } = market;
  const city = cityOf(market);
  // The question stands beside the ticket.
  const short = date && kind === 'rain' && city === label && `${kindNames[kind]}, ${city}`;
  const about = [!short && kindNames[kind], !short && city, date && formatClimateDay(date)];
  return {
    heading: short || unplacedTitle(market),
    about: `${about.filter(Boolean).join(', ')}.`,
    back: { href: overviewAddress('others'), text: 'All other markets' },
  };
}

const toRules = ({ settlement: { source, rulesText } }: ListedMarket) => ({
  source: source === null ? null : sourceNames[source],
  text: rulesText === '' ? null : rulesText,
});

function toTabs({ market, book, held, form, mayOpen }: TicketInput, size: number | undefined) {
  const { side: chosenSide, action: chosenAction } = form.values;
  const tab = (action: Action, side: Side, contracts: number | undefined) => ({
    label: `${action === 'buy' ? 'Buy' : 'Sell'} ${side.toUpperCase()}`,
    price: bestPrice(book, side, action),
    href: ticketAddress(market.ticker, { side, action, contracts }),
    isCurrent: chosenSide === side && chosenAction === action,
    key: action === 'buy' ? side[0] : side === held?.side ? 's' : undefined,
  });
  const sales = held ? [held.side] : [];
  if (mayOpen && chosenAction === 'sell' && !sales.includes(chosenSide as Side))
    sales.push(chosenSide as Side);
  return [
    ...(mayOpen ? [tab('buy', 'yes', size), tab('buy', 'no', size)] : []),
    ...sales.map((side) => tab('sell', side, undefined)),
  ];
}

/** The order without what follows the prices. */
const toComposed = ({ form: { values }, isFollowing, hasOwnSize }: TicketInput) => ({
  ...pickFields(values),
  ...(isFollowing && { limitPrice: undefined }),
  ...(!hasOwnSize && { contracts: undefined }),
});

/** With a link to an order that would pass. */
function toRefusal(input: TicketInput) {
  const { refusal, market, isFollowing, limits, form } = input;
  if (!refusal) return undefined;
  const { error } = refusal;
  const atMost = limits.maxOrderContracts;
  const isTooLarge = isFollowing && error.code === 'risk_limit' && Number(form.values.contracts) > atMost;
  // The limit reaches deep into the book, so fewer contracts pass only at the limit that follows them.
  const remedy = refusal.remedy ?? (isTooLarge && { field: 'contracts' as const, atMost, error });
  // The reader chose the limit, so the price did not move away from it.
  const isChosen = error.code === 'price_moved' && !isFollowing;
  const title = isChosen
    ? 'Your limit does not fit the order book'
    : (problems[error.code]?.[0] ?? 'This order would be refused');
  const detail = detailOf(error, market);
  if (!remedy) return { title, detail, remedy: undefined };
  const [value, shown, text] =
    remedy.field === 'contracts'
      ? [remedy.atMost, formatDecimal(remedy.atMost), atMostOf(remedy, error, market)]
      : [
          inCents(remedy.price),
          formatPrice(remedy.price),
          `Limit: ${remedy.bound} ${formatPrice(remedy.price)} now.`,
        ];
  const href = toAddress(ticketAddress(market.ticker), { ...toComposed(input), [remedy.field]: value });
  return { title, detail, remedy: { text, use: `Use ${shown}`, href } };
}

/** Says which limit allows no more, unless it is the one that refused the order. */
function atMostOf(
  { atMost, error }: Extract<Remedy, { field: 'contracts' }>,
  refused: AppError,
  market: ListedMarket,
): string {
  if (refused.code === 'insufficient_position') return '';
  const nameOf = ({ code, message }: AppError) => `${code} ${message.split(':')[0]}`;
  const because =
    error === undefined || nameOf(error) === nameOf(refused)
      ? '.'
      : `. With one more, ${inSentence(detailOf(error, market))}`;
  return `Contracts: at most ${formatDecimal(atMost)} now${because}`;
}

/** Null if the page can place an order. */
function blockedBecause({ mayOrder, role, freshness, tradingSwitch, market, now }: TicketInput) {
  if (market.status !== 'active' || now >= market.closeTime) return 'This market is not open for orders.';
  if (market.untradable !== undefined) return `This market takes no orders: ${market.untradable}.`;
  if (freshness.closedBecause !== null) return freshness.closedBecause;
  if (tradingSwitch.state === 'halt')
    return 'Trading is halted: every order is refused until it is opened again.';
  if (!mayOrder)
    return `Your role is ${role}. You can view quotes, but only owners and admins can place orders.`;
  return null;
}

const problems: Partial<Record<ErrorCode, [title: string, advice: string]>> = {
  price_moved: [
    'The price has moved',
    'Check the new quote, adjust your limit if needed, and place the order again.',
  ],
  risk_limit: [
    'A limit stops this order',
    'Reduce the order, or ask the operator of this service to change the limit.',
  ],
  entitlement_read_only: [
    'Your Organization may not open positions',
    'Sell what you hold, or ask the operator of this service to let your Organization trade.',
  ],
  insufficient_funds: [
    'The cash does not cover this order',
    'Buy fewer contracts, lower the limit, or sell something first.',
  ],
  insufficient_position: ['You do not hold that many contracts', 'Sell no more than you hold.'],
  market_closed: ['This market is not taking orders', 'See the other markets of the day.'],
  market_data_stale: [
    'The prices are too old to trade on',
    'Wait for new prices. This page updates automatically.',
  ],
  market_data_unavailable: [
    'There are no prices yet',
    'Wait for the first prices. This page updates automatically.',
  ],
  idempotency_conflict: [
    'This form was already used for another order',
    'No order was placed. Check the quote and place the order again if you want it.',
  ],
  live_trading_disabled: ['Live trading is not available here', 'Orders on this page are paper orders.'],
};

function problemOf(error: AppError, { market, news }: TicketInput) {
  const found = problems[error.code];
  return found && { title: found[0], detail: detailOf(error, market), advice: news ?? found[1] };
}

/** The check's name and the ticker are meant for programs. */
function detailOf({ code, message }: AppError, market: ListedMarket): string {
  const text = message.replaceAll(market.ticker, labelOf(market));
  return inCentsOf(
    code === 'risk_limit' ? text.replace(/^\w+: (.)/u, (_, first: string) => first.toUpperCase()) : text,
  );
}

/** Rounded away from the limit that was passed: a cost up, what is available down. */
const inCentsOf = (text: string): string =>
  text.replaceAll(/\$([\d,]+\.\d\d)\d+( is available)?/g, (_, shown: string, available = '') => {
    const cents = BigInt(shown.replaceAll(/[,.]/g, '')) + (available === '' ? 1n : 0n);
    return `${formatMoney(cents * CENT)}${available}`;
  });

/** The form shows these errors with a fresh quote. */
export const ticketCodes: ReadonlySet<ErrorCode> = new Set(Object.keys(problems) as ErrorCode[]);
