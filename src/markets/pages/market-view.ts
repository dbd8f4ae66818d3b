import { utc } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import type { CrossChecks } from '../climate/watch.js';
import { MAIN_MODEL } from '../weather/weather.js';
import { toDayLine } from './day-line.js';
import type { MinuteFeed } from '../weather/minutes.js';
import { forecastOf, type DayForecast } from '../learning/forecast.js';
import { bracketLabel } from '../market/brackets.js';
import { climateDayAt, clockAt } from '../market/climate-day.js';
import type { MarketEvent } from '../market/event.js';
import { expectedPayout, labelOf, spanOf, type Market } from '../market/market.js';
import { DOLLAR } from '../market/money.js';
import type { SettlementSource } from '../market/rules.js';
import { isStation } from '../market/stations.js';
import { LEAST_SHOWN } from '../signals/signals.js';
import { notesOn, type Snapshot } from '../snapshot/snapshot.js';
import { toDistribution } from './distribution.js';
import { addressOfEvent } from './addresses.js';
import { formatHour, kindLabels, modelName } from './labels.js';
import { toLadder, type OwnAccount } from './ladder.js';
import { expectedOf } from './probabilities.js';
import { sentence, signalsOf, toSignalsView } from './signals-view.js';

export const sourceNames: Record<SettlementSource, string> = {
  'National Weather Service': 'National Weather Service: the daily climate report of the station',
  'The Weather Company': 'The Weather Company, which relays the weather service’s daily report',
  'Kalshi Weather Index': 'The venue’s own temperature index, built from several stations',
  AccuWeather: 'AccuWeather',
};

function toSettlementView(
  event: MarketEvent,
  { start, end }: { start: Date; end: Date },
  crossChecks: CrossChecks | undefined,
) {
  const { station, kind, markets } = event;
  const first = markets[0]!;
  const { source, rulesText } = first.settlement;
  const evidence = isStation(station) && station.evidence !== 'rules text only' ? station.evidence : null;
  return {
    start,
    end,
    offset: `UTC−${-station.standardOffsetHours}`,
    clock: station.timeZone.split('/').at(-1)!.replaceAll('_', ' '),
    place: { id: station.id, name: station.name, city: station.city },
    source: source === null ? 'The rules do not say it clearly' : sourceNames[source],
    report: isStation(station) && source === 'National Weather Service' ? station.report : null,
    value: kind === 'hourly' ? 'hundredths of °F' : `the ${kindLabels[kind].temperature} in whole °F`,
    rules: rulesText === '' ? null : { label: labelOf(first), text: rulesText },
    // Forecasts are compared with the market for maxima only.
    evidence: kind === 'daily_maximum' ? evidence : null,
    crossCheck: kind === 'hourly' ? null : (crossChecks?.get(station.id)?.[kind] ?? null),
  };
}

const shortDay = utc({ weekday: 'short', day: 'numeric', month: 'short' });
/** `Sat, 21 Nov`. A climate day has no time zone. */
export const formatClimateDay = (date: string): string => shortDay.format(new Date(`${date}T00:00:00Z`));

function dayLabel(date: string, today: string): string {
  const days = Math.round((Date.parse(date) - Date.parse(today)) / DAY_MS);
  const word = { [-1]: 'Yesterday, ', 0: 'Today, ', 1: 'Tomorrow, ' }[days] ?? '';
  return `${word}${formatClimateDay(date)}`;
}

type Moment = Pick<MarketEvent, 'station' | 'kind' | 'date' | 'hour'>;

/** By standard time for daily events, by local time for hourly ones. */
const todayAt = ({ station, kind }: Pick<MarketEvent, 'station' | 'kind'>, now: Date): string =>
  kind === 'hourly' ? clockAt(station, now).date : climateDayAt(station, now).date;

/** `Today, Sun 22 Nov` or `12:00 today`. */
export function whenOf({ hour, ...event }: Moment, now: Date): string {
  const label = dayLabel(event.date, todayAt(event, now)).split(', ');
  const day =
    label.length > 1 && /^(Yesterday|Today|Tomorrow)$/.test(label[0]!) ? label[0]! : label.join(', ');
  return hour === undefined ? day : `${day} ${formatHour(hour)}`;
}

/** `Sun, 22 Nov` or `12:00 on Sun, 22 Nov`. */
export const formatMoment = ({ date, hour }: { date: string; hour?: number | undefined }): string =>
  hour === undefined ? formatClimateDay(date) : `${formatHour(hour)} on ${formatClimateDay(date)}`;

