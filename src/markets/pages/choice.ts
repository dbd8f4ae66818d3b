import { AppError } from '../../core/errors.js';
import type { MarketEvent } from '../market/event.js';
import { spanOf, temperatureKinds, type TemperatureKind } from '../market/market.js';
import { climateDayAt } from '../market/climate-day.js';
import { findPlace } from '../market/stations.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { Tab } from './addresses.js';
import type { Place } from '../market/place.js';

type ChoiceQuery = ReturnType<typeof readChoiceQuery>;
export type OthersQuery = Extract<ChoiceQuery, { station: undefined }>;

const MAX_SEARCH = 100;

/** The overview or, with a station, the events of one city. */
export function readChoiceQuery(query: Record<string, unknown>) {
  const { station, kind, date, hour, q, cursor, sort } = query;
  const tab = readTab(kind);
  const search = typeof q === 'string' ? q.trim().slice(0, MAX_SEARCH) : '';
  if (station === undefined) {
    if (date !== undefined || hour !== undefined) throw missing('There is no day without a station.');
    return {
      q: search,
      station: undefined,
      tab,
      cursor: typeof cursor === 'string' ? cursor : undefined,
      /** By default, each day's markets stand as the venue lists them. */
      sort: sort === 'price' ? ('price' as const) : undefined,
    };
  }
  const place = typeof station === 'string' ? findPlace(station) : undefined;
  if (!place || tab === 'others') throw missing('There is no such station.');
  if (date !== undefined && !isDate(date)) throw missing('There is no such day.');
  if (hour !== undefined && (!isHour(hour) || date === undefined || tab !== 'hourly'))
    throw missing('There is no such hour.');
  const hourNumber = hour === undefined ? undefined : Number(hour);
  return { q: search, station: place, kind: tab, date, hour: hourNumber };
}

const missing = (detail: string) => new AppError('not_found', detail);

function readTab(kind: unknown): Tab {
  if (kind === undefined) return 'daily_maximum';
  const tabs: readonly Tab[] = [...temperatureKinds, 'others'];
  const tab = tabs.find((name) => name === kind);
  if (!tab) throw missing('There is no such kind of market.');
  return tab;
}

const isHour = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{1,2}$/.test(value) && Number(value) < 24;

const isDate = (value: unknown): value is string =>
  typeof value === 'string' &&
  /^\d{4}-\d\d-\d\d$/.test(value) &&
  new Date(`${value}T00:00:00Z`).getTime() > 0 &&
  new Date(`${value}T00:00:00Z`).toISOString().startsWith(value);

export type Choice = ReturnType<typeof chooseEvent>;

/** The current event if no time is requested. */
export function chooseEvent(
  { events }: Pick<Snapshot, 'events'>,
  { station, kind, date, hour }: Extract<ChoiceQuery, { station: Place }>,
  now: Date,
) {
  const own = eventsOf(events, station, kind);
  const found = own.filter((event) => date === undefined || event.date === date);
  const event = hour === undefined ? currentEvent(found, now) : found.find((each) => each.hour === hour);
  return {
    /** The requested place if there are no events. */
    station: own[0]?.station ?? station,
    kind,
    /** In chronological order. */
    events: own,
    /** Undefined without a current event, or without one at the requested time. */
    event,
    /** The requested time if it has no event. */
    missing: event || date === undefined ? null : { date, hour },
  };
}

/** Hourly events belong to an area, daily events to a station. */
export const eventsOf = (
  events: readonly MarketEvent[],
  { city }: Pick<Place, 'city'>,
  kind: TemperatureKind,
): MarketEvent[] =>
  events.filter((event) => event.kind === kind && event.station.city === city).toSorted(byTime);

export const byTime = (a: MarketEvent, b: MarketEvent): number =>
  a.date < b.date ? -1 : a.date > b.date ? 1 : (a.hour ?? 0) - (b.hour ?? 0);

/** According to the venue's last report. */
export const isTradable = ({ markets }: Pick<MarketEvent, 'markets'>, now: Date): boolean =>
  markets.some(({ status, closeTime }) => status === 'active' && now < closeTime);

/**
 * Otherwise the event of the current climate day or next hour, otherwise the next event, otherwise the last.
 * @param events in chronological order
 */
export function currentEvent(events: readonly MarketEvent[], now: Date): MarketEvent | undefined {
  const isAhead = (event: MarketEvent) =>
    event.kind === 'hourly'
      ? spanOf(event.station, event).end > now
      : event.date >= climateDayAt(event.station, now).date;
  return events.find((event) => isTradable(event, now)) ?? events.find(isAhead) ?? events.at(-1);
}
