import { formatDay } from '../../core/pages/format.js';
import type { Side } from '../market/book.js';
import type { MarketKind, MarketStatus, TemperatureKind } from '../market/market.js';
import { nameMarket, type MarketName } from '../market/market-name.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { eventAddress, ticketAddress } from './addresses.js';

export const kindLabels = {
  daily_maximum: {
    tab: 'Highs',
    plural: 'highs',
    value: 'High',
    temperature: 'highest temperature',
    end: 'the end of the day',
    of: 'day',
    observed: 'Observed so far',
  },
  daily_minimum: {
    tab: 'Lows',
    plural: 'lows',
    value: 'Low',
    temperature: 'lowest temperature',
    end: 'the end of the day',
    of: 'day',
    observed: 'Observed so far',
  },
  hourly: {
    tab: 'Hourly',
    plural: 'hours',
    value: 'Temperature',
    temperature: 'temperature',
    end: 'the hour',
    of: 'hour',
    observed: 'Index value',
  },
} as const satisfies Record<TemperatureKind, Record<string, string>>;

export const kindNames: Readonly<Record<MarketKind, string>> = {
  daily_maximum: 'High',
  daily_minimum: 'Low',
  hourly: 'Hourly',
  rain: 'Rain',
  other: 'Other',
};

/** By source. Other models keep their own name. */
const modelNames: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  openmeteo: {
    main: 'GEFS',
    earlier: 'GEFS, earlier run',
    ecmwf: 'ECMWF ensemble',
    hrrr: 'HRRR',
    nbm: 'NBM',
    nbs: 'NBM bulletin',
    gridpoints: 'Weather service',
    icon: 'ICON',
  },
  simulated: { main: 'Ensemble', earlier: 'Ensemble, earlier run', single: 'Single run' },
};

export const modelName = (source: string, model: string): string => modelNames[source]?.[model] ?? model;

export const formatHour = (hour: number): string => `${String(hour).padStart(2, '0')}:00`;

export const marketStatusLabels: Readonly<Record<MarketStatus, { label: string; tone: string }>> = {
  initialized: { label: 'Not open yet', tone: 'info' },
  inactive: { label: 'Paused', tone: 'warn' },
  active: { label: 'Open', tone: 'good' },
  closed: { label: 'Closed', tone: 'info' },
  determined: { label: 'Determined', tone: 'info' },
  disputed: { label: 'Disputed', tone: 'warn' },
  amended: { label: 'Amended', tone: 'warn' },
  finalized: { label: 'Final', tone: 'info' },
};

/** A climate day is a date in the station's own calendar, so it has no time zone. */
export const formatDate = (date: string): string => formatDay(new Date(`${date}T00:00:00Z`));

type SidedName = MarketName & { side?: Side | undefined };

/** @param name with the side that its ticket opens with */
export function toMarketView(name: SidedName) {
  const { ticker, eventTicker, label, city, kind } = name;
  const place = city === null ? eventTicker : `${city}${(kind && shortNames[kind]) ?? ''}`;
  const date = dateOf(name);
  return {
    ticker,
    label,
    place,
    /** Empty if not known. */
    date,
    /** `New York high, 21 Nov 2026` or `Miami, 12:00 on 13 Sep 2026`. */
    day: [place, date].filter(Boolean).join(', '),
    href: hrefOf(name),
  };
}

/** @param label recorded with an order */
export const findMarketView = (ticker: string, snapshot?: Snapshot, label?: string, side?: Side) =>
  toMarketView({ ...nameMarket(ticker, snapshot?.markets.get(ticker), label), side });

const shortNames: Readonly<Partial<Record<MarketKind, string>>> = {
  daily_maximum: ' high',
  daily_minimum: ' low',
  rain: ' rain',
};

const dateOf = ({ date, hour }: MarketName): string =>
  date === null ? '' : `${hour === null ? '' : `${formatHour(hour)} on `}${formatDate(date)}`;

/** Its own ticket while it is listed, otherwise its day or hour. */
function hrefOf({ ticker, side, station, kind, date, hour, isListed }: SidedName): string | undefined {
  if (isListed || !station) return isListed ? ticketAddress(ticker, { side }) : undefined;
  const when = { date: date ?? undefined, hour: hour ?? undefined };
  return eventAddress({ station: station.id, kind: kind as TemperatureKind, ...when });
}
