import { formatPercent } from '../../charts/text.js';
import { formatCount } from '../../pages/format.js';
import { stations } from '../settlement/stations.js';
import { LEAD_HOURS } from './leads.js';
import type { ScoresAnswer } from './schema.js';

/** What the page can be narrowed to. */
export const filterOptions = {
  stationOptions: [
    { value: '', label: 'All cities' },
    ...stations.map(({ id, city }) => ({ value: id, label: city })),
  ],
  leadOptions: [
    { value: '', label: 'All leads' },
    ...LEAD_HOURS.map((hours) => ({
      value: String(hours),
      label: `${hours} hours before the end of the day`,
    })),
  ],
};

/** How often the rule errs, as sentences. */
export function describeErrorRates({ errorRates, windowDays }: ScoresAnswer['gateRule']): string[] {
  const percent = (share: number) => formatPercent(share, 0);
  const { equal, equalEver, worse, better, betterBy } = errorRates;
  return [
    `Open although the model is only as good as the market: at most ${percent(equal)} of the time, and in at most ${percent(equalEver)} of cases at any time within ${windowDays} days.`,
    `Open although the market is clearly better: at most ${percent(worse)} of the time.`,
    `Open where the model is better by ${betterBy} in log score, after a whole window: at least ${percent(better)} of the time.`,
  ];
}

/** When there will be something to see: days settle in the morning after they end. */
export function describeFirstScores({ overall, uncalibrated, gateRule }: ScoresAnswer): string[] {
  const waiting = overall.waiting + uncalibrated.waiting;
  const hours = `${LEAD_HOURS.slice(0, -1).join(', ')} and ${LEAD_HOURS.at(-1)}`;
  return [
    waiting === 0
      ? `Forecasts and prices are written down ${hours} hours before the end of each climate day; none has been so far.`
      : `${formatCount(waiting, 'forecast')} ${waiting === 1 ? 'has' : 'have'} been written down and ${waiting === 1 ? 'waits' : 'wait'} for the end of ${waiting === 1 ? 'its' : 'their'} day.`,
    `A day’s scores come with its climate report, in the morning after it. A gate can open once ${gateRule.minimumDays} days of its station and lead have settled; until then signals are withheld.`,
  ];
}
