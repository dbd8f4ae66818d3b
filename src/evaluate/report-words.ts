import { formatCount } from '../core/pages/format.js';
import type { EvaluateOptions, Evaluation } from './evaluation.js';

const monthNames = Array.from({ length: 12 }, (_, month) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', month: 'long' }).format(
    new Date(Date.UTC(2000, month)),
  ),
);

export const nameMonths = (months: readonly number[] | null): string =>
  months === null ? 'all' : months.map((month) => monthNames[month - 1] ?? String(month)).join(', ');

/** What the calibration knew of each forecast that it was tested on. */
export function describeTraining({ training, by }: EvaluateOptions): string {
  const group = by === null ? '' : ', each value for itself';
  if ('until' in training) {
    const lag = training.lagDays === 0 ? '' : `more than ${formatCount(training.lagDays, 'day')} `;
    return `Once, on all dates ${lag}before ${training.until}; tested from that date on${group}`;
  }
  const lag =
    training.lagDays === 0 ? 'before it' : `more than ${formatCount(training.lagDays, 'day')} before it`;
  return `For each date anew, on the latest ${formatCount(training.days, 'date')} with data ${lag}${group}`;
}

export function describeMethod({ distribution, isWidened }: EvaluateOptions): string {
  const widened = isWidened
    ? '; its spread widened until the central 90 % interval covers 90 % of what it was trained on'
    : '';
  return `EMOS: a ${distribution} distribution with mean a + b·x̄ and variance c + d·s² of the ensemble’s mean and sample variance, by minimum CRPS${widened}`;
}

/** Rows that are in none of the numbers, and why; only what there was. */
export function describeLeftOut({ leftOut, untested }: Evaluation): { reason: string; count: number }[] {
  return [
    { reason: 'with more or fewer fields than the header', count: leftOut.fields },
    { reason: 'without a date that can be read', count: leftOut.date },
    { reason: 'without an observation', count: leftOut.missingObservation },
    { reason: 'without one of the members', count: leftOut.missingMember },
    { reason: 'with something else in place of a number', count: leftOut.notNumeric },
    { reason: 'with too few dates before them to train on', count: untested.tooEarly },
    {
      reason: `that no fit could be made for${untested.whyNotFitted === null ? '' : ` (${untested.whyNotFitted})`}`,
      count: untested.notFitted,
    },
  ].filter(({ count }) => count > 0);
}

/** `81 % below`: a score against another, smaller being better. */
export function compareScores(score: number, other: number): string {
  const difference = ((other - score) / other) * 100;
  if (!Number.isFinite(difference) || Math.abs(difference) < 0.05) return 'as good as';
  const percent = Math.abs(difference).toFixed(Math.abs(difference) < 10 ? 1 : 0);
  return `${percent}\u00a0% ${difference > 0 ? 'below' : 'above'}`;
}
