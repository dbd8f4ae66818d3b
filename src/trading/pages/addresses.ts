import { toAddress } from '../../pages/address.js';
import type { Side } from '../markets/book.js';
import { formatDollars, type Micros } from '../money.js';
import type { Action } from '../orders/order.js';

export const MARKETS_PATH = '/dashboard/markets';
/** How the forecasts have done against the market. */
export const SCORES_PATH = '/dashboard/scores';

export const marketsAddress = (station: string, date?: string): string =>
  toAddress(MARKETS_PATH, { station, date });

/** Where a page hears of new prices of a city. */
export const streamAddress = (station: string): string => toAddress('/stream', { station });

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
