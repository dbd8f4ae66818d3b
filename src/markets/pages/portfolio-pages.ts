import type { Router } from 'express';
import { DAY_MS } from '../../core/time.js';
import { toLineChart } from '../../core/charts/line-chart.js';
import { originOf } from '../../core/http/request.js';
import { toAddress } from '../../core/pages/address.js';
import { readQuery, tryQuery } from '../../core/pages/form.js';
import {
  formatChange,
  formatPrice,
  formatShortDay,
  formatTime,
  roundToCent,
} from '../../core/pages/format.js';
import { noticeOf, renderPage, pageRouter } from '../../core/pages/layout.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import { formatTick } from '../../core/charts/bars.js';
import type { Context } from '../../core/http/context.js';
import type { TradeMode } from '../ledger/orders-table.js';
import type { LiveReport } from '../live/report.js';
import { CENT } from '../market/money.js';
import { findFirstOrder } from '../orders/first-order.js';
import { curveRanges, readCurve, type CurvePoint, type CurveRange } from '../portfolio/curve.js';
import { listSettlementEvents, sumSettlements } from '../portfolio/history-queries.js';
import { listLatestOrders } from '../portfolio/order-queries.js';
import { readPortfolio, type PortfolioDeps } from '../portfolio/portfolio.js';
import { readSwitch } from '../risk/switches.js';
import type { TradingServices } from '../services/services.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { modeQuery, PORTFOLIO_PATH, readPageQuery, toModeTabs } from './addresses.js';
import { ORDERS_SHOWN, toDeskOrders, toDeskPositions } from './desk-view.js';
import { formatHour } from './labels.js';
import { addOrderPages, orderNotices } from './order-pages.js';
import { toSettlementView } from './order-view.js';
import { readSettlementsRequest, SETTLEMENTS_PAGE_SIZE, toSettlementsView } from './orders-view.js';
import { toPortfolioView } from './portfolio-view.js';

/** `report` is undefined if the Organization does not trade live. */
function toVenueView(report: LiveReport | undefined) {
  if (!report) return { isOff: true as const };
  const { organization: _, state, foreign, ...rest } = report;
  return {
    isOff: false as const,
    isOpen: state === 'open',
    ...rest,
    elsewhere: rest.otherShards.reduce((sum, { balance }) => sum + balance, 0n),
    others: [
      ...foreign.positions.map((position) => ({ ...position, what: 'Position', state: 'held' })),
      ...foreign.orders.map((order) => ({
        ...order,
        what: 'Order',
        contracts: `${order.filled} of ${order.initial}`,
        state: order.status,
      })),
      ...foreign.fills.map((fill) => ({
        ...fill,
        what: 'Fill',
        state: `YES at ${formatPrice(fill.yesPrice)}`,
      })),
    ],
  };
}

/** In a market that is open now; undefined without one. */
function curlOfFirstTrade(url: string, snapshot: Snapshot | undefined): string | undefined {
  const order = findFirstOrder(snapshot);
  if (!order) return undefined;
  return [
    `curl ${url}/trade`,
    `-H 'Authorization: Bearer org_test_…'`,
    `-H 'Content-Type: application/json'`,
    `-H 'Idempotency-Key: first-trade'`,
    `-d '${JSON.stringify(order)}'`,
  ].join(' \\\n  ');
}

/** Too few points for a line give no chart. */
function toCurveView(points: readonly CurvePoint[], { mode, range }: { mode: TradeMode; range: CurveRange }) {
  return {
    ranges: Object.entries(curveRanges).map(([name, { label }]) => ({
      label,
      href: toAddress(PORTFOLIO_PATH, { ...modeQuery(mode), range: name }),
      isCurrent: name === range,
    })),
    chart: points.length < 2 || !hasAny(points) ? undefined : drawCurve(points, range),
    rangeName: curveRanges[range].label,
    ...summarizeRange(points, range),
    rows: points.toReversed(),
  };
}

/** Over the range and on its worst day, which midnight ends; null if the total is unknown. */
export function summarizeRange(points: readonly CurvePoint[], range: CurveRange) {
  const known = points.flatMap(({ at, total }) => (total === null ? [] : [{ at, total }]));
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last || first === last) return { gain: null, since: null, worstDay: null, ends: null };
  // In cents, as the ends that are shown beside it.
  const gain = roundToCent(last.total) - roundToCent(first.total);
  /** Null if the total is known from the range's start. */
  const since = first.at === points[0]!.at ? null : first.at;
  /** Null for a line from zero, which ends at the gain. */
  const ends = first.total === 0n ? null : { from: first.total, to: last.total };
  if (range !== 'week' && range !== 'month') return { gain, since, ends, worstDay: null };
  const daily = [
    first.total,
    ...new Map(known.map(({ at, total }) => [Math.ceil(at.getTime() / DAY_MS), total])).values(),
  ];
  const changes = daily.slice(1).map((end, i) => end - daily[i]!);
  const worst = changes.reduce((least, change) => (change < least ? change : least));
  return { gain, since, ends, worstDay: worst < 0n ? worst : null };
}

