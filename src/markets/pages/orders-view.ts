import { z } from 'zod';
import { cutPage, fromCursor, toCursor } from '../../core/http/page.js';
import { isUuid } from '../../core/http/request.js';
import { toAddress, toPager, type Query } from '../../core/pages/address.js';
import { fieldError, parseQueryForm, textField, type FormFields } from '../../core/pages/form.js';
import { DAY_MS } from '../../core/time.js';
import { dayField } from '../../core/http/validate.js';
import { tradeModes, type OrderStatus, type TradeMode } from '../ledger/orders-table.js';
import { temperatureKinds } from '../market/market.js';
import { findPlace, seriesOf, stations } from '../market/stations.js';
import {
  orderSorts,
  type ListedOrder,
  type OrderPosition,
  type OrderSort,
} from '../portfolio/order-queries.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { SettlementEventRow, sumSettlements } from '../portfolio/history-queries.js';
import {
  encodeSettlementCursor,
  modeQuery,
  ORDERS_PATH,
  PORTFOLIO_PATH,
  readSettlementCursor,
  SETTLEMENTS_PATH,
  toModeTabs,
  unknownCursor,
} from './addresses.js';
import { kindLabels } from './labels.js';
import { toOrderView, toSettlementView } from './order-view.js';

export const ORDERS_PAGE_SIZE = 25;
export const SETTLEMENTS_PAGE_SIZE = 25;

const statusChoices = {
  open: { label: 'Open', statuses: ['pending', 'resting'] },
  filled: { label: 'Filled', statuses: ['filled'] },
  partially_filled: { label: 'Partially filled', statuses: ['partially_filled'] },
  cancelled: { label: 'Cancelled', statuses: ['cancelled'] },
  rejected: { label: 'Rejected', statuses: ['rejected'] },
} as const satisfies Record<string, { label: string; statuses: readonly OrderStatus[] }>;
const statusNames = Object.keys(statusChoices) as (keyof typeof statusChoices)[];

const sortNames: Record<OrderSort, string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  market: 'By market',
};

const stationOptions = [
  { value: '', label: 'All cities' },
  ...stations
    .map(({ id, city }) => ({ value: id, label: city }))
    .sort((a, b) => a.label.localeCompare(b.label, 'en')),
];
const kindOptions = [
  { value: '', label: 'All markets' },
  ...temperatureKinds.map((value) => ({ value, label: kindLabels[value].tab })),
];
const sortOptions = orderSorts.map((value) => ({ value, label: sortNames[value] }));

/** Other parameters are ignored. */
const ordersQuerySchema = z.object({
  mode: z.enum(tradeModes, 'must be paper or live').default('paper'),
  status: z.enum(statusNames, `must be one of ${statusNames.join(', ')}`).optional(),
  station: z.string().optional(),
  from: dayField.optional(),
  to: dayField.optional(),
  sort: z.enum(orderSorts, `must be one of ${orderSorts.join(', ')}`).default('newest'),
  cursor: z.string().optional(),
});

export function readOrdersRequest(query: FormFields) {
  const { status, sort, cursor, ...narrowed } = parseQueryForm(ordersQuerySchema, query);
  return {
    filter: { ...readFilter(narrowed), statuses: status && statusChoices[status].statuses },
    sort,
    after: cursor === undefined ? undefined : decodePosition(cursor),
  };
}

const settlementsQuerySchema = ordersQuerySchema
  .omit({ status: true, sort: true })
  .extend({ kind: z.enum(temperatureKinds, 'must be one of the markets').optional() });

export function readSettlementsRequest(query: FormFields) {
  const { cursor, ...narrowed } = parseQueryForm(settlementsQuerySchema, query);
  return { filter: readFilter(narrowed), after: readSettlementCursor(cursor) };
}

