import { AppError } from '../../errors.js';
import type { MarketEvent } from '../markets/event.js';
import { climateDayAt } from '../settlement/climate-day.js';
import { findStation, type Place } from '../settlement/stations.js';
import type { Snapshot } from '../snapshot.js';

export interface Choice {
  station: Place;
  /** Of the station, in the order of days. */
  events: MarketEvent[];
  /** Undefined where nothing is offered: for the station at present, or on the day that was asked for. */
  event: MarketEvent | undefined;
  /** The day that was asked for, if it is not offered: any more, or yet. */
  missingDate: string | null;
}

/**
 * The city and the day that an address asks for; without one, the first city that has markets, and its present climate day.
 * @throws AppError not_found
 */
export function chooseEvent(
  { events }: Pick<Snapshot, 'events'>,
  { station: id, date }: { station?: unknown; date?: unknown },
  now: Date,
): Choice {
  const station =
    id === undefined ? events[0]?.station : typeof id === 'string' ? findStation(id) : undefined;
  if (!station) throw new AppError('not_found', 'There is no such station, or nothing to trade at all.');
  const own = eventsOf(events, station);
  if (date === undefined)
    return { station, events: own, event: currentEvent(own, station, now), missingDate: null };
  if (!isDate(date)) throw new AppError('not_found', 'There is no such day.');
  const event = own.find((event) => event.date === date);
  return { station, events: own, event, missingDate: event ? null : date };
}

const isDate = (value: unknown): value is string =>
  typeof value === 'string' &&
  /^\d{4}-\d\d-\d\d$/.test(value) &&
  new Date(`${value}T00:00:00Z`).getTime() > 0 &&
  new Date(`${value}T00:00:00Z`).toISOString().startsWith(value);

export const eventsOf = (events: readonly MarketEvent[], station: Place): MarketEvent[] =>
  events
    .filter((event) => event.station.id === station.id && event.kind === 'daily_maximum')
    .toSorted((a, b) => (a.date < b.date ? -1 : a.date > b.date ? 1 : 0));

/** The event of the present climate day; else the next one, else the last one. */
export function currentEvent(
  events: readonly MarketEvent[],
  station: Place,
  now: Date,
): MarketEvent | undefined {
  const today = climateDayAt(station, now).date;
  return events.find(({ date }) => date >= today) ?? events.at(-1);
}
