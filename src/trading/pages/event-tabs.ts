import { temperatureKinds } from '../market/market.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { addressOfEvent, eventAddress } from './addresses.js';
import { currentEvent, eventsOf, type Choice } from './choice.js';
import { formatHour, kindWords } from './kind-words.js';
import { dayLabel, todayAt } from './market-view.js';

/** The kinds that a city has markets of, as links. */
export const toCityTabs = ({ events }: Snapshot, { station, kind }: Choice, q: string) =>
  temperatureKinds.flatMap((each) => {
    const [first] = eventsOf(events, station, each);
    if (!first && each !== kind) return [];
    const place = first?.station ?? station;
    return {
      label: each === 'hourly' ? kindWords[each].tab : kindWords[each].value,
      href: eventAddress({ station: place.id, kind: each, q }),
      isCurrent: each === kind,
    };
  });

/** The days of the chosen city, as links. */
export function toDays({ station, kind, events, event: chosen, missing }: Choice, q: string, now: Date) {
  const today = todayAt({ station, kind }, now);
  return [...new Set(events.map(({ date }) => date))].map((date) => ({
    label: dayLabel(date, today),
    href: eventAddress({ station: station.id, kind, date, q }),
    isCurrent: date === (chosen?.date ?? missing?.date),
  }));
}

/** The hours of the chosen day, as links; empty for whole days. */
export function toHours({ kind, events, event: chosen, missing }: Choice, q: string, now: Date) {
  if (kind !== 'hourly') return [];
  const date = chosen?.date ?? missing?.date;
  const next = currentEvent(events, now);
  return events
    .filter((event) => event.date === date)
    .map((event) => ({
      label: formatHour(event.hour ?? 0),
      href: addressOfEvent(event, q),
      isCurrent: event === chosen,
      isNext: event === next && event.markets.some(({ status }) => status === 'active'),
    }));
}
