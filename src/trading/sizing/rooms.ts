import { DOLLAR, type Micros } from '../market/money.js';
import type { EventToSize } from './event.js';
import type { Fund } from './fund.js';
import type { Limit } from './joint.js';
import { inDollars, openStakeOf, stakeOf, type Offer } from './offers.js';
import { partOf, valueOf } from '../market/contracts.js';

/** What may still be spent: of cash, on the event, and on each market. Below zero where more is held than may be. */
export interface Rooms {
  cash: Micros;
  fund: Micros;
  event: Micros;
  markets: Micros[];
}

/** No more than the fund has is spent, so that a sure gain is not bought with the rest of the bankroll. */
export const toRooms = ({ cash, eventRoom, marketRoom }: EventToSize, fund: Fund): Rooms => ({
  cash,
  fund: fund.cash,
  event: eventRoom - fund.totalPaid,
  markets: fund.paid.map((paid) => marketRoom - paid),
});

/** What could be spent at the very most, in dollars: the fund's cash, and a dollar for each pair that is closed. */
export const reachOf = ({ markets }: EventToSize, fund: Fund): number =>
  markets.reduce((sum, { held }) => sum + (held?.contracts ?? 0), Math.max(0, inDollars(fund.cash)));

/**
 * The rooms as limits on the offers' legs. Whoever closes a pair gets its dollar at once and frees what was paid for the contract
 * that is closed. The dollar is the fund's, but no cash to go by: orders are not carried out together.
 */
export function toLimits(rooms: Rooms, offers: readonly Offer[], { paid }: Fund) {
  const legs = offers.flatMap((offer) => offer.legs);
  const staked = offers.flatMap(({ legs, market, closable }) => {
    const freed = inDollars(paid[market]!) / closable;
    return legs.map(({ cost, isClosing }) => (isClosing ? -freed : cost));
  });
  const markets = rooms.markets.map((room, market): Limit => ({
    room: inDollars(room),
    weights: legs.map((leg, l) => (leg.market === market ? staked[l]! : 0)),
  }));
  return {
    fund: {
      room: inDollars(rooms.fund),
      weights: legs.map(({ cost, isClosing }) => (isClosing ? cost - 1 : cost)),
    },
    cash: { room: inDollars(rooms.cash), weights: legs.map(({ cost, isClosing }) => (isClosing ? 0 : cost)) },
    event: { room: inDollars(rooms.event), weights: staked },
    markets,
  };
}

/** Which room the purchases go beyond, at their exact cost; undefined if none. */
export function exceededRoom(
  rooms: Rooms,
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
  if (total > 0n && (total > rooms.cash || total - received > rooms.fund || total - sum(freed) > rooms.event))
    return () => true;
  for (const [market, room] of rooms.markets.entries()) {
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
