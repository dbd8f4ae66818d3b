import type { Database } from '../../core/db/client.js';
import { addDecimals, subtractDecimals } from '../../core/decimal.js';
import { formatShare } from '../../core/pages/format.js';
import { SECOND_MS } from '../../core/time.js';
import { calendarNames, nameWindow } from '../window-name.js';
import { addFreeTimes, readLimits, type Subject } from './limit-queries.js';
import { remainingOf, takenOf, type LimitState } from './limits.js';

function toLimitView(state: LimitState) {
  const taken = takenOf(state);
  const whole = Number(state.quantity);
  const excess = subtractDecimals(taken, state.quantity);
  return {
    quantity: state.quantity,
    window: nameWindow(state.window),
    isBlock: state.enforcement === 'block',
    /** Shows the reset time to the second instead of as a day. */
    isRolling: calendarNames[state.window] === undefined,
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

/** Empty if an entitlement has no limits. */
export async function readLimitViews(
  { shards }: Pick<Database, 'shards'>,
  subjects: Subject[],
  nowMs: number,
) {
  if (subjects.length === 0) return [];
  const { run } = await shards.locateOrganization(subjects[0]!.orgId);
  const states = await readLimits(run, subjects, nowMs);
  await addFreeTimes(run, subjects, states, nowMs);
  return states.map((own) => own.map(toLimitView));
}
