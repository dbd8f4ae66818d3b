import { formatDay, formatMonth } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import { MAX_AGE_DAYS } from '../corrections/corrections.js';
import { MAX_PAST_MS } from '../ingestion/batch.js';
import type { Period } from './period.js';

/** API keys send events up to seven days late and, if the Organization may correct, correct them for 35 days. */
export function closingOf(month: Pick<Period, 'from' | 'to'>, mayCorrect: boolean, now: Date) {
  const lateUntil = new Date(month.to.getTime() + MAX_PAST_MS);
  const closesAt = new Date(lateUntil.getTime() + (mayCorrect ? MAX_AGE_DAYS * DAY_MS : 0));
  const acts = [
    ...(now < lateUntil ? [`add events to ${formatMonth(month.from)} before ${formatDay(lateUntil)}`] : []),
    ...(mayCorrect ? [`correct its events before ${formatDay(closesAt)}`] : []),
  ];
  return { lateUntil, closesAt, isClosed: closesAt <= now, who: `API keys can ${acts.join(' and ')}.` };
}
