import type { Micros } from './money.js';
import { bracketLabel, type Bracket } from './brackets.js';
import { climateDayOf, hourOf } from './climate-day.js';
import type { SettlementSource } from './rules.js';
import type { Place } from './stations.js';

/** The venue's states. A market pays only once it is `finalized`: before that its result may still change. */
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

/** What there may be a forecast of. */
export const temperatureKinds = ['daily_maximum', 'daily_minimum', 'hourly'] as const;
export type TemperatureKind = (typeof temperatureKinds)[number];

/** Those of a climate day. */
export const dailyKinds = ['daily_maximum', 'daily_minimum'] as const satisfies readonly TemperatureKind[];
export type DailyKind = (typeof dailyKinds)[number];

/** What a market is about, by its rules. `other`: something else, or a wording that is not known. */
export const marketKinds = [...temperatureKinds, 'rain', 'other'] as const;
export type MarketKind = (typeof marketKinds)[number];

/**
 * The venue's exchange shard that trades the weather. What an order may cost must lie on its market's shard, so live orders and the
 * cash of live accounts are on this one alone.
 */
export const WEATHER_SHARD = 0;

/** A range of prices and the step that orders in it must keep. Both ends are included. */
export interface PriceRange {
  start: Micros;
  end: Micros;
  step: Micros;
}

/** What the venue says of any market, checked and in our terms. */
interface AnyMarket {
  ticker: string;
  eventTicker: string;
  seriesTicker: string;
  status: MarketStatus;
  /** Why no orders are taken in it, neither paper nor live, as a clause; absent where they are. */
  untradable?: string;
  /** The venue's exchange shard that trades it; absent where that is the one of the weather. */
  exchangeIndex?: number;
  /** Best prices; null where there is no bid or ask. */
  yesBid: Micros | null;
  yesAsk: Micros | null;
  noBid: Micros | null;
  noAsk: Micros | null;
  lastPrice: Micros | null;
  /** Contracts. */
  volume: number;
  volume24h: number;
  openInterest: number;
  openTime: Date;
  closeTime: Date;
  priceRanges: readonly PriceRange[];
  /** Who decides, by the rules, and the rules themselves. */
  settlement: { source: SettlementSource | null; rulesText: string };
  /** What YES pays; null until the venue has said so. Neither nothing nor a dollar: a last fair price, where no data came. */
  settlementValue: Micros | null;
  /** True for a market that the venue has called off: its contracts give back what they cost. Absent for all others. */
  isVoid?: true;
  /** The reported temperature: whole degrees of a day, hundredths of an hour; null until it is known. */
  settledTemperature: number | null;
}

/** One bracket of one temperature: a day's maximum or minimum at a station, an hour's of an area. */
export interface Market extends AnyMarket {
  kind: TemperatureKind;
  station: Place;
  /** The climate day, `YYYY-MM-DD`; of an hour the date by the clock. */
  date: string;
  /** By the clock of the place, 0 to 23; of an hour only. */
  hour?: number;
  bracket: Bracket;
}

/** A market that settles by the venue's word alone: what it is about is not certain, or nothing that is forecast here. */
export interface UnplacedMarket extends AnyMarket {
  kind: MarketKind;
  station: null;
  bracket: null;
  /** Null where the venue does not say it in a way that is understood. */
  city: string | null;
  date: string | null;
  /** The venue's own. */
  title: string;
  label: string;
  /** Why there is neither forecast nor signal, as a clause. */
  problem: string;
}

export type ListedMarket = Market | UnplacedMarket;

export const isPlaced = (market: ListedMarket): market is Market => market.station !== null;

export const cityOf = (market: ListedMarket): string | null =>
  market.station?.city ?? (market as UnplacedMarket).city;

/** Whether the venue takes orders in it, and we do. */
export const takesOrders = ({ status, untradable }: Pick<ListedMarket, 'status' | 'untradable'>): boolean =>
  status === 'active' && untradable === undefined;

/** What YES pays for: `84° to 85°`. */
export const labelOf = (market: ListedMarket): string =>
  market.bracket === null ? market.label : bracketLabel(market.bracket);

/** What a forecast, a record or a report is of. */
export interface Target {
  kind: TemperatureKind;
  stationId: string;
  date: string;
  hour?: number | undefined;
}

export const targetKey = ({ kind, stationId, date, hour }: Target): string =>
  `${stationId} ${kind} ${date}${hour === undefined ? '' : ` ${hour}`}`;

export const targetOf = ({
  kind,
  station,
  date,
  hour,
}: Pick<Market, 'kind' | 'station' | 'date' | 'hour'>): Target => ({
  kind,
  stationId: station.id,
  date,
  ...(hour === undefined ? {} : { hour }),
});

/** The time that a target is about, UTC; an hour's temperature is that of one minute: start and end are the same. */
export function spanOf(
  station: Place,
  { date, hour }: Pick<Target, 'date' | 'hour'>,
): { start: Date; end: Date } {
  if (hour === undefined) return climateDayOf(station, date);
  const at = hourOf(station, date, hour);
  return { start: at, end: at };
}

export const isOnTick = (ranges: readonly PriceRange[], price: Micros): boolean =>
  ranges.some(({ start, end, step }) => price >= start && price <= end && (price - start) % step === 0n);
