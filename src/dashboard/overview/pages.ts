import type { Router } from 'express';
import { listAuditRows } from '../../accounts/audit/queries.js';
import type { Orm } from '../../core/db/client.js';
import { compareDecimals, subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { toTrend } from '../../core/charts/trend.js';
import type { Context } from '../../core/http/context.js';
import { originOf } from '../../core/http/request.js';
import { sendEventLine } from '../../core/pages/curl-line.js';
import { formatCompact } from '../../core/pages/format.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { DAY_MS } from '../../core/time.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { isManager, type Role } from '../../accounts/organizations/table.js';
import { readProductSums, type ProductSum } from '../../metering/events/page-queries.js';
import {
  formatPeriod,
  monthPeriod,
  parsePeriod,
  periodBefore,
  stepsOf,
  type Period,
} from '../../metering/reports/period.js';
import { listDisabled } from '../../accounts/webhooks/queries.js';
import { toDisabledView } from '../../accounts/webhooks/view.js';
import { readActors, toEntryView, type EntryView } from '../audit-log/view.js';
import { listCurrentUse, listExpiringKeys, readProgress, type ProductUse } from './queries.js';

/** `/dashboard`: the state of the Organization, and for a new one its first steps. */
export function overviewPages(context: Context): Router {
  const router = pageRouter();

  router.get('/', async (req, res) => {
    const session = sessionOf(res);
    const livemode = req.query.mode !== 'test';
    const overview = await readOverview(context, session, livemode);
    const baseUrl = originOf(req);
    const example = overview.steps?.example;
    const page = {
      view: 'overview/overview',
      title: 'Overview',
      section: 'overview',
      notices: { joined: 'Welcome: you are a member of this Organization now.' },
    };
    await renderPage(context, req, res, page, {
      ...overview,
      livemode,
      sendLine:
        example &&
        sendEventLine(baseUrl, 'YOUR_API_KEY', {
          productSlug: example.productSlug,
          metric: example.usageMetric,
          quantity: 1,
          idempotencyKey: 'first-event',
        }),
    });
  });

  return router;
}

const SHOWN_PRODUCTS = 12;
const SHOWN_KEYS = 5;
const SHOWN_CHANGES = 5;
const SOON_MS = 14 * DAY_MS;

const NEAR = 0.8;

/** Up to this total number of events, the page announces their arrival. */
const FIRST_EVENTS = 10;

async function readOverview(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  { orgId, role }: { orgId: string; role: Role },
  livemode: boolean,
) {
  const now = new Date(clock.now());
  const until = new Date(now.getTime() + SOON_MS);
  const inEffect = await listCurrentUse(db.orm, orgId, { now, livemode, limit: SHOWN_PRODUCTS + 1 });
  const { hasKey, events } = await readProgress(db.orm, orgId);
  const shown = inEffect.slice(0, SHOWN_PRODUCTS);
  const asked = { productIds: shown.map(({ productId }) => productId), livemode };
  const trend = parsePeriod('last30', {}, now);
  const before = periodBefore(monthPeriod(now), now)!;
  const days = await readProductSums(db.orm, orgId, { ...asked, ...trend });
  const daysBefore = await readProductSums(db.orm, orgId, { ...asked, ...before });
  const products = shown.map((product) => {
    const isOf = ({ productId }: ProductSum) => productId === product.productId;
    return {
      ...product,
      cap: toCap(product),
      trend: trendOf(product, days.filter(isOf), trend),
      /** Usage of the same days of last month, up to the same hour. */
      usedBefore: sumDecimals(daysBefore.filter(isOf).map((day) => day.quantity)),
    };
  });
  const example = inEffect.find(({ kind }) => kind === 'live');
  return {
    /** Remaining first steps; undefined once the first event has arrived. */
    steps: events > 0 ? undefined : { hasEntitlement: example !== undefined, hasKey, example },
    isJustStarted: events > 0 && events <= FIRST_EVENTS,
    products,
    hasMoreProducts: inEffect.length > SHOWN_PRODUCTS,
    /** Usage from 80% to 100% of the cap. */
    nearCap: products.filter(({ cap }) => cap?.isNear),
    overCap: products.filter(({ cap }) => cap?.isOver),
    expiringKeys: await listExpiringKeys(db.orm, orgId, { now, until, limit: SHOWN_KEYS }),
    /** The newest entries of the audit log; undefined for people who may not read it. */
    changes: isManager(role) ? await readChanges(db.orm, orgId) : undefined,
    mayChangeKeys: isManager(role),
    /** Endpoints that the service has disabled; empty for people who may not manage them. */
    disabledWebhooks: isManager(role) ? (await listDisabled(db.orm, orgId)).map(toDisabledView) : [],
  };
}

async function readChanges(orm: Orm, orgId: string): Promise<EntryView[]> {
  const rows = await listAuditRows(orm, orgId, {}, { limit: SHOWN_CHANGES });
  const actorOf = await readActors(
    orm,
    orgId,
    rows.map(({ actor }) => actor),
  );
  return rows.map((row) => toEntryView(row, actorOf(row.actor)));
}

function trendOf({ usageMetric }: ProductUse, days: ProductSum[], period: Period) {
  const byStart = new Map(days.map(({ start, quantity }) => [start, Number(quantity)]));
  const values = stepsOf(period).map((start) => byStart.get(start.getTime()) ?? 0);
  const most = formatCompact(Math.max(...values));
  return toTrend(`${usageMetric} by day, ${formatPeriod(period)}: at most ${most} a day`, values);
}

function toCap({ unitCap, usedThisMonth: used }: ProductUse) {
  if (unitCap === null) return undefined;
  const isUsed = compareDecimals(used, '0') > 0;
  const share = Number(unitCap) > 0 ? Number(used) / Number(unitCap) : isUsed ? Infinity : 0;
  const isOver = compareDecimals(used, unitCap) > 0;
  return {
    unitCap,
    remaining: subtractDecimals(unitCap, used),
    above: subtractDecimals(used, unitCap),
    /** Used ÷ cap, for a drawing and its colour only, not for counting. */
    share,
    isNear: share >= NEAR && !isOver,
    isOver,
  };
}
