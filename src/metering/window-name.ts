import { inSentence } from '../core/pages/format.js';

export const calendarNames: Record<string, string> = {
  calendar_month: 'This month (UTC)',
  calendar_week: 'This week (UTC)',
  calendar_day: 'Today (UTC)',
};

const units: Record<string, string> = { D: 'day', H: 'hour', M: 'minute', S: 'second' };

/** `Last 5 hours` or `Rolling 7 days`, as opposed to days of the calendar. */
export const nameWindow = (window: string): string =>
  calendarNames[window] ??
  `${window.includes('D') ? 'Rolling' : 'Last'} ${[...window.matchAll(/(\d+)([DHMS])/g)].map(([, n, unit]) => `${n}\u00a0${units[unit!]}${Number(n) === 1 ? '' : 's'}`).join(' ')}`;

/** Within a sentence: `each day (UTC)` or `last 5 hours`. */
export const namePeriod = (window: string): string =>
  window.startsWith('calendar_') ? `each ${window.slice(9)} (UTC)` : inSentence(nameWindow(window));
