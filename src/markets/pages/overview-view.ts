import { toPager } from '../../core/pages/address.js';
import { groupBy } from '../../core/collections.js';
import { formatCount } from '../../core/pages/format.js';
import { forecastOf } from '../learning/forecast.js';
import { bracketLabel } from '../market/brackets.js';
import type { MarketEvent } from '../market/event.js';
import {
  cityOf,
  isPlaced,
  takesOrders,
  temperatureKinds,
  type TemperatureKind,
  type UnplacedMarket,
} from '../market/market.js';
import { TIME_TO_LIVE_MS } from '../market/source.js';
import type { SignalReport } from '../signals/signal.js';
import { ageOf, type Snapshot } from '../snapshot/snapshot.js';
import {
  MARKETS_PATH,
  SCORES_PATH,
  addressOfEvent,
  eventAddress,
  overviewAddress,
  ticketAddress,
  type Tab,
} from './addresses.js';
import { byTime, currentEvent, isTradable } from './choice.js';
import { kindLabels, kindNames } from './labels.js';
import { formatClimateDay, whenOf } from './market-view.js';
import { expectedOf, impliedProbabilities } from './probabilities.js';
import { bestSignals, currentSignals, sentence, signalsOff, toSignalView } from './signals-view.js';
import type { Place } from '../market/place.js';

const OTHERS_PAGE = 200;

/** @param cursor last ticker of the previous page; an unknown ticker restarts from the beginning */
export function toOthers(
  { data }: Snapshot,
  { q, cursor, mayOpen }: { q: string; cursor: string | undefined; mayOpen: boolean },
) {
  const all = data.markets.filter((market): market is UnplacedMarket => !isPlaced(market));
  const from = cursor === undefined ? 0 : all.findIndex(({ ticker }) => ticker === cursor) + 1;
  const found = all.slice(from).filter((market) => isFoundMarket(market, q));
  const shown = found.slice(0, OTHERS_PAGE);
  return {
    rows: shown.map((market) => toRow(market, mayOpen)),
    pager: toPager(
      MARKETS_PATH,
      { kind: 'others', q },
      {
        cursor: from === 0 ? undefined : cursor,
        nextCursor: found.length > OTHERS_PAGE ? shown.at(-1)!.ticker : undefined,
      },
    ),
  };
}

const isFoundMarket = (market: UnplacedMarket, q: string): boolean =>
  contains([cityOf(market), market.title, market.label, market.ticker, kindNames[market.kind]], q);

/** The label is dropped if the title contains it. */
export const unplacedTitle = ({ title, label }: Pick<UnplacedMarket, 'title' | 'label'>): string =>
  label === '' || title.includes(label) ? title : `${title} ${label}`;

function toRow(market: UnplacedMarket, mayOpen: boolean) {
  const { ticker, kind, date, problem, status } = market;
  const price = (side: 'yes' | 'no', ask: bigint | null) => ({
    name: side.toUpperCase(),
    ask,
    href:
      ask !== null && takesOrders(market) && mayOpen ? ticketAddress(ticker, { side, action: 'buy' }) : null,
  });
  return {
    ticker,
    href: ticketAddress(ticker),
    name: unplacedTitle(market),
    kind: kindNames[kind],
    when: [cityOf(market), date === null ? null : formatClimateDay(date)].filter(Boolean).join(', '),
    isOpen: status === 'active',
    prices: [price('yes', market.yesAsk), price('no', market.noAsk)],
    last: market.lastPrice,
    problem: sentence(problem),
  };
}

const SHOWN_SIGNALS = 5;

/** With the number of matches. The links keep the search. */
export function toTabs({ events, data }: Snapshot, current: Tab, q: string) {
  const tab = (name: Tab, label: string, count: number, unit: string) => ({
    label,
    count,
    unit: count === 1 ? unit : unit === 'city' ? 'cities' : `${unit}s`,
    href: overviewAddress(name, q),
    isCurrent: name === current,
  });
  return [
    ...temperatureKinds.map((kind) => tab(kind, kindLabels[kind].tab, citiesOf(events, kind).size, 'city')),
    tab('others', 'Other', data.markets.filter((market) => !isPlaced(market)).length, 'market'),
  ];
}

/** Each city's in chronological order. */
function citiesOf(events: readonly MarketEvent[], kind: TemperatureKind): Map<string, MarketEvent[]> {
  const ofKind = events.filter((event) => event.kind === kind);
  const found = groupBy(ofKind, ({ station }) => station.city);
  for (const ofCity of found.values()) ofCity.sort(byTime);
  return found;
}

