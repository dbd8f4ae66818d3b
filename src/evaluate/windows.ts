import type { FixedTraining, RollingTraining } from './evaluation.js';
import { parseDay } from './dates.js';

/** Positions from `from` to before `to`, among the rows of a group in the order of days. */
export interface Range {
  from: number;
  to: number;
}

/** Rows of one or more days that are tested with the same fit. */
export interface Step {
  /** Null where there are too few dates before them. */
  training: Range | null;
  test: Range;
}

/**
 * Says what is trained on for which rows.
 * @param days of the rows of a group, ascending
 */
export function planWindows(days: ArrayLike<number>, training: RollingTraining | FixedTraining): Step[] {
  if ('until' in training) {
    const until = parseDay(training.until)!;
    const test = { from: firstFrom(days, until), to: days.length };
    return test.from === test.to
      ? []
      : [{ training: { from: 0, to: firstFrom(days, until - training.lagDays) }, test }];
  }
  return rollingSteps(days, training);
}

function rollingSteps(days: ArrayLike<number>, { days: length, lagDays }: RollingTraining): Step[] {
  const dates = datesOf(days);
  const steps: Step[] = [];
  // Of the dates that are known already on the day that is tested, how many there are; it only grows.
  let known = 0;
  for (const [i, { day, from }] of dates.entries()) {
    while (dates[known]!.day < day - lagDays) known++;
    const training = known < length ? null : { from: dates[known - length]!.from, to: dates[known - 1]!.to };
    steps.push({ training, test: { from, to: dates[i]!.to } });
  }
  return steps;
}

function datesOf(days: ArrayLike<number>): { day: number; from: number; to: number }[] {
  const dates: { day: number; from: number; to: number }[] = [];
  for (let i = 0; i < days.length; i++) {
    const last = dates.at(-1);
    if (last?.day === days[i]) last!.to = i + 1;
    else dates.push({ day: days[i]!, from: i, to: i + 1 });
  }
  return dates;
}

/** The position of the first row on this day or later. */
function firstFrom(days: ArrayLike<number>, day: number): number {
  let position = 0;
  while (position < days.length && days[position]! < day) position++;
  return position;
}
