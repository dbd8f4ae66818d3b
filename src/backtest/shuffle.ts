import type { DayForecast } from '../trading/forecast/forecast.js';
import { probabilityOf, quantileOf } from '../trading/forecast/distribution.js';
import type { MarketEvent } from '../trading/markets/event.js';
import { bracketRange } from '../trading/settlement/brackets.js';
import { climateDayOf } from '../trading/settlement/climate-day.js';
import { uniform } from '../trading/simulation/random.js';
import type { Moment } from './moment.js';

const HOUR_MS = 60 * 60 * 1000;

/** What was forecast of each event, by event and whole hours to the end of its day. */
export interface ForecastsByEvent {
  events: ReadonlyMap<string, MarketEvent>;
  forecasts: ReadonlyMap<string, ReadonlyMap<number, DayForecast>>;
}

export async function collectForecasts(
  moments: AsyncIterable<Moment> | Iterable<Moment>,
): Promise<ForecastsByEvent> {
  const events = new Map<string, MarketEvent>();
  const forecasts = new Map<string, Map<number, DayForecast>>();
  for await (const { due, at, forecasts: present } of moments)
    for (const event of due) {
      const day = present.get(event.station.id)?.days.find(({ date }) => date === event.date);
      if (!day) continue;
      events.set(event.eventTicker, event);
      const ofEvent = forecasts.get(event.eventTicker) ?? new Map<number, DayForecast>();
      forecasts.set(event.eventTicker, ofEvent.set(hoursToEnd(event, at), day));
    }
  return { events, forecasts };
}

const hoursToEnd = ({ station, date }: MarketEvent, at: Date): number =>
  Math.round((climateDayOf(station, date).end.getTime() - at.getTime()) / HOUR_MS);

/**
 * Sets the prices and the result of each event against the forecast of another one, at the same time before its day's
 * end and moved to this one's brackets. Such a forecast is as sure as the real one and knows nothing of the day: whoever
 * earns with it earns by a mistake in how purchases are filled, charged or paid.
 * @returns changes a moment; an event whose partner has no forecast for the time loses its own
 */
export function shuffle({ events, forecasts }: ForecastsByEvent, seed: string): (moment: Moment) => Moment {
  const partners = pairUp([...events.values()], seed);
  return (moment) => {
    const changed = new Map(moment.forecasts);
    for (const event of moment.due) {
      const station = moment.forecasts.get(event.station.id);
      if (!station) continue;
      const partner = partners.get(event.eventTicker);
      const theirs = partner && forecasts.get(partner.eventTicker)?.get(hoursToEnd(event, moment.at));
      const others = (changed.get(event.station.id) ?? station).days.filter(
        ({ date }) => date !== event.date,
      );
      const own = station.days.find(({ date }) => date === event.date);
      const days = theirs && own ? [...others, moveTo(event, own, theirs, partner)] : others;
      changed.set(event.station.id, { ...station, days });
    }
    return { ...moment, forecasts: changed };
  };
}

/** Each event gets another one's place in a shuffled ring, so that none keeps its own. */
function pairUp(events: readonly MarketEvent[], seed: string): Map<string, MarketEvent> {
  const ring = events
    .map((event) => ({ event, place: uniform(seed, event.eventTicker) }))
    .sort((a, b) => a.place - b.place || (a.event.eventTicker < b.event.eventTicker ? -1 : 1))
    .map(({ event }) => event);
  return new Map(ring.map((event, i) => [event.eventTicker, ring[(i + 1) % ring.length]!]));
}

/** The times stay the event's own: its forecast is as old as it was. */
function moveTo(
  event: MarketEvent,
  own: DayForecast,
  theirs: DayForecast,
  partner: MarketEvent,
): DayForecast {
  const shift = lowestEdge(event) - lowestEdge(partner);
  const atLeast = theirs.atLeastF === null ? null : theirs.atLeastF + shift;
  const maximum = { mean: theirs.meanF + shift, deviation: theirs.deviationF, atLeast };
  return {
    ...theirs,
    date: event.date,
    eventTicker: event.eventTicker,
    modelRunAt: own.modelRunAt,
    fetchedAt: own.fetchedAt,
    observed: own.observed,
    meanF: maximum.mean,
    atLeastF: atLeast,
    quantiles: theirs.quantiles.map(({ probability }) => ({
      probability,
      temperatureF: quantileOf(maximum, probability),
    })),
    probabilities: new Map(
      event.markets.map(({ ticker, bracket }) => [ticker, probabilityOf(maximum, bracket)]),
    ),
  };
}

/** Ladders are laid around what the market expects: their ends are what makes days alike. */
const lowestEdge = ({ markets }: MarketEvent): number => bracketRange(markets[0]!.bracket).highest ?? 0;
