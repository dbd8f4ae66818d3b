import type { Router } from 'express';
import { listAuditRows } from '../../audit/queries.js';
import type { Orm } from '../../core/db/client.js';
import { compareDecimals, subtractDecimals } from '../../core/decimal.js';
import type { Context } from '../../core/http/context.js';
import { originOf } from '../../core/http/own-origin.js';
import { sendEventLine } from '../../core/pages/curl-line.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { DAY_MS } from '../../core/time.js';
import { sessionOf } from '../../identity/session/session.js';
import { isManager, type Role } from '../../organizations/table.js';
import { readActors, toEntryView, type EntryView } from '../audit-log/view.js';
import { listCurrentUse, listExpiringKeys, readProgress, type ProductUse } from './queries.js';

/** `/dashboard`: how the Organization stands, and for a new one what to do first. */
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

/** From this share of its cap on a product is near it. */
const NEAR = 0.8;

/** As long as this few events have come in all, their arrival is announced. */
const FIRST_EVENTS = 10;

interface Cap {
  unitCap: string;
  remaining: string;
  /** How far above the cap; `0` below it. */
  above: string;
  /** Used ÷ cap: for a picture and its colour, not for counting. */
  share: number;
  isNear: boolean;
}

interface ProductView extends ProductUse {
  cap: Cap | undefined;
}

interface Overview {
  /** What is still to do until the first event has arrived; undefined from then on. */
  steps: { hasEntitlement: boolean; hasKey: boolean; example: ProductUse | undefined } | undefined;
  isJustStarted: boolean;
  products: ProductView[];
  hasMoreProducts: boolean;
  /** Used at least to 80 %, or above. */
  nearCap: ProductView[];
  expiringKeys: Awaited<ReturnType<typeof listExpiringKeys>>;
  /** The newest entries of the audit log; undefined for who may not read it. */
  changes: EntryView[] | undefined;
  mayChangeKeys: boolean;
}

async function readOverview(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  { orgId, role }: { orgId: string; role: Role },
  livemode: boolean,
): Promise<Overview> {
  const now = new Date(clock.now());
  const until = new Date(now.getTime() + SOON_MS);
  const inEffect = await listCurrentUse(db.orm, orgId, { now, livemode, limit: SHOWN_PRODUCTS + 1 });
  const { hasKey, events } = await readProgress(db.orm, orgId);
  const products = inEffect.slice(0, SHOWN_PRODUCTS).map(toProductView);
  const example = inEffect.find(({ kind }) => kind === 'live');
  return {
    steps: events > 0 ? undefined : { hasEntitlement: example !== undefined, hasKey, example },
    isJustStarted: events > 0 && events <= FIRST_EVENTS,
    products,
    hasMoreProducts: inEffect.length > SHOWN_PRODUCTS,
    nearCap: products.filter(({ cap }) => cap?.isNear),
    expiringKeys: await listExpiringKeys(db.orm, orgId, { now, until, limit: SHOWN_KEYS }),
    changes: isManager(role) ? await readChanges(db.orm, orgId) : undefined,
    mayChangeKeys: isManager(role),
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

function toProductView(product: ProductUse): ProductView {
  const { unitCap, usedThisMonth: used } = product;
  if (unitCap === null) return { ...product, cap: undefined };
  const isUsed = compareDecimals(used, '0') > 0;
  const share = Number(unitCap) > 0 ? Number(used) / Number(unitCap) : isUsed ? Infinity : 0;
  const cap = {
    unitCap,
    remaining: subtractDecimals(unitCap, used),
    above: subtractDecimals(used, unitCap),
    share,
    isNear: share >= NEAR,
  };
  return { ...product, cap };
}