export function toEventView(
  snapshot: Snapshot,
  event: MarketEvent,
  own: OwnAccount,
  { crossChecks, feed }: { crossChecks: CrossChecks | undefined; feed: MinuteFeed | null },
  now: Date,
) {
  const { holdings, isWaiting, signals, areTooOld, mayOpen, cash = signals.bankroll } = own;
  const day = forecastOf(snapshot.forecasts, event);
  const { station, kind } = event;
  const { start, end } = spanOf(station, event);
  const isOpen = event.markets.some(({ status }) => status === 'active');
  return {
    kind,
    href: addressOfEvent(event),
    labels: kindLabels[kind],
    column: kind === 'hourly' ? `At ${formatHour(event.hour ?? 0)}` : kindLabels[kind].value,
    isOver: now >= end,
    isOpen,
    ladder: toLadder({
      ...own,
      event,
      books: snapshot.data.books,
      day,
      signals: signalsOf(signals, event, now),
    }),
    doubtful: notesOn(snapshot, station.id).map(({ example }) => example),
    forecast: day && toForecastView(day, event, snapshot.forecasts.get(station.id)?.source ?? ''),
    chart: day && isOpen ? toDistribution(day, event, holdings) : null,
    dayLine: day && kind !== 'hourly' && now >= start ? toDayLine(day, feed, start) : null,
    settled: toSettled(event),
    settlement: toSettlementView(event, { start, end }, crossChecks),
    signals: toSignalsView(signals, event, now),
    areTooOld,
    cash,
    positions: signals.bankroll - cash,
    holdsAnything: holdings.size > 0 || isWaiting,
    isWaiting,
    mayOpen,
  };
}

function toForecastView(day: DayForecast, event: MarketEvent, source: string) {
  const main = day.models?.find(({ model }) => model === MAIN_MODEL);
  const { meanF, deviationF } = main ?? day;
  return {
    expectedF: expectedOf(day, event),
    corrected: { meanF, deviationF },
    mixed: day,
    raw: { meanF: day.rawMeanF, deviationF: day.rawDeviationF },
    correction: main?.weight === 0 ? null : toCorrection(day),
    fallback: day.fallback === null ? null : sentence(day.fallback),
    members: day.membersF.length,
    lowestF: Math.min(...day.membersF),
    highestF: Math.max(...day.membersF),
    source,
    models: toModels(day, source),
    isCalibrated: day.isCalibrated,
    modelRunAt: day.isRunUnknown ? null : day.modelRunAt,
    observed: day.observed,
    running: toRunning(day),
  };
}

/** By descending weight; empty if only the main model is used. */
const toModels = ({ models = [] }: DayForecast, source: string) =>
  models
    .filter(({ model, weight }) => weight > 0 && (model !== MAIN_MODEL || weight < 1))
    .toSorted((a, b) => b.weight - a.weight)
    .map(({ model, ...part }) => ({ ...part, name: modelName(source, model) }));

const toRunning = ({ running, distribution: { atLeast, atMost } }: DayForecast) =>
  running && {
    reachedF: atLeast ?? atMost ?? 0,
    stays: running.stays < LEAST_SHOWN ? null : running.stays,
    hour: running.hour === null ? null : formatHour(running.hour),
    days: running.fit && {
      count: running.fit.n,
      from: formatClimateDay(running.fit.firstDate),
      to: formatClimateDay(running.fit.lastDate),
    },
    fallback: running.fallback === null ? null : sentence(running.fallback),
    dayAheadShare: running.dayAheadShare,
  };

const toCorrection = ({ fit, seasonalFit }: DayForecast) =>
  fit && {
    days: fit.n,
    isPooled: fit.stationId === null,
    /** The station's own history supplies half of the correction; null without a history. */
    ownDays: seasonalFit?.n ?? null,
    from: formatClimateDay(fit.firstDate),
    to: formatClimateDay(fit.lastDate),
    leadHours: fit.leadHours,
  };

/** All thresholds up to the result pay, so the last one that pays is the result. */
export const findWinner = (markets: readonly Market[]): Market | undefined =>
  markets.findLast((market) => expectedPayout(market) === DOLLAR);

function toSettled({ markets }: MarketEvent) {
  const winner = findWinner(markets);
  const isDecided = markets.every((market) => expectedPayout(market) !== null);
  const temperature = markets.find(
    ({ settledTemperature }) => settledTemperature !== null,
  )?.settledTemperature;
  if (!winner && !isDecided && temperature == null) return null;
  const fair = markets.find(
    ({ settlementValue: value }) => value !== null && value !== 0n && value !== DOLLAR,
  );
  return {
    temperatureF: temperature ?? null,
    winner: winner ? bracketLabel(winner.bracket) : null,
    isNothing: !winner && isDecided && !fair,
    isFair: fair !== undefined,
    isDetermined: markets.every(({ settlementValue }) => settlementValue !== null),
    isFinal: markets.every(({ status }) => status === 'finalized'),
    isDisputed: markets.some(({ status }) => status === 'disputed'),
  };
}
