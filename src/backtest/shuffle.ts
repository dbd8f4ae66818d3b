import { forecastOf, type DayForecast } from '../trading/forecast/forecast.js';
import { probabilityOf, quantileOf } from '../trading/market/distribution.js';
import type { MarketEvent } from '../trading/market/event.js';
import { spanOf, temperatureKinds, type TemperatureKind } from '../trading/market/market.js';
import { bracketRange } from '../trading/market/brackets.js';
import { uniform } from '../trading/venue/simulation/random.js';
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
      const day = forecastOf(present, event);
      if (!day) continue;
      events.set(event.eventTicker, event);
      const ofEvent = forecasts.get(event.eventTicker) ?? new Map<number, DayForecast>();
      forecasts.set(event.eventTicker, ofEvent.set(hoursToEnd(event, at), day));
    }
  return { events, forecasts };
}

const hoursToEnd = (event: MarketEvent, at: Date): number =>
  Math.round((spanOf(event.station, event).end.getTime() - at.getTime()) / HOUR_MS);

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
      const own = forecastOf(moment.forecasts, event);
      const now = changed.get(event.station.id) ?? station;
      const others = now.days.filter((day) => day !== own);
      const days = theirs && own ? [...others, moveTo(event, own, theirs, partner)] : others;
      changed.set(event.station.id, { ...station, days });
    }
    return { ...moment, forecasts: changed };
  };
}

/** Each event gets the place of another one of its kind in a shuffled ring, so that none keeps its own. */
function pairUp(events: readonly MarketEvent[], seed: string): Map<string, MarketEvent> {
  const ofKind = (kind: TemperatureKind) => events.filter((event) => event.kind === kind);
  return new Map(temperatureKinds.flatMap((kind) => [...pairWithin(ofKind(kind), seed)]));
}

function pairWithin(events: readonly MarketEvent[], seed: string): Map<string, MarketEvent> {
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
  const moved = (bound: number | null) => (bound === null ? null : bound + shift);
  const [atLeast, atMost] = [moved(theirs.atLeastF), moved(theirs.atMostF)];
  const distribution = { mean: theirs.meanF + shift, deviation: theirs.deviationF, atLeast, atMost };
  return {
    ...theirs,
    date: event.date,
    ...(event.hour === undefined ? {} : { hour: event.hour }),
    eventTicker: event.eventTicker,
    modelRunAt: own.modelRunAt,
    fetchedAt: own.fetchedAt,
    observed: own.observed,
    meanF: distribution.mean,
    atLeastF: atLeast,
    atMostF: atMost,
    quantiles: theirs.quantiles.map(({ probability }) => ({
      probability,
      temperatureF: quantileOf(distribution, probability),
    })),
    probabilities: new Map(
      event.markets.map(({ ticker, bracket }) => [ticker, probabilityOf(distribution, bracket)]),
    ),
  };
}

/** Ladders are laid around what the market expects: their ends are what makes days alike. */
function lowestEdge({ markets }: MarketEvent): number {
  const { lowest, highest } = bracketRange(markets[0]!.bracket);
  return highest ?? lowest ?? 0;
}
