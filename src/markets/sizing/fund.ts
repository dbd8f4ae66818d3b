import type { Holding } from '../ledger/positions.js';
import { isPaid } from '../market/brackets.js';
import { partOf, valueOf } from '../market/contracts.js';
import { allInCost, isSupported, type FeeRule } from '../market/fees.js';
import { BALANCE_STEP, DOLLAR, ceilTo, shareOf, type Micros } from '../market/money.js';
import { inDollars, openStakeOf, outcomesOf, payoutOf, stakeOf, type Offer } from './offers.js';
import type { EventToSize, Fund, Headroom, Limit } from './model.js';

/** A sure gain must not be bought with the rest of the bankroll. */
export const toHeadroom = ({ cash, eventRoom, marketRoom }: EventToSize, fund: Fund): Headroom => ({
  cash,
  fund: fund.cash,
  event: eventRoom - fund.totalPaid,
  markets: fund.paid.map((paid) => marketRoom - paid),
});

/** In dollars: the fund's cash plus a dollar for each pair that could be closed; an upper bound. */
export const reachOf = ({ markets }: EventToSize, fund: Fund): number =>
  markets.reduce((sum, { held }) => sum + (held?.contracts ?? 0), Math.max(0, inDollars(fund.cash)));

/** Closing a pair frees its cost, but its dollar is not spendable yet, because orders do not execute together. */
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

/** At exact cost; undefined if no offer exceeds the headroom. */
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

/** Deducts the cost of the contracts that complete the pairs. */
function receivedFor(offer: Offer, contracts: number): Micros {
  const closing = Math.min(offer.closable, contracts);
  return valueOf(DOLLAR, closing) - stakeOf(offer, closing);
}

const freedBy = (paid: Micros, closable: number, contracts: number): Micros =>
  closable === 0 ? 0n : partOf(paid, Math.min(closable, contracts), closable);

export function toFund(event: EventToSize): Fund {
  const { markets, bankroll, kellyShare } = event;
  const outcomes = outcomesOf(event);
  const paid = markets.map(({ held, feeRule }) => paidFor(held, feeRule));
  const totalPaid = paid.reduce((sum, micros) => sum + micros, 0n);
  // Net spending plus bankroll is the same before and after each trade.
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
  return { whole, cash, probabilities: prudent(outcomes), wealth, spent, paid, totalPaid };
}

const LEAST_PROBABILITY = 1e-6;

function prudent(probabilities: readonly number[]): number[] {
  const raised = probabilities.map((p) => (p > 0 ? Math.max(p, LEAST_PROBABILITY) : 0));
  const total = raised.reduce((sum, p) => sum + p, 0);
  return raised.map((p) => p / total);
}

/** Fee included. Fees are concave, so one at the average price is at least that of an order at several prices. */
export function paidFor(held: Holding | undefined, feeRule: FeeRule | undefined): Micros {
  if (held === undefined || held.contracts === 0) return 0n;
  if (!isSupported(feeRule)) return held.cost;
  const each = Number(held.cost) / held.contracts;
  const fee = (allInCost(feeRule, each) - each / Number(DOLLAR)) * held.contracts;
  return ceilTo(held.cost + BigInt(Math.ceil(fee * Number(DOLLAR))), BALANCE_STEP);
}
