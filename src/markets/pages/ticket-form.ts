import { z } from 'zod';
import { minuteField, parseInput } from '../../core/http/validate.js';
import { fieldError, refuseIgnored, textField, type FormFields } from '../../core/pages/form.js';
import { formatPrice } from '../../core/pages/format.js';
import {
  acceptedTimesInForce,
  asksOf,
  bidsOf,
  mayRest,
  readTimeInForce,
  type Level,
  type MarketableOrder,
  type OrderBook,
  type Side,
} from '../market/book.js';
import { isOnTick, type Market } from '../market/market.js';
import { parseDollars, type Micros } from '../market/money.js';
import type { Action, RestTerms } from '../ledger/order-input.js';
import { cancelCauses } from '../ledger/orders-table.js';
import type { Holding } from '../ledger/positions.js';
import { inCents } from './addresses.js';
import { addCounts, contractsText, subtractCounts } from '../market/contracts.js';
import { describeMissed, mayReplace } from '../orders/order.js';
import type { ListedOrder } from '../portfolio/order-queries.js';

/** A purchase starts with at most as many, and with what the best price fills. */
const DEFAULT_CONTRACTS = 10;

const priceText = z
  .string()
  .regex(/^(?=.*[1-9])\d{1,2}(\.\d{1,4})?$/, 'must be more than 0 and less than 100 cents, like 42');

const schema = z.object({
  side: z.enum(['yes', 'no'], 'must be YES or NO'),
  action: z.enum(['buy', 'sell'], 'must be a purchase or a sale'),
  contracts: contractsText,
  limitPrice: priceText,
  timeInForce: z.enum(acceptedTimesInForce, 'must be one of the options').transform(readTimeInForce),
  expiresAt: minuteField.optional(),
  postOnly: z.enum(['no', 'yes'], 'must be one of the options'),
  observed: z.enum(['cancel', 'keep'], 'must be one of the options'),
});

/** In the order of the form's fields. */
export const ticketFields = [
  ...(Object.keys(schema.shape) as (keyof z.infer<typeof schema>)[]),
  ...(['size', 'replaces', 'filled'] as const),
];

export const pickFields = (fields: FormFields): Record<string, string | undefined> =>
  Object.fromEntries(ticketFields.map((name) => [name, textField(fields, name)]));

/** The given fields of a ticket that changes an order, after what has happened to the order since they were filled in. */
export function followOrder(given: FormFields, order: ListedOrder): { given: FormFields; news?: string } {
  const news = describeMissed(order);
  if (!mayReplace(order)) return { given: { ...given, replaces: '', filled: '' }, news };
  const filled = String(order.filledContracts);
  const contracts = String(subtractCounts(order.contracts, order.filledContracts));
  const seen = textField(given, 'filled');
  if (seen !== undefined)
    return seen === filled ? { given } : { given: { ...given, contracts, filled }, news };
  const terms = {
    side: order.side,
    action: order.action,
    contracts,
    limitPrice: inCents(order.limitPrice),
    timeInForce: order.timeInForce,
    expiresAt: order.expiresAt?.toISOString().slice(0, 16) ?? '',
    postOnly: order.postOnly ? 'yes' : 'no',
    observed: order.cancelOn.includes('observation') ? 'cancel' : 'keep',
  };
  return { given: { ...terms, ...given, filled } };
}

/** An order with a time ends at the market's close, unless another time is given. */
export function fillTicket(given: FormFields, book: OrderBook, held: Holding | undefined, closeTime?: Date) {
  const offered = asksOf(book, 'yes').length === 0 && asksOf(book, 'no').length > 0 ? 'no' : 'yes';
  const side = readWord(given, 'side', ['yes', 'no'], held && given.action === 'sell' ? held.side : offered);
  const action = readWord(given, 'action', ['buy', 'sell'], 'buy');
  const toSell = action === 'sell' && held?.side === side ? held.contracts : undefined;
  const levels = (action === 'buy' ? asksOf : bidsOf)(book, side as Side);
  const typed = textField(given, 'contracts');
  const isTooMany = given.done !== undefined && toSell !== undefined && Number(typed) > toSell;
  // After a sale, the size is at most what is still held.
  const contracts = (isTooMany ? undefined : typed) ?? String(toSell ?? contractsAt(levels[0]));
  const price = priceToFill(levels, Number(contracts));
  const timeInForce = readWords(textField(given, 'timeInForce') ?? 'immediate_or_cancel');
  const closesAt = timeInForce === 'good_till_time' && closeTime?.toISOString().slice(0, 16);
  return {
    side,
    action,
    contracts,
    /** Until the reader edits a size that the page chose. */
    size: typed && given.size === 'suggested' ? 'suggested' : '',
    limitPrice: textField(given, 'limitPrice') ?? (price === undefined ? '' : inCents(price)),
    timeInForce,
    expiresAt: textField(given, 'expiresAt') || closesAt || '',
    postOnly: textField(given, 'postOnly') ?? 'no',
    observed: textField(given, 'observed') ?? 'cancel',
  };
}

/** Unknown words stay as they are, so that the form shows what was refused. */
const readWords = (text: string): string => schema.shape.timeInForce.safeParse(text).data ?? text;

/** Replaces an invalid value in the query string with the fallback. Posted forms are validated instead. */
const readWord = (given: FormFields, name: string, words: string[], fallback: string): string => {
  const word = textField(given, name);
  return word !== undefined && words.includes(word) ? word : fallback;
};

/** Undefined if nothing is offered. */
export const bestPrice = (book: OrderBook, side: Side, action: Action): Micros | undefined =>
  (action === 'buy' ? asksOf(book, side) : bidsOf(book, side))[0]?.price;

/** The last level needed, or the deepest one if the book is too thin. */
function priceToFill(levels: readonly Level[], contracts: number): Micros | undefined {
  let filled = 0;
  let price = levels[0]?.price;
  for (const level of levels) {
    if (!(filled < contracts)) break;
    filled = addCounts(filled, level.contracts);
    price = level.price;
  }
  return price;
}

export const contractsAt = (best: Level | undefined): number =>
  Math.min(DEFAULT_CONTRACTS, best?.contracts ?? DEFAULT_CONTRACTS);

export function readTicket(
  fields: FormFields,
  { priceRanges }: Pick<Market, 'priceRanges'>,
): MarketableOrder & { rest?: RestTerms } {
  const given = pickFields(fields);
  const { contracts, limitPrice, expiresAt, postOnly, observed, ...words } = parseInput(schema, {
    ...given,
    postOnly: given.postOnly ?? 'no',
    observed: given.observed ?? 'cancel',
  });
  const price = parseDollars(limitPrice) / 100n;
  if (!isOnTick(priceRanges, price)) {
    const steps = priceRanges.map(({ step }) => formatPrice(step));
    throw fieldError('limitPrice', `must be a multiple of ${[...new Set(steps)].join(' or ')} here`);
  }
  const order = { ...words, contracts: Number(contracts), limitPrice: price };
  const isTimed = order.timeInForce === 'good_till_time';
  refuseIgnored(fields, 'expiresAt', isTimed, 'choose good till time');
  if (!mayRest(order.timeInForce)) {
    if (postOnly === 'yes') throw fieldError('postOnly', 'is only for orders that rest in the book');
    return order;
  }
  if (isTimed && !expiresAt) throw fieldError('expiresAt', 'is required for good till time');
  const rest = {
    expiresAt: expiresAt ?? null,
    postOnly: postOnly === 'yes',
    cancelOn: cancelCauses.filter((cause) => observed === 'cancel' || cause !== 'observation'),
  };
  return { ...order, rest };
}
