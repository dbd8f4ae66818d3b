import type { Database } from '../../core/db/client.js';
import { addDecimals, subtractDecimals } from '../../core/decimal.js';
import { formatShare, inSentence } from '../../core/pages/format.js';
import { SECOND_MS } from '../../core/time.js';
import { calendarNames, nameWindow } from '../window-name.js';
import { toCap } from './caps.js';
import { addFreeTimes, readLimits, type Subject } from './limit-queries.js';
import { remainingOf, startOfWindow, takenOf, type LimitState } from './limits.js';

function toLimitView(state: LimitState, nowMs: number) {
  const taken = takenOf(state);
  const whole = Number(state.quantity);
  const excess = subtractDecimals(taken, state.quantity);
  const window = nameWindow(state.window);
  const isRolling = calendarNames[state.window] === undefined;
  return {
    quantity: state.quantity,
    window,
    when: isRolling ? `in the ${inSentence(window)}` : inSentence(window),
    /** In milliseconds. */
    since: startOfWindow(state.window, nowMs),
    isBlock: state.enforcement === 'block',
    /** Shows the reset time to the second instead of as a day. */
    isRolling,
    cap: toCap({ unitCap: state.quantity, usedThisMonth: taken })!,
    used: addDecimals(state.used, state.ahead),
    held: state.held,
    remaining: remainingOf(state),
    excess: excess === '0' ? undefined : excess,
    /** A double, for drawing. */
    share: whole > 0 ? Number(taken) / whole : 1,
    percent: formatShare(taken, state.quantity),
    resetsAt:
      state.resetsAtMs === undefined
        ? undefined
        : new Date(Math.ceil(state.resetsAtMs / SECOND_MS) * SECOND_MS),
  };
}

/** With their subject. Empty if an entitlement has no limits. */
export async function readLimitViews<T extends Subject>(
  { shards }: Pick<Database, 'shards'>,
  subjects: T[],
  nowMs: number,
) {
  if (subjects.length === 0) return [];
  const { run } = await shards.locateOrganization(subjects[0]!.orgId);
  const states = await readLimits(run, subjects, nowMs);
  await addFreeTimes(run, subjects, states, nowMs);
  return states.map((own, i) => own.map((state) => ({ ...subjects[i]!, ...toLimitView(state, nowMs) })));
}
