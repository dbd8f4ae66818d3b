import type { EventToSize } from './event.js';
import { outcomesOf, type Fund } from './fund.js';
import { type Offer } from './offers.js';
import type { Optimum } from './optimum.js';
import type { Rooms } from './rooms.js';

/** Further from the true optimum, in growth, no size is used. */
export const MAX_GAP = 1e-9;
const NO_CONTRACTS = 1e-6;

/** Why nothing of an event can be sized; undefined if something can. */
export function judgeEvent(event: EventToSize, { whole, wealth }: Fund): string | undefined {
  const { kellyShare } = event;
  const probabilities = outcomesOf(event);
  const total = probabilities.reduce((sum, p) => sum + p, 0);
  if (!probabilities.every((p) => p >= 0) || !(Math.abs(total - 1) < 1e-6))
    return 'the probabilities of the event do not sum to one';
  if (!(kellyShare > 0 && kellyShare <= 1)) return 'the Kelly share is not between 0 and 1';
  if (whole <= 0n) return 'there is no bankroll';
  if (Math.min(...wealth) < 0.000_001 * Math.max(...wealth))
    return 'more of the event is held than the share of the bankroll that may be lost on it';
  return undefined;
}

/** Why nothing of an offer is bought. */
export function reasonAgainst(offer: Offer, index: number, optimum: Optimum, rooms: Rooms): string {
  const wanted = optimum.contracts[index]!;
  if (!(optimum.gap <= MAX_GAP)) return 'its best size could not be proved';
  if (wanted >= 1 - 1e-7) return 'its whole fee costs more than it adds';
  if (wanted > NO_CONTRACTS) return 'its stake does not pay for one contract';
  if (!(offer.edge > 0)) return `edge ${signed(offer.edge)} after fee`;
  if (rooms.markets[offer.market]! <= 0n) return 'the cap of the market is used up';
  if (rooms.event <= 0n) return 'the cap of the event is used up';
  if (rooms.cash <= 0n || rooms.fund <= 0n) return 'there is no cash left';
  const limit = optimum.limitedBy[index];
  if (limit === 'market' || limit === 'event') return `better purchases use up the cap of the ${limit}`;
  if (limit === 'cash') return 'better purchases use up the cash';
  return 'the other purchases of the event make it not worth its cost';
}

const signed = (edge: number): string => `${edge < 0 ? '−' : '+'}${Math.abs(edge).toFixed(3)}`;