function readFilter({ mode, station, kind, from, to }: z.output<typeof settlementsQuerySchema>) {
  if (from !== undefined && to !== undefined && from > to)
    throw fieldError('from', 'must not be after the last day');
  const city = station === undefined ? undefined : findPlace(station.toUpperCase())?.city;
  if (station !== undefined && city === undefined) throw fieldError('station', 'must be one of the cities');
  return {
    mode,
    seriesTickers: city === undefined && kind === undefined ? undefined : seriesOf({ city, kind }),
    from: from === undefined ? undefined : new Date(from),
    until: to === undefined ? undefined : new Date(Date.parse(to) + DAY_MS),
  };
}

const encodePosition = ({ id, ticker }: OrderPosition): string => toCursor(`${id} ${ticker}`);

function decodePosition(cursor: string): OrderPosition {
  const [id, ticker, ...others] = fromCursor(cursor).split(' ');
  if (!isUuid(id) || !ticker || !/^[\w.-]{1,100}$/.test(ticker) || others.length > 0) throw unknownCursor();
  return { id, ticker };
}

/** @param found one row more than a page if there is a next one; undefined for a refused query */
export function toOrdersView(
  query: FormFields,
  found: readonly ListedOrder[] | undefined,
  snapshot: Snapshot | undefined,
) {
  const names = ['mode', 'status', 'station', 'from', 'to', 'sort', 'cursor'];
  const [mode, status, station, from, to, sort, cursor] = names.map((name) => textField(query, name));
  const current = mode === 'live' ? 'live' : 'paper';
  const account = modeQuery(current);
  const narrowed = { station, from, to };
  const filters = { ...account, status, ...narrowed, sort: sort === 'newest' ? undefined : sort };
  const { page, nextCursor } = cutPage(found ?? [], ORDERS_PAGE_SIZE, encodePosition);
  const toTab = (value: string | undefined, label: string) => ({
    label,
    href: toAddress(ORDERS_PATH, { ...filters, status: value }),
    isCurrent: status === value,
  });
  return {
    ...toList(ORDERS_PATH, current, filters, { status, ...narrowed }),
    status,
    statusTabs: [
      toTab(undefined, 'All'),
      ...statusNames.map((name) => toTab(name, statusChoices[name].label)),
    ],
    sortOptions,
    isRefused: found === undefined,
    orders: page.map((order) => toOrderView(order, snapshot)),
    pager: toPager(ORDERS_PATH, filters, { cursor, nextCursor }),
    csvHref: toAddress(`${PORTFOLIO_PATH}/trades.csv`, account),
  };
}

type Settled = { found: readonly SettlementEventRow[]; sums: Awaited<ReturnType<typeof sumSettlements>> };

/** @param settled one row more than a page if there is a next one; undefined for a refused query */
export function toSettlementsView(
  query: FormFields,
  settled: Settled | undefined,
  snapshot: Snapshot | undefined,
) {
  const names = ['mode', 'station', 'kind', 'from', 'to', 'cursor'];
  const [mode, station, kind, from, to, cursor] = names.map((name) => textField(query, name));
  const current = mode === 'live' ? 'live' : 'paper';
  const narrowed = { station, kind, from, to };
  const filters = { ...modeQuery(current), ...narrowed };
  const { page, nextCursor } = cutPage(settled?.found ?? [], SETTLEMENTS_PAGE_SIZE, encodeSettlementCursor);
  return {
    ...toList(SETTLEMENTS_PATH, current, narrowed, narrowed),
    kindOptions,
    isRefused: settled === undefined,
    settlements: page.map((each) => toSettlementView(each, snapshot)),
    sums: settled?.sums,
    pager: toPager(SETTLEMENTS_PATH, filters, { cursor, nextCursor }),
  };
}

const toList = (path: string, mode: TradeMode, kept: Query, narrowed: Query) => ({
  mode,
  modes: toModeTabs(path, mode, kept),
  stationOptions,
  isFiltered: Object.values(narrowed).some((value) => value !== undefined),
  allHref: toAddress(path, modeQuery(mode)),
  portfolioHref: toAddress(PORTFOLIO_PATH, modeQuery(mode)),
});
