import type { Holding } from '../ledger/positions.js';
import { isPaid } from '../market/brackets.js';
import { partOf, valueOf } from '../market/contracts.js';
import { allInCost, isSupported, type FeeRule } from '../market/fees.js';
import { BALANCE_STEP, DOLLAR, ceilTo, shareOf, type Micros } from '../market/money.js';
import type { EventToSize } from './event.js';
import type { Limit } from './joint.js';
import { inDollars, openStakeOf, outcomesOf, payoutOf, stakeOf, type Offer } from './offers.js';

/** What may still be spent: of cash, on the event, and on each market. Below zero where more is held than may be. */
export interface Headroom {
  cash: Micros;
  fund: Micros;
  event: Micros;
  markets: Micros[];
}

/** No more than the fund has is spent, so that a sure gain is not bought with the rest of the bankroll. */
export const toHeadroom = ({ cash, eventRoom, marketRoom }: EventToSize, fund: Fund): Headroom => ({
  cash,
  fund: fund.cash,
  event: eventRoom - fund.totalPaid,
  markets: fund.paid.map((paid) => marketRoom - paid),
});

/** What could be spent at the very most, in dollars: the fund's cash, and a dollar for each pair that is closed. */
export const reachOf = ({ markets }: EventToSize, fund: Fund): number =>
  markets.reduce((sum, { held }) => sum + (held?.contracts ?? 0), Math.max(0, inDollars(fund.cash)));

/**
 * As limits on the offers' legs. Closing a pair brings its dollar at once and frees what was paid for the contract
 * that is closed. The dollar is the fund's, but no cash to go by: orders are not carried out together.
 */
export function toLimits(headroom: Headroom, offers: readonly Offer[], { paid }: Fund) {
  const legs = offers.flatMap((offer) => offer.legs);
  const staked = offers.flatMap(({ legs, market, closable }) => {
    const freed = inDollars(paid[market]!) / closable;
    return legs.map(({ cost, isClosing }) => (isClosing ? -freed : cost));
  });
  const markets = headroom.markets.map((room, market): Limit => ({
    room: inDollars(room),
    weights: legs.map((leg, l) => (leg.market === market ? staked[l]! : 0)),
  }));
  return {
    fund: {
      room: inDollars(headroom.fund),
      weights: legs.map(({ cost, isClosing }) => (isClosing ? cost - 1 : cost)),
    },
    cash: {
      room: inDollars(headroom.cash),
      weights: legs.map(({ cost, isClosing }) => (isClosing ? 0 : cost)),
    },
    event: { room: inDollars(headroom.event), weights: staked },
    markets,
  };
}

/** Which room the purchases go beyond, at their exact cost; undefined if none. */
export function exceededHeadroom(
  headroom: Headroom,
  offers: readonly Offer[],
  contracts: readonly number[],
  { paid }: Fund,
): ((offer: Offer) => boolean) | undefined {
  const opened = offers.map((offer, i) => openStakeOf(offer, contracts[i]!));
  const freed = offers.map(({ market, closable }, i) => freedBy(paid[market]!, closable, contracts[i]!));
  const sum = (amounts: readonly Micros[], isCounted: (i: number) => boolean = () => true) =>
    amounts.reduce((total, micros, i) => (isCounted(i) ? total + micros : total), 0n);
  const total = sum(opened);
  const received = sum(offers.map((offer, i) => receivedFor(offer, contracts[i]!)));
  if (
    total > 0n &&
    (total > headroom.cash || total - received > headroom.fund || total - sum(freed) > headroom.event)
  )
    return () => true;
  for (const [market, room] of headroom.markets.entries()) {
    const isHere = (i: number) => offers[i]!.market === market;
    const here = sum(opened, isHere);
    if (here > 0n && here - sum(freed, isHere) > room) return (offer) => offer.market === market;
  }
  return undefined;
}

/** For the pairs that are closed, less what their second halves cost. */
function receivedFor(offer: Offer, contracts: number): Micros {
  const closing = Math.min(offer.closable, contracts);
  return valueOf(DOLLAR, closing) - stakeOf(offer, closing);
}

const freedBy = (paid: Micros, closable: number, contracts: number): Micros =>
  closable === 0 ? 0n : partOf(paid, Math.min(closable, contracts), closable);

/**
 * The part of the bankroll that is put at stake, as a purse of its own: the Kelly share of everything, and what is held of the
 * event was bought out of it. So what has been bought is not bought again: after a purchase the purse has its contracts instead
 * of its cash, and the same optimum.
 */
export interface Fund {
  /** What it was before anything was bought. */
  whole: Micros;
  /** What is left of it to spend. */
  cash: Micros;
  /** Of the outcomes: what is possible is not held for less likely than one in a million, so that no tail's last digits are bet on. */
  probabilities: number[];
  /** Dollars in each outcome if nothing more is bought. */
  wealth: number[];
  /** Cash that went into the event and has not come back, by market. */
  spent: Micros[];
  /** What was paid for what is held, by market and in all. */
  paid: Micros[];
  totalPaid: Micros;
}

export function toFund(event: EventToSize): Fund {
  const { markets, bankroll, kellyShare } = event;
  const outcomes = outcomesOf(event);
  const paid = markets.map(({ held, feeRule }) => paidFor(held, feeRule));
  const totalPaid = paid.reduce((sum, micros) => sum + micros, 0n);
  // What has gone into the event and the bankroll are the same in sum before and after every trade.
  const spent = markets.map((market, i) => market.spent ?? paid[i]!);
  const totalSpent = spent.reduce((sum, micros) => sum + micros, 0n);
  const whole = shareOf(bankroll + totalSpent, kellyShare);
  const cash = whole - totalSpent;
  const wealth = outcomes.map((_, outcome) => {
    const pays = markets.reduce((sum, { held }, i) => {
      const isWon = held !== undefined && isPaid(payoutOf(markets, i), outcome) === (held.side === 'yes');
      return isWon ? sum + valueOf(DOLLAR, held.contracts) : sum;
    }, cash);
    return inDollars(pays);
  });
  const probabilities = prudent(outcomes);
  return { whole, cash, probabilities, wealth, spent, paid, totalPaid };
}

const LEAST_PROBABILITY = 1e-6;

function prudent(probabilities: readonly number[]): number[] {
  const raised = probabilities.map((p) => (p > 0 ? Math.max(p, LEAST_PROBABILITY) : 0));
  const total = raised.reduce((sum, p) => sum + p, 0);
  return raised.map((p) => p / total);
}

/**
 * What is held is known at its price without the fee. That of the average price is taken, which is at least what was charged for
 * one order at several prices: the fee is concave in the price.
 */
export function paidFor(held: Holding | undefined, feeRule: FeeRule | undefined): Micros {
  if (held === undefined || held.contracts === 0) return 0n;
  if (!isSupported(feeRule)) return held.cost;
  const each = Number(held.cost) / held.contracts;
  const fee = (allInCost(feeRule, each) - each / Number(DOLLAR)) * held.contracts;
  return ceilTo(held.cost + BigInt(Math.ceil(fee * Number(DOLLAR))), BALANCE_STEP);
}
