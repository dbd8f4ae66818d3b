import { toAddress } from '../../core/pages/address.js';
import type { Side } from '../market/book.js';
import type { MarketEvent } from '../market/event.js';
import type { TemperatureKind } from '../market/market.js';
import { formatDollars, type Micros } from '../market/money.js';
import type { Action } from '../orders/order.js';

export const MARKETS_PATH = '/dashboard/markets';
/** How the forecasts have done against the market. */
export const SCORES_PATH = '/dashboard/scores';

export const scoresAddress = (kind: TemperatureKind, station: string): string =>
  toAddress(SCORES_PATH, { kind: kind === 'daily_maximum' ? undefined : kind, station });

/** What the overview shows at a time: one kind of temperature, or all that has no place. */
export type Tab = TemperatureKind | 'others';

/** Left out of addresses where nothing else is asked for. */
const nameOf = (tab: Tab): string | undefined => (tab === 'daily_maximum' ? undefined : tab);

export const overviewAddress = (tab: Tab, q = ''): string =>
  toAddress(MARKETS_PATH, { kind: nameOf(tab), q });

/** What is shown of a city; what is left out is chosen by the page. `q` is what the overview was searched for. */
export interface EventChoice {
  station: string;
  kind: TemperatureKind;
  date?: string | undefined;
  hour?: number | undefined;
  q?: string | undefined;
}

export const eventAddress = ({ kind, ...choice }: EventChoice): string => {
  const { station, date, hour, q } = choice;
  return toAddress(MARKETS_PATH, { station, kind: nameOf(kind), date, hour, q });
};

export const addressOfEvent = (
  { station, kind, date, hour }: Pick<MarketEvent, 'station' | 'kind' | 'date' | 'hour'>,
  q?: string,
): string => eventAddress({ station: station.id, kind, date, hour, q });

/** Where a page hears of new prices: of a station, or of everything. */
export const streamAddress = (station?: string): string => toAddress('/stream', { station });

/** What a ticket is opened with; what is left out is chosen by the ticket. */
export interface TicketChoice {
  side?: Side;
  action?: Action;
  contracts?: number;
  limitPrice?: Micros;
}

export const ticketAddress = (ticker: string, { limitPrice, ...choice }: TicketChoice = {}): string =>
  toAddress(`${MARKETS_PATH}/${encodeURIComponent(ticker)}`, {
    ...choice,
    limitPrice: limitPrice === undefined ? undefined : trimZeros(formatDollars(limitPrice)),
  });

/** `0.42` of `0.4200`: as people write it. */
export const trimZeros = (dollars: string): string => dollars.replace(/0{1,2}$/, '');
