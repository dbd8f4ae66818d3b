import { toAddress, toPager } from '../../core/pages/address.js';
import { formatPrice } from '../../core/pages/format.js';
import { groupBy } from '../../core/collections.js';
import { forecastOf } from '../learning/forecast.js';
import type { MarketEvent } from '../market/event.js';
import {
  cityOf,
  isPlaced,
  temperatureKinds,
  type TemperatureKind,
  type UnplacedMarket,
} from '../market/market.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { MARKETS_PATH, overviewAddress, ticketAddress, type Tab } from './addresses.js';
import { byTime, currentEvent, type OthersQuery } from './choice.js';
import { kindLabels, kindNames } from './labels.js';
import { formatClimateDay } from './market-view.js';
import { sentence } from './signals-view.js';
import { hrefOf, toQuoted, type OwnAccount } from './ladder.js';
import type { Place } from '../market/place.js';

const OTHERS_PAGE = 200;

/** @param cursor last ticker of the previous page; an unknown ticker restarts from the beginning */
export function toOthers(
  { data }: Snapshot,
  { q, cursor, sort, chosen }: Pick<OthersQuery, 'q' | 'cursor' | 'sort'> & { chosen?: string | undefined },
) {
  const isOpen = ({ status }: UnplacedMarket) => Number(status === 'active');
  const dayOf = ({ date }: UnplacedMarket) => Date.parse(date ?? '9999-12-31');
  const chance = ({ yesAsk }: UnplacedMarket) => (sort === 'price' ? Number(yesAsk ?? 0n) : 0);
  const all = data.markets
    .filter((market): market is UnplacedMarket => !isPlaced(market))
    .toSorted((a, b) => isOpen(b) - isOpen(a) || dayOf(a) - dayOf(b) || chance(b) - chance(a));
  const from = cursor === undefined ? 0 : all.findIndex(({ ticker }) => ticker === cursor) + 1;
  const found = all.slice(from).filter((market) => isFoundMarket(market, q));
  const shown = found.slice(0, OTHERS_PAGE);
  const [problem, ...problems] = new Set(shown.map((market) => market.problem));
  return {
    rows: shown.map((market) => toRow(market, chosen ?? shown[0]!.ticker)),
    first: shown[0],
    problem:
      problem === undefined || problems.length > 0
        ? 'Gauge has no forecast for these markets, or their rules are unclear.'
        : sentence(problem),
    sorts: [undefined, 'price' as const].map((by) => ({
      label: by === 'price' ? 'YES price' : 'Day',
      href: toAddress(MARKETS_PATH, { kind: 'others', q, sort: by }),
      isCurrent: sort === by,
    })),
    pager: toPager(
      MARKETS_PATH,
      { kind: 'others', q, sort },
      {
        cursor: from === 0 ? undefined : cursor,
        nextCursor: found.length > OTHERS_PAGE ? shown.at(-1)!.ticker : undefined,
      },
    ),
  };
}

const isFoundMarket = (market: UnplacedMarket, q: string): boolean =>
  contains([cityOf(market), market.title, market.label, market.ticker, kindNames[market.kind]], q);

/** The label is dropped if the title contains it. Dates are written as everywhere: `29 Nov 2026`. */
export const unplacedTitle = ({ title, label }: Pick<UnplacedMarket, 'title' | 'label'>): string =>
  (label === '' || title.includes(label) ? title : `${title} ${label}`).replace(
    /\b([A-Z][a-z]{2}) (\d{1,2}), (\d{4})\b/g,
    '$2 $1 $3',
  );

function toRow(market: UnplacedMarket, chosen: string | undefined) {
  const { ticker, kind, date, status, title, yesAsk, noAsk } = market;
  const city = cityOf(market);
  return {
    href: ticketAddress(ticker),
    isCurrent: ticker === chosen,
    /** Under its day, the question does not repeat it. */
    name: unplacedTitle(market).replace(/ on \d{1,2} [A-Z][a-z]{2} \d{4}\?$/, date === null ? '$&' : '?'),
    day: date === null ? 'Without a day' : formatClimateDay(date),
    /** Empty if the question contains it. */
    note: title.includes(city ?? kindNames[kind]) ? '' : [kindNames[kind], city].filter(Boolean).join(', '),
    isOpen: status === 'active',
    asks: [yesAsk, noAsk].map((ask) => (ask === null ? 'none' : formatPrice(ask))),
  };
}

/** One market without a place, and those of the same event. */
export function toOther({ data }: Snapshot, market: UnplacedMarket, own: OwnAccount) {
  const ofEvent = data.markets.filter(
    (each): each is UnplacedMarket => !isPlaced(each) && each.eventTicker === market.eventTicker,
  );
  return {
    title: unplacedTitle(market),
    problem: sentence(market.problem),
    rows: ofEvent.map((each) => ({
      ticker: each.ticker,
      href: hrefOf(each.ticker, own.composed),
      label: ofEvent.length === 1 || each.label === '' ? unplacedTitle(each) : each.label,
      isOpen: each.status === 'active',
      bid: each.yesBid,
      last: each.lastPrice,
      yes: toQuoted(each, 'yes', each.yesAsk, own),
      no: toQuoted(each, 'no', each.noAsk, own),
    })),
  };
}

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
    tab(
      'others',
      'Other',
      data.markets.filter((market) => !isPlaced(market) && market.status === 'active').length,
      'market',
    ),
  ];
}

/** Each city's in chronological order. */
function citiesOf(events: readonly MarketEvent[], kind: TemperatureKind): Map<string, MarketEvent[]> {
  const ofKind = events.filter((event) => event.kind === kind);
  const found = groupBy(ofKind, ({ station }) => station.city);
  for (const ofCity of found.values()) ofCity.sort(byTime);
  return found;
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
  return `${which} not calibrated yet`;
}

export const isFound = ({ city, id, name }: Place, q: string): boolean => contains([city, id, name], q);

const contains = (texts: readonly (string | null)[], q: string): boolean => {
  const text = texts.join(' ').toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
};
