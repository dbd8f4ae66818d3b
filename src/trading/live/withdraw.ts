import { setTimeout as sleep } from 'node:timers/promises';
import type { RestingOrder, VenueOutcome } from '../orders/order.js';
import { readChange, readFailure, type ChangeVerdict } from './answer.js';
import { findVenueStatus } from './order-status.js';
import { CONCLUDE_MS, type SendDeps } from './send.js';
import type { VenueOrderId } from './venue.js';

/**
 * Takes an order out of the venue's book, or all but `remaining` contracts of it, and says what is true of it afterwards: what
 * the venue answers to the request is never believed, because a fill may have crossed it. The request asks for a state, so it is
 * sent again where it may have been lost. Never rejects: what is not known is `unknown`.
 */
export async function withdraw(
  deps: SendDeps,
  order: RestingOrder,
  remaining: number,
  stopping: AbortSignal,
): Promise<VenueOutcome> {
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(CONCLUDE_MS)]);
  let reason = 'the venue was not asked yet';
  try {
    let verdict: ChangeVerdict | undefined;
    let { venueOrderId } = order;
    for (const pauseMs of [0, ...deps.lookUpPausesMs]) {
      if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
      if (venueOrderId !== null && mayAsk(verdict)) {
        const { ticker } = order;
        verdict = await ask(deps, { venueOrderId, ticker }, remaining, signal);
        reason = verdict.kind === 'told' ? NOT_SHOWN : verdict.reason;
        if (verdict.kind !== 'told')
          deps.log.warn({ orderId: order.id, reason }, 'an order that was to leave the book is looked up');
      }
      const found = await findVenueStatus(deps, order, signal);
      if (found.kind === 'final') return found.outcome;
      if (found.kind === 'incomplete') reason = found.reason;
      if (found.kind !== 'resting') continue;
      if (remaining > 0 && found.remaining <= remaining) return found.outcome;
      ({ venueOrderId } = found.outcome);
    }
  } catch (error) {
    deps.log.warn(
      { err: error, orderId: order.id },
      'an order that was to leave the book cannot be looked up',
    );
    if (stopping.aborted) reason = 'the service is stopping';
  }
  return {
    kind: 'unknown',
    reason: `${remaining === 0 ? 'Cancelling' : 'Decreasing'} it is not confirmed: ${reason}.`,
  };
}

const NOT_SHOWN = 'the venue has taken the request and still shows the order as it was';

/** Once the venue has had it, or will not have it, asking again changes nothing. */
const mayAsk = (verdict: ChangeVerdict | undefined): boolean =>
  verdict === undefined ||
  verdict.kind === 'unclear' ||
  (verdict.kind === 'refused' && verdict.isBusy === true);

async function ask(
  { venue, close }: SendDeps,
  order: VenueOrderId,
  remaining: number,
  signal: AbortSignal,
): Promise<ChangeVerdict> {
  await venue.takeTurn(signal);
  try {
    const answer = await (remaining === 0 ? venue.cancelOrder(order) : venue.decreaseOrder(order, remaining));
    const verdict = readChange(answer, order.venueOrderId);
    const what = remaining === 0 ? 'a cancellation' : 'a decrease';
    if (verdict.kind === 'unexpected') close(`the venue's answer to ${what}: ${verdict.reason}`);
    return verdict;
  } catch (error) {
    return readFailure(error);
  }
}
