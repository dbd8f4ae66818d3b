import type { Request } from 'express';
import { z } from 'zod';
import { fromCursor, toCursor } from '../../core/http/page.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import { fieldError, readQuery, requireOnce, textField, type FormFields } from '../../core/pages/form.js';
import type { Action } from '../ledger/order-input.js';
import { tradeModes, type TradeMode } from '../ledger/orders-table.js';
import type { Side, TimeInForce } from '../market/book.js';
import type { MarketEvent } from '../market/event.js';
import type { TemperatureKind } from '../market/market.js';
import { CENT, type Micros } from '../market/money.js';
import { curveRanges, type CurveRange } from '../portfolio/curve.js';
import type { SettlementEventPosition } from '../portfolio/history-queries.js';

/** Other parameters are ignored. */
const pageQuerySchema = z.object({
  mode: z.enum(tradeModes, 'must be paper or live').optional(),
  range: z.enum(Object.keys(curveRanges) as CurveRange[], 'must be day, week, month or year').optional(),
});

export function readPageQuery(req: Request) {
  const query = readQuery(req);
  requireOnce(query);
  const { mode = 'paper', range = 'month' } = parseInput(pageQuerySchema, query);
  return { mode, range };
}

const settlementCursor = /^(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([\w.-]{1,100}) (\d{1,9})$/;

export const encodeSettlementCursor = ({ at, ticker, n }: SettlementEventPosition): string =>
  toCursor(`${at} ${ticker} ${n}`);

export function readSettlementCursor(cursor: string | undefined): SettlementEventPosition | undefined {
  if (cursor === undefined) return undefined;
  const [, at, ticker, n] = settlementCursor.exec(fromCursor(cursor)) ?? [];
  if (at === undefined || ticker === undefined || !z.iso.datetime().safeParse(at).success)
    throw unknownCursor();
  return { at, ticker, n: Number(n) };
}

export const unknownCursor = () => fieldError('cursor', 'is not a cursor from this list');

export const MARKETS_PATH = '/dashboard/markets';
export const SCORES_PATH = '/dashboard/scores';

export type Tab = TemperatureKind | 'others';

const kindParam = (tab: Tab): string | undefined => (tab === 'daily_maximum' ? undefined : tab);

export const scoresAddress = (kind: TemperatureKind, station?: string): string =>
  toAddress(SCORES_PATH, { kind: kindParam(kind), station });

export const overviewAddress = (tab: Tab, q = ''): string =>
  toAddress(MARKETS_PATH, { kind: kindParam(tab), q });

/** The page fills in undefined parameters. `q` is the overview's search. */
interface EventChoice {
  station: string;
  kind: TemperatureKind;
  date?: string | undefined;
  hour?: number | undefined;
  q?: string | undefined;
}

export const eventAddress = ({ station, kind, date, hour, q }: EventChoice): string =>
  toAddress(MARKETS_PATH, { station, kind: kindParam(kind), date, hour, q });

export const addressOfEvent = (
  { station, kind, date, hour }: Pick<MarketEvent, 'station' | 'kind' | 'date' | 'hour'>,
  also: Pick<EventChoice, 'q'> = {},
): string => eventAddress({ station: station.id, kind, date, hour, ...also });

export const streamAddress = (station?: string): string => toAddress('/stream', { station });

/** The ticket fills in undefined parameters. */
interface TicketChoice {
  side?: Side | undefined;
  action?: Action;
  contracts?: number | undefined;
  /** Not typed, so that another purchase has its own. */
  size?: 'suggested';
  limitPrice?: Micros;
  timeInForce?: TimeInForce;
  postOnly?: 'yes';
  /** The id of the order that this one changes. Its terms fill in the others. */
  replaces?: string;
}

export const ticketAddress = (ticker: string, { limitPrice, ...choice }: TicketChoice = {}): string =>
  toAddress(`${MARKETS_PATH}/${encodeURIComponent(ticker)}`, {
    ...choice,
    limitPrice: limitPrice === undefined ? undefined : inCents(limitPrice),
  });

/** The page that a form of the desk is part of, with the order that the reader has composed. */
export const readBack = (fields: FormFields): string | undefined =>
  /^\/dashboard\/markets(?![^/?]).*/s.exec(textField(fields, 'back') ?? '')?.[0];

/** `42` or `42.5`, as the ticket's fields contain prices. */
export const inCents = (price: Micros): string => String(Number(price) / Number(CENT));

export const PORTFOLIO_PATH = '/dashboard/portfolio';
export const ORDERS_PATH = `${PORTFOLIO_PATH}/orders`;
export const SETTLEMENTS_PATH = `${PORTFOLIO_PATH}/settlements`;

export const modeQuery = (mode: TradeMode) => ({ mode: mode === 'paper' ? undefined : mode });

export const toModeTabs = (path: string, current: TradeMode, filters: Query = {}) =>
  (['paper', 'live'] as const).map((mode) => ({
    label: mode === 'paper' ? 'Paper' : 'Live',
    href: toAddress(path, { ...filters, ...modeQuery(mode) }),
    isCurrent: mode === current,
  }));