const hasAny = (points: readonly CurvePoint[]): boolean =>
  points.some(
    ({ realised, fees, unrealised }) => realised !== 0n || fees !== 0n || (unrealised ?? 0n) !== 0n,
  );

/** Whole cents are precise enough for a chart. */
const toNumber = (micros: bigint): number => Number(micros / CENT) / 100;

function drawCurve(points: readonly CurvePoint[], range: CurveRange) {
  const last = points.at(-1)!;
  const total = last.total === null ? 'not known at the moment' : formatChange(last.total);
  return toLineChart({
    summary: `Profit and loss, ${curveRanges[range].label}: ${total} in the end. The numbers are in the table below.`,
    labels: points.map(
      (point) =>
        `${formatTime(point.at)}: ${point.total === null ? 'not known' : formatChange(point.total)}, of it booked ${formatChange(point.realised - point.fees)}`,
    ),
    axis: points.map(({ at }) => (range === 'day' ? formatHour(at.getUTCHours()) : formatShortDay(at))),
    lines: [
      { name: 'booked', values: points.map(({ realised, fees }) => toNumber(realised - fees)) },
      { name: 'total', values: points.map(({ total }) => (total === null ? null : toNumber(total))) },
    ],
    hasZero: false,
    formatTick: (value) => `${value < 0 ? '−' : ''}$${formatTick(Math.abs(value))}`,
  });
}

const SETTLEMENTS_SHOWN = 5;

export function portfolioPages(context: Context, trading: TradingServices): Router {
  const { db, clock, config } = context;
  const { snapshots } = trading;
  const deps: PortfolioDeps = { db, clock, snapshots, paperCash: config.trading.paperCash };
  const router = pageRouter();

  router.get('/portfolio', async (req, res) => {
    const { orgId, role, marketAccess } = sessionOf(res);
    const { mode, range } = readPageQuery(req);
    const portfolio = await readPortfolio(deps, orgId, mode);
    const now = new Date(clock.now());
    const snapshot = snapshots.current;
    const { sources } = snapshots;
    const { refreshSeconds } = config.trading;
    const view = toPortfolioView(portfolio, { snapshot, sources, refreshSeconds, now });
    const [tradingSwitch, curve, orders, settlements] = await Promise.all([
      readSwitch(db.orm, orgId),
      readCurve(db.orm, orgId, { ...portfolio, ...view.tiles }, range, now),
      listLatestOrders(db.orm, orgId, mode, ORDERS_SHOWN),
      listSettlementEvents(db.orm, orgId, { mode, after: undefined, limit: SETTLEMENTS_SHOWN }),
    ]);
    const page = { view: 'markets/portfolio/portfolio', title: 'Portfolio', section: 'portfolio' };
    await renderPage(context, req, res, page, {
      modes: toModeTabs(PORTFOLIO_PATH, mode),
      portfolio: { ...view, isNew: view.isNew && orders.length === 0 },
      curve: toCurveView(curve, { mode, range }),
      held: {
        positions: toDeskPositions(portfolio, snapshot, mode === 'paper' && isManager(role)),
        orders: toDeskOrders(orders, snapshot, isManager(role)),
        from: 'portfolio',
        told: noticeOf(req, orderNotices),
      },
      settlements: settlements.map((each) => toSettlementView(each, snapshot)),
      tradingSwitch,
      venue: mode === 'live' ? toVenueView(trading.live?.reportOf(orgId)) : undefined,
      query: mode === 'paper' ? '' : `?mode=${mode}`,
      firstTrade: marketAccess === 'trade' ? curlOfFirstTrade(originOf(req), snapshot) : undefined,
    });
  });

  router.get('/portfolio/settlements', async (req, res) => {
    const { orgId } = sessionOf(res);
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { filter, after } = readSettlementsRequest(query);
      const page = { ...filter, after, limit: SETTLEMENTS_PAGE_SIZE + 1 };
      const [found, sums] = await Promise.all([
        listSettlementEvents(db.orm, orgId, page),
        sumSettlements(db.orm, orgId, filter),
      ]);
      return { found, sums };
    });
    const page = { view: 'markets/portfolio/settlements', title: 'Settlements', section: 'portfolio' };
    await renderPage(context, req, res, page, {
      form,
      ...toSettlementsView(query, result, snapshots.current),
    });
  });

  addOrderPages(router, context, trading);
  return router;
}
