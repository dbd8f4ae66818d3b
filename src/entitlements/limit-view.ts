import type { Database } from '../core/db/client.js';
import { addDecimals, subtractDecimals } from '../core/decimal.js';
import { formatShare } from '../core/pages/format.js';
import { addFreeTimes, readLimits, remainingOf, takenOf, type LimitState, type Subject } from './limits.js';

/** A limit as pages show it: a bar of what is used and held, and what is left of it. */
export interface LimitView {
  quantity: string;
  window: string;
  isBlock: boolean;
  used: string;
  held: string;
  remaining: string;
  /** Undefined unless it is exceeded. */
  excess: string | undefined;
  /** For the meter alone. */
  share: number;
  percent: string;
  resetsAt: Date | undefined;
}

const calendarNames: Record<string, string> = {
  calendar_month: 'This month (UTC)',
  calendar_week: 'This week (UTC)',
  calendar_day: 'Today (UTC)',
};

const units: Record<string, string> = { D: 'd', H: 'h', M: 'min', S: 's' };

/** `Last 5 h`, `Last 1 d 12 h`. */
const nameWindow = (window: string): string =>
  calendarNames[window] ??
  `Last ${[...window.matchAll(/(\d+)([DHMS])/g)].map(([, n, unit]) => `${n}\u00a0${units[unit!]}`).join(' ')}`;

function toLimitView(state: LimitState): LimitView {
  const taken = takenOf(state);
  const whole = Number(state.quantity);
  const excess = subtractDecimals(taken, state.quantity);
  return {
    quantity: state.quantity,
    window: nameWindow(state.window),
    isBlock: state.enforcement === 'block',
    used: addDecimals(state.used, state.ahead),
    held: state.held,
    remaining: remainingOf(state),
    excess: excess === '0' ? undefined : excess,
    share: whole > 0 ? Number(taken) / whole : 1,
    percent: formatShare(taken, state.quantity),
    resetsAt: state.resetsAtMs === undefined ? undefined : new Date(state.resetsAtMs),
  };
}

/** Per subject its limits; none where its entitlement has none. */
export async function readLimitViews(
  { run }: Pick<Database, 'run'>,
  subjects: Subject[],
  nowMs: number,
): Promise<LimitView[][]> {
  const states = await readLimits(run, subjects, nowMs);
  await addFreeTimes(run, subjects, states, nowMs);
  return states.map((own) => own.map(toLimitView));
}