export function toCities(
  snapshot: Snapshot,
  signals: SignalReport,
  { kind, q }: { kind: TemperatureKind; q: string },
  now: Date,
) {
  const byEvent = new Map(signals.events.map((found) => [found.eventTicker, found]));
  return [...citiesOf(snapshot.events, kind).values()]
    .filter((events) => isFound(events[0]!.station, q))
    .map((events) => {
      const event = currentEvent(events, now)!;
      const day = forecastOf(snapshot.forecasts, event);
      const expected = day ? expectedOf(day, event) : null;
      const found = byEvent.get(event.eventTicker);
      const [best, ...more] = currentSignals(found, now);
      return {
        city: event.station.city,
        href: eventAddress({ station: event.station.id, kind, q }),
        when: whenOf(event, now),
        expected: expected === null ? null : Math.round(expected),
        observed: day?.observed?.extremeF ?? null,
        favourite: favouriteOf(event),
        signal: best && { ...toSignalView(best), more: more.length },
        withheld: found?.suppressed.filter(({ isWithheld }) => isWithheld).length ?? 0,
      };
    });
}

export const shownEvents = (snapshot: Snapshot, kind: TemperatureKind, now: Date): MarketEvent[] =>
  [...citiesOf(snapshot.events, kind).values()].map((events) => currentEvent(events, now)!);

/** Part of a sentence; empty if every forecast is calibrated. */
export function describeUncalibrated(
  { forecasts }: Snapshot,
  events: readonly Pick<MarketEvent, 'kind' | 'station' | 'date' | 'hour'>[],
): string {
  const raw = events.filter((event) => forecastOf(forecasts, event)?.isCalibrated === false);
  if (raw.length === 0) return '';
  const which =
    raw.length === 1 ? `the forecast of ${raw[0]!.station.city} is` : `${raw.length} forecasts are`;
  return `${which} not calibrated yet and can be far from the prices`;
}

/** By price. Null for thresholds: the lowest is always the likeliest. */
function favouriteOf(event: MarketEvent) {
  if (event.kind === 'hourly') return null;
  const implied = impliedProbabilities(event);
  const probabilityOf = (ticker: string) => implied.get(ticker) ?? 0;
  const best = event.markets.reduce((a, b) => (probabilityOf(b.ticker) > probabilityOf(a.ticker) ? b : a));
  const probability = probabilityOf(best.ticker);
  return probability === 0 ? null : { label: bracketLabel(best.bracket), probability };
}

const isFound = ({ city, id, name }: Place, q: string): boolean => contains([city, id, name], q);

const contains = (texts: readonly (string | null)[], q: string): boolean => {
  const text = texts.join(' ').toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
};

export function toBest(snapshot: Snapshot, report: SignalReport, now: Date) {
  const tradable = snapshot.events.filter((event) => isTradable(event, now));
  const events = new Map(tradable.map((event) => [event.eventTicker, event]));
  const signals = bestSignals(report, now).filter(({ market }) => events.has(market.eventTicker));
  const held = report.events
    .map(({ suppressed }) => suppressed.filter(({ isWithheld }) => isWithheld).length)
    .filter((count) => count > 0);
  const withheld = held.reduce((sum, count) => sum + count, 0);
  return {
    rows: signals.slice(0, SHOWN_SIGNALS).map((signal) => {
      const event = events.get(signal.market.eventTicker)!;
      return {
        ...toSignalView(signal),
        city: event.station.city,
        kind: event.kind === 'hourly' ? null : kindLabels[event.kind].short,
        when: whenOf(event, now),
        eventHref: addressOfEvent(event),
      };
    }),
    more: Math.max(0, signals.length - SHOWN_SIGNALS),
    withheld:
      withheld === 0
        ? null
        : {
            text: `${formatCount(withheld, 'purchase')} in ${formatCount(held.length, 'event')}`,
            isOne: withheld === 1,
          },
    none: noneBecause(snapshot, withheld > 0, now),
    scoresHref: SCORES_PATH,
  };
}

/** If one reason applies to all events. */
function noneBecause(snapshot: Snapshot, areWithheld: boolean, now: Date): string {
  if (ageOf(snapshot, now.getTime()) > TIME_TO_LIVE_MS)
    return 'No signals: the prices have expired. Signals return with the next prices.';
  if (snapshot.events.length === 0) return 'No signals: the venue lists no markets that Gauge can forecast.';
  if (snapshot.forecasts.size === 0) return 'No signals: there is no forecast yet.';
  const { gates } = snapshot.gates;
  if (!gates.some(({ isOpen }) => isOpen)) return signalsOff(gates.length);
  if (areWithheld) return 'No signals: every purchase that is worth its cost at these prices is withheld.';
  return 'No signals: at these prices and after fees, no purchase is worth its cost.';
}
