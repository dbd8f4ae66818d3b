import { HOUR_MS } from '../../core/time.js';
import { isSameBracket, parseBracket, type Bracket } from '../market/brackets.js';
import { climateDayOf, clockAt } from '../market/climate-day.js';
import { isAboutRain, readTemperatureRules, type TemperatureRules } from '../market/rules.js';
import {
  findIndexArea,
  findSeries,
  findStationOfCity,
  findStationOfPlace,
  findStationOfReport,
} from '../market/stations.js';
import { readEventTicker } from '../market/event.js';
import type { Market, UnplacedMarket } from '../market/market.js';
import type { NoteKind } from '../market/source.js';
import type { Place } from '../market/place.js';
import type { KalshiOutcome } from './kalshi-schema.js';

/** Thrown for a market whose data contradicts itself; then only its result is used. */
export class ContradictionError extends Error {
  readonly what: string;
  constructor(ticker: string, what: string, detail: string) {
    super(`${ticker}: ${detail}`);
    this.name = 'ContradictionError';
    this.what = what;
  }
}

export type MarketPlace = Pick<Market, 'kind' | 'station' | 'date' | 'hour' | 'bracket'>;

export interface OtherMarket extends Pick<UnplacedMarket, 'kind' | 'station' | 'city' | 'date' | 'problem'> {
  note: { kind: NoteKind; name: string };
}

const MAX_EARLY_MS = 6 * HOUR_MS;

/**
 * Reads the station, measure, day and bracket from the rules and checks them against all other fields.
 * @throws ContradictionError if two fields disagree
 */
export function placeMarket(wire: KalshiOutcome): MarketPlace | OtherMarket {
  const refuse = (what: string, detail: string) => new ContradictionError(wire.ticker, what, detail);
  const named = readEventTicker(wire.event_ticker);
  const rules = readTemperatureRules(wire.rules_primary, wire.rules_secondary);
  if (!rules) return notRead(wire, named?.date ?? null);
  if (named && named.date !== rules.date)
    throw refuse('date', `its ticker names ${named.date}, but its rules are about ${rules.date}`);
  const kind = kinds[rules.measure];
  const series = named?.seriesTicker ?? wire.event_ticker;
  const meant = /^(?:KX)?(HIGH|LOW)/.exec(series)?.[1];
  if (meant !== undefined && rules.measure !== (meant === 'HIGH' ? 'maximum' : 'minimum'))
    throw refuse(
      'series',
      `its series ${series} is about a day's ${meant.toLowerCase()}, but its rules are about ${kind}`,
    );
  const found = findPlaceOf(rules);
  if ('problem' in found)
    return {
      kind,
      station: null,
      city: rules.place,
      date: rules.date,
      problem: found.problem,
      note: { kind: 'unknown_place', name: rules.report ?? rules.place },
    };
  const { station } = found;
  const known = findSeries(named?.seriesTicker ?? '');
  if (known && (known.station !== station || known.kind !== kind))
    throw refuse(
      'series',
      `its series is about ${known.kind} at ${known.station.id}, but its rules are about ${kind} at ${station.id}`,
    );
  if (!named || (named.hour ?? null) !== rules.hour)
    throw refuse(
      'event',
      `the event ${wire.event_ticker} does not name ${rules.date}${rules.hour === null ? '' : ` and the hour ${rules.hour}`}`,
    );
  return {
    kind,
    station,
    date: rules.date,
    ...(rules.hour === null ? {} : { hour: rules.hour }),
    bracket: readBracket(wire, rules, refuse),
  };
}

const kinds = { maximum: 'daily_maximum', minimum: 'daily_minimum', hour: 'hourly' } as const;

function notRead(wire: KalshiOutcome, date: string | null): OtherMarket {
  const kind = isAboutRain(wire.rules_primary) ? 'rain' : 'other';
  const place = /\b(?:at|in) (CLI[A-Z]{3}) in ([A-Z][A-Za-z. ]*?) in /.exec(wire.rules_primary);
  return {
    kind,
    station: null,
    city: place?.[2] ?? null,
    date,
    problem:
      kind === 'rain'
        ? 'Gauge does not forecast rain'
        : 'its rules are not about a temperature, or have an unknown wording',
    note:
      kind === 'rain'
        ? { kind: 'unknown_kind', name: 'rain' }
        : { kind: 'unknown_wording', name: wire.event_ticker.split('-')[0]! },
  };
}

function findPlaceOf(rules: TemperatureRules): { station: Place } | { problem: string } {
  const { measure, place, report, source } = rules;
  const unknown = (what: string) => ({ problem: `${what} is not a known station` });
  if (measure === 'hour') {
    if (source !== 'Kalshi Weather Index')
      return { problem: `Gauge does not forecast hours that ${source ?? 'another source'} decides` };
    const area = findIndexArea(place);
    return area ? { station: area } : { problem: `Gauge makes no forecasts for the index of ${place}` };
  }
  if (report !== null) {
    const station = findStationOfReport(report);
    return station ? { station } : unknown(report);
  }
  // On one day, the rules named The Weather Company but gave only the city.
  const station = source === 'The Weather Company' ? findStationOfCity(place) : findStationOfPlace(place);
  return station ? { station } : unknown(place);
}

type Refuse = (what: string, detail: string) => ContradictionError;

function readBracket(wire: KalshiOutcome, { bracket }: TemperatureRules, refuse: Refuse): Bracket {
  const parsed = parseBracket({
    ticker: wire.ticker,
    strikeType: wire.strike_type ?? undefined,
    floorStrike: wire.floor_strike ?? undefined,
    capStrike: wire.cap_strike ?? undefined,
    label: wire.yes_sub_title,
    ...(bracket.step === undefined ? {} : { step: bracket.step }),
  });
  if (!parsed)
    throw refuse(
      'bracket',
      `its strikes, its label “${wire.yes_sub_title}” and its ticker do not agree on a bracket`,
    );
  if (!isSameBracket(parsed, bracket))
    throw refuse(
      'bracket',
      `its rules say ${bracket.kind} ${bracket.floor ?? bracket.cap}, its strikes and its label “${wire.yes_sub_title}”`,
    );
  return parsed;
}

/**
 * Checks the close time of a market that has not closed. Daily markets close at the end of their day. Until March 2026
 * they closed a minute before midnight by the local clock, and in 2024 by New York's clock everywhere, so up to a few
 * hours early. Hourly markets close on the hour. With any other close time, the market may be about another day or may
 * be about to close, so it is not traded.
 */
export function closesAsExpected({ station, date, hour }: MarketPlace, closeTime: Date): boolean {
  if (hour !== undefined) {
    const clock = clockAt(station, closeTime);
    return clock.date === date && clock.hour === hour && closeTime.getTime() % HOUR_MS === 0;
  }
  const early = climateDayOf(station, date).end.getTime() - closeTime.getTime();
  return early >= 0 && early <= MAX_EARLY_MS;
}
