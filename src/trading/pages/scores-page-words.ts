import { formatPercent } from '../../core/charts/text.js';
import { formatCount } from '../../core/pages/format.js';
import { toAddress } from '../../core/pages/address.js';
import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { leadsOf } from '../signals/signal.js';
import type { ScoresAnswer } from '../scores/schema.js';

/** What is scored apart, since it is another thing to forecast. */
const kindNames = {
  daily_maximum: { tab: 'Maxima', value: 'Maximum', end: 'the end of the day', of: 'day' },
  daily_minimum: { tab: 'Minima', value: 'Minimum', end: 'the end of the day', of: 'day' },
  hourly: { tab: 'Hours', value: 'Temperature', end: 'the hour', of: 'hour' },
} as const satisfies Record<TemperatureKind, object>;

export const wordsOf = (kind: TemperatureKind) => kindNames[kind];

export const toKindTabs = (current: TemperatureKind) =>
  temperatureKinds.map((kind) => ({
    label: kindNames[kind].tab,
    href: toAddress('/dashboard/scores', { kind: kind === 'daily_maximum' ? undefined : kind }),
    isCurrent: kind === current,
  }));

/** What the page can be narrowed to. */
export const filterOptions = (kind: TemperatureKind) => ({
  stationOptions: [
    { value: '', label: 'All cities' },
    ...placesOf(kind).map(({ id, city }) => ({ value: id, label: city })),
  ],
  leadOptions: [
    { value: '', label: 'All leads' },
    ...leadsOf(kind).map((hours) => ({
      value: String(hours),
      label: `${hours === 1 ? '1 hour' : `${hours} hours`} before ${kindNames[kind].end}`,
    })),
  ],
});

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

/** When there will be something to see: days settle in the morning after they end, hours soon after they have struck. */
export function describeFirstScores({
  kind,
  overall,
  uncalibrated,
  gateRule,
}: Pick<ScoresAnswer, 'kind' | 'overall' | 'uncalibrated' | 'gateRule'>): string[] {
  const waiting = overall.waiting + uncalibrated.waiting;
  const leads = leadsOf(kind);
  const hours = `${leads.slice(0, -1).join(', ')} and ${leads.at(-1)}`;
  const [each, its] =
    kind === 'hourly' ? ['each hour', 'its hour'] : ['the end of each climate day', 'the end of its day'];
  return [
    waiting === 0
      ? `Forecasts and prices are recorded ${hours} hours before ${each}; none has been so far.`
      : `${formatCount(waiting, 'forecast')} ${waiting === 1 ? `has been recorded and waits for ${its}` : `have been recorded and wait for ${kind === 'hourly' ? 'their hour' : 'the end of their day'}`}.`,
    kind === 'hourly'
      ? `An hour’s scores come with the venue’s index. A gate can open once ${gateRule.minimumDays} days of its area and lead have settled; until then signals are withheld.`
      : `A day’s scores come with its climate report, in the morning after it. A gate can open once ${gateRule.minimumDays} days of its station and lead have settled; until then signals are withheld.`,
  ];
}
