import { forecastOf as findForecast, type DayForecast } from '../forecast/forecast.js';
import type { MarketEvent } from '../markets/event.js';
import { DOLLAR, type Micros } from '../money.js';
import type { Holding } from '../portfolio/positions.js';
import { formatMoney } from '../portfolio/view-text.js';
import { bracketLabel } from '../settlement/brackets.js';
import { climateDayAt, climateDayOf } from '../settlement/climate-day.js';
import { isStation, type Place } from '../settlement/stations.js';
import type { SignalReport } from '../signals/signal.js';
import { ageOf, TIME_TO_LIVE_MS, type Snapshot } from '../snapshot.js';
import { marketsAddress } from './addresses.js';
import { currentEvent, eventsOf, type Choice } from './choice.js';
import { toDistribution } from './distribution.js';
import { toLadder } from './ladder.js';
import { degreesOf, expectedMaximum } from './probabilities.js';
import { formatAge, formatDegrees } from './price-text.js';
import { bestSignal, sentence, toSignalsView } from './signals-view.js';

/** The day's forecast that belongs to an event. */
export const forecastOf = ({ forecasts }: Snapshot, event: MarketEvent): DayForecast | undefined =>
  findForecast(forecasts, event);

/** Every city that has markets, with the headline of its present day. */
export function toOverview(snapshot: Snapshot, signals: SignalReport, current: Place | undefined, now: Date) {
  const ofDays = snapshot.events.filter(({ kind }) => kind === 'daily_maximum');
  const stations = [...new Map(ofDays.map(({ station }) => [station.id, station])).values()];
  return stations.map((station) => {
    const event = currentEvent(eventsOf(snapshot.events, station), station, now);
    const day = event && forecastOf(snapshot, event);
    const expected = event && day ? expectedMaximum(degreesOf(day, event)) : null;
    return {
      city: station.city,
      href: marketsAddress(station.id),
      isCurrent: station.id === current?.id,
      expected: expected === null ? null : formatDegrees(Math.round(expected)),
      observed: day?.observed ? formatDegrees(day.observed.extremeF, 1) : null,
      signal: event && bestSignal(signals, event.eventTicker, now),
    };
  });
}

/** The days of the chosen city, as links. */
export function toDays({ station, events, event: chosen }: Choice, now: Date) {
  const today = climateDayAt(station, now).date;
  return events.map(({ date }) => ({
    label: dayLabel(date, today),
    href: marketsAddress(station.id, date),
    isCurrent: date === chosen?.date,
  }));
}

const shortDay = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'UTC',
  weekday: 'short',
  day: 'numeric',
  month: 'short',
});
/** `Sat, 21 Nov`: a climate day is a date of its own, in no zone. */
export const formatClimateDay = (date: string): string => shortDay.format(new Date(`${date}T00:00:00Z`));

const DAY_MS = 86_400_000;

function dayLabel(date: string, today: string): string {
  const days = Math.round((Date.parse(date) - Date.parse(today)) / DAY_MS);
  const word = { [-1]: 'Yesterday, ', 0: 'Today, ', 1: 'Tomorrow, ' }[days] ?? '';
  return `${word}${formatClimateDay(date)}`;
}

/** The paper account of who looks, and the signals as they are sized for it. */
interface OwnAccount {
  /** Undefined for one that was never opened. */
  cash: Micros | undefined;
  holdings: ReadonlyMap<string, Holding>;
  signals: SignalReport;
}

/** All that the page says about the chosen event. */
export function toEventView(
  snapshot: Snapshot,
  event: MarketEvent,
  { cash, holdings, signals }: OwnAccount,
  now: Date,
) {
  const day = forecastOf(snapshot, event);
  const { station, date } = event;
  const { start, end } = climateDayOf(station, date);
  const isOpen = event.markets.some(({ status }) => status === 'active');
  return {
    city: station.city,
    dayName: formatClimateDay(date),
    station,
    offset: `UTC−${-station.standardOffsetHours}`,
    start,
    end,
    phase: now < start ? 'before' : now < end ? 'during' : 'after',
    isOpen,
    ladder: toLadder({ event, books: snapshot.data.books, day, holdings }),
    forecast: day && toForecastView(day, event, snapshot.forecasts.get(station.id)!.source, now),
    chart: day && isOpen ? toDistribution(day, event) : null,
    settled: toSettled(event),
    signals: toSignalsView(signals, event, now),
    areTooOld: ageOf(snapshot, now.getTime()) > TIME_TO_LIVE_MS,
    cash: formatMoney(cash ?? signals.bankroll),
    positions: formatMoney(signals.bankroll - (cash ?? signals.bankroll)),
    holdsAnything: holdings.size > 0,
    evidence: isStation(station) && station.evidence !== 'rules text only' ? station.evidence : null,
  };
}

function toForecastView(day: DayForecast, event: MarketEvent, source: string, now: Date) {
  const expected = expectedMaximum(degreesOf(day, event));
  return {
    expected: expected === null ? null : formatDegrees(expected, 1),
    corrected: formatSpread(day.meanF, day.deviationF),
    raw: formatSpread(day.rawMeanF, day.rawDeviationF),
    correction: toCorrection(day),
    fallback: day.fallback === null ? null : sentence(day.fallback),
    members: day.membersF.length,
    lowest: formatDegrees(Math.min(...day.membersF), 1),
    highest: formatDegrees(Math.max(...day.membersF), 1),
    source,
    isCalibrated: day.isCalibrated,
    modelRunAt: day.modelRunAt,
    modelAge: formatAge(Math.max(0, now.getTime() - day.modelRunAt.getTime())),
    observed: day.observed && {
      maximum: formatDegrees(day.observed.extremeF, 1),
      at: day.observed.observedAt,
      age: formatAge(Math.max(0, now.getTime() - day.observed.observedAt.getTime())),
    },
  };
}

const formatSpread = (meanF: number, deviationF: number): string =>
  `${formatDegrees(meanF, 1)} ± ${formatDegrees(deviationF, 1)}`;

/** What the members were corrected by; null for nothing. */
function toCorrection({ fit }: DayForecast) {
  return (
    fit && {
      days: fit.n,
      isPooled: fit.stationId === null,
      from: formatClimateDay(fit.firstDate),
      to: formatClimateDay(fit.lastDate),
      leadHours: fit.leadHours,
    }
  );
}

/** How a day came out, as far as the venue has said it. */
function toSettled({ markets }: MarketEvent) {
  const winner = markets.find(({ settlementValue }) => settlementValue === DOLLAR);
  const temperature = markets.find(
    ({ settledTemperature }) => settledTemperature !== null,
  )?.settledTemperature;
  if (!winner && temperature == null) return null;
  return {
    temperature: temperature == null ? null : formatDegrees(temperature),
    winner: winner ? bracketLabel(winner.bracket) : null,
    isFinal: markets.every(({ status }) => status === 'finalized'),
    isDisputed: markets.some(({ status }) => status === 'disputed'),
  };
}
