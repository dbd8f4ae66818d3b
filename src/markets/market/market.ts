import { DOLLAR, type Micros } from './money.js';
import { bracketLabel, bracketPays, type Bracket } from './brackets.js';
import { climateDayOf, hourOf } from './climate-day.js';
import type { SettlementSource } from './rules.js';
import type { Place } from './place.js';

/** A market pays only when it is `finalized`; before that its result may change. */
export const marketStatuses = [
  'initialized',
  'inactive',
  'active',
  'closed',
  'determined',
  'disputed',
  'amended',
  'finalized',
] as const;
export type MarketStatus = (typeof marketStatuses)[number];

export const temperatureKinds = ['daily_maximum', 'daily_minimum', 'hourly'] as const;
export type TemperatureKind = (typeof temperatureKinds)[number];

export const dailyKinds = ['daily_maximum', 'daily_minimum'] as const satisfies readonly TemperatureKind[];
export type DailyKind = (typeof dailyKinds)[number];

/** From the rules. `other`: another subject or unknown wording. */
export const marketKinds = [...temperatureKinds, 'rain', 'other'] as const;
export type MarketKind = (typeof marketKinds)[number];

/** An order is paid for from its market's shard, so all live cash is here. */
export const WEATHER_SHARD = 0;

/** Inclusive. */
export interface PriceRange {
  start: Micros;
  end: Micros;
  step: Micros;
}

/** Positions settle on it even if the market's other fields are unreadable. */
export interface MarketResult {
  ticker: string;
  status: MarketStatus;
  /** Null until reported. A fraction of a dollar is the last fair price, which the venue pays if data is missing. */
  settlementValue: Micros | null;
  /** The venue canceled the market and refunds contracts at cost. */
  isVoid?: true;
  /** Whole degrees for a day, hundredths for an hour; null until known. */
  settledTemperature: number | null;
}

interface AnyMarket extends MarketResult {
  eventTicker: string;
  seriesTicker: string;
  /** Why neither paper nor live orders are accepted, as a clause. */
  untradable?: string;
  /** Undefined for the weather shard. */
  exchangeIndex?: number;
  /** Best prices; null if there is no bid or ask. */
  yesBid: Micros | null;
  yesAsk: Micros | null;
  noBid: Micros | null;
  noAsk: Micros | null;
  lastPrice: Micros | null;
  volume: number;
  volume24h: number;
  openInterest: number;
  openTime: Date;
  closeTime: Date;
  priceRanges: readonly PriceRange[];
  settlement: { source: SettlementSource | null; rulesText: string };
}

export interface Market extends AnyMarket {
  kind: TemperatureKind;
  station: Place;
  /** For an hour, the local calendar date. */
  date: string;
  /** Local clock; for hourly markets only. */
  hour?: number;
  bracket: Bracket;
}

export type OutcomeMarket = MarketResult &
  Pick<Market, 'eventTicker' | 'kind' | 'station' | 'date' | 'hour' | 'bracket'>;

/** The subject is unknown or cannot be forecast. Settles only on the venue's result. */
export interface UnplacedMarket extends AnyMarket {
  kind: MarketKind;
  station: null;
  bracket: null;
  city: string | null;
  date: string | null;
  title: string;
  label: string;
  /** Why there is neither a forecast nor a signal, as a clause. */
  problem: string;
}

export type ListedMarket = Market | UnplacedMarket;

export const isPlaced = (market: ListedMarket): market is Market => market.station !== null;

export const cityOf = (market: ListedMarket): string | null =>
  market.station?.city ?? (market as UnplacedMarket).city;

export const takesOrders = ({ status, untradable }: Pick<ListedMarket, 'status' | 'untradable'>): boolean =>
  status === 'active' && untradable === undefined;

/** The payout of YES by the venue's result or, until then, by the reported temperature; null without either. */
export function expectedPayout(market: MarketResult & Pick<ListedMarket, 'bracket'>): Micros | null {
  const { status, settlementValue, settledTemperature, bracket } = market;
  if (settlementValue !== null || status !== 'closed' || bracket === null || settledTemperature === null)
    return settlementValue;
  return bracketPays(bracket, settledTemperature) ? DOLLAR : 0n;
}

export const labelOf = (market: ListedMarket): string =>
  market.bracket === null ? market.label : bracketLabel(market.bracket);

export interface Target {
  kind: TemperatureKind;
  stationId: string;
  date: string;
  hour?: number | undefined;
}

export const targetKey = ({ kind, stationId, date, hour }: Target): string =>
  `${stationId} ${kind} ${date}${hour === undefined ? '' : ` ${hour}`}`;

export function targetOf(market: Pick<Market, 'kind' | 'station' | 'date' | 'hour'>): Target {
  const { kind, station, date, hour } = market;
  return { kind, stationId: station.id, date, ...(hour === undefined ? {} : { hour }) };
}

/** UTC. An hour's temperature is that of one minute, so start and end are equal. */
export function spanOf(station: Place, { date, hour }: Pick<Target, 'date' | 'hour'>) {
  if (hour === undefined) return climateDayOf(station, date);
  const at = hourOf(station, date, hour);
  return { start: at, end: at };
}

export const isOnTick = (ranges: readonly PriceRange[], price: Micros): boolean =>
  ranges.some(({ start, end, step }) => price >= start && price <= end && (price - start) % step === 0n);
