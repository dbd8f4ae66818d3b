import type { Router } from 'express';
import { z } from 'zod';
import type { Database, Orm } from '../../core/db/client.js';
import type { Context } from '../../core/http/context.js';
import { parseInput } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { formatShare } from '../../core/pages/format.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { requireOnce, tryQuery } from '../../core/pages/form.js';
import { monthOf, monthRange } from '../../core/time.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { readViewQuery, requirePage, viewerOf, type Viewer } from '../../accounts/portal/viewer.js';
import { toCap } from './caps.js';
import { startOfWindow } from './limits.js';
import { nameWindow } from '../window-name.js';
import { listFeatures } from './features.js';
import { readLimitViews } from './limit-view.js';
import { listBalances, listSubjectSums, type BalanceRow } from './queries.js';

const PAGE_SIZE = 50;
const SHOWN_SUBJECTS = 3;

/** `cursor` is the previous page's last slug. */
const querySchema = z.object({ cursor: slugSchema.optional() });

export function entitlementPages(
  context: Context,
  readPlan: (orm: Orm, orgId: string, now: Date) => Promise<object | undefined>,
): Router {
  const { db, clock } = context;
  const router = pageRouter();

  router.get('/entitlements', requirePage('entitlements'), async (req, res) => {
    const viewer = viewerOf(res);
    const { orgId } = viewer;
    const path = `${viewer.home}/entitlements`;
    const now = clock.now();
    const period = monthOf(now);
    const query = readViewQuery(req, res);
    const { form, result } = await tryQuery(res, query, async () => {
      requireOnce(query);
      const { cursor } = parseInput(querySchema, query);
      const rows = await listBalances(db.orm, orgId, period, { after: cursor, limit: PAGE_SIZE + 1 });
      const { page: grants, nextCursor } = cutPage(rows, PAGE_SIZE, ({ productSlug }) => productSlug);
      return { grants, cursor, pager: toPager(path, {}, { cursor, nextCursor }) };
    });
    const page = {
      view: 'metering/entitlements/entitlements',
      title: 'Entitlements',
      section: 'entitlements',
    };
    await renderPage(context, req, res, page, {
      form,
      plan: await readPlan(db.orm, orgId, new Date(now)),
      firstPageHref: path,
      viewer,
      pager: result?.pager,
      isFirstPage: result?.cursor === undefined,
      ...(await readGrantsView(db, viewer, result?.grants ?? [], period, new Date(now))),
    });
  });

  return router;
}

/** `period` is the first day of the balances' month. */
export async function readGrantsView(
  db: Database,
  { orgId, home, mode, subject }: Pick<Viewer, 'orgId' | 'home'> & Partial<Viewer>,
  grants: BalanceRow[],
  period: string,
  now: Date,
) {
  const limited = grants.filter(({ hasLimits, perSubject }) =>
    subject === undefined ? hasLimits : perSubject !== null,
  );
  const scope = { orgId, livemode: mode !== 'test' };
  const subjects = limited.map(({ productId, usageMetric: metric }) => ({
    ...scope,
    productId,
    metric,
    subject,
  }));
  const limits = await readLimitViews(db, subjects, now.getTime());
  const perSubject = await readSubjectLimits(db, scope, grants, now.getTime());
  const { start, end } = monthRange(period);
  return {
    periodStart: new Date(start),
    periodEnd: new Date(end),
    grants: grants
      .map((grant, i) => ({
        ...grant,
        features: listFeatures(grant.features),
        startsAt: new Date(grant.startsAt),
        endsAt: grant.endsAt === null ? null : new Date(grant.endsAt),
        state: stateOf(grant, now),
        limits: limits[limited.indexOf(grant)] ?? [],
        perSubject: perSubject[i]!,
        live: toModeBalance(mode === 'test' ? grant.testUsed : grant.liveUsed, grant.unitCap),
        test: mode ? undefined : toModeBalance(grant.testUsed, grant.unitCap),
        usageHref: toAddress(`${home}/usage`, { product: grant.productSlug, mode }),
        creditsHref: toAddress(`${home}/credits`, { mode }),
      }))
      .toSorted((a, b) => useOf(b) - useOf(a)),
  };
}

/** The highest share of a cap or limit; negative for entitlements that take no events. */
const useOf = (grant: { state: string; live: { share?: number }; limits: readonly { share: number }[] }) =>
  grant.state === 'live' ? Math.max(grant.live.share ?? 0, ...grant.limits.map(({ share }) => share)) : -1;

/** By product. Each with the subjects that have used the most of it. */
export const readSubjectLimits = (
  db: Database,
  scope: { orgId: string; livemode: boolean },
  products: readonly Pick<BalanceRow, 'productId' | 'usageMetric' | 'perSubject'>[],
  nowMs: number,
) =>
  Promise.all(
    products.map(({ productId, usageMetric, perSubject }) =>
      Promise.all(
        (perSubject ?? []).map(async ({ quantity, window, enforcement }) => {
          const since = startOfWindow(window, nowMs);
          const sums = await listSubjectSums(db.orm, { ...scope, productIds: [productId] }, since);
          const largest = sums.filter(({ metric }) => metric === usageMetric).slice(0, SHOWN_SUBJECTS);
          const [highest] = largest;
          // At a limit of 0, all use is above it.
          const share = highest && (Number(highest.quantity) / Number(quantity) || 0);
          const isBlock = enforcement === 'block';
          return { quantity, window: nameWindow(window), isBlock, highest, largest, share };
        }),
      ),
    ),
  );

/** Those of the products, and of the subjects that have used the most of each. */
export async function readAllLimits<T extends Parameters<typeof readSubjectLimits>[2][number]>(
  db: Database,
  scope: Parameters<typeof readSubjectLimits>[1],
  products: readonly T[],
  nowMs: number,
) {
  const perSubject = await readSubjectLimits(db, scope, products, nowMs);
  const asked = products.flatMap((product, i) => {
    const largest = perSubject[i]!.flatMap((limit) => limit.largest.map(({ subject }) => subject));
    const named = { ...scope, ...product, metric: product.usageMetric };
    return [undefined, ...new Set(largest)].map((subject) => ({ ...named, subject }));
  });
  return (await readLimitViews(db, asked, nowMs)).flat();
}

function stateOf({ kind, startsAt, endsAt, isArchived }: BalanceRow, now: Date) {
  if (isArchived) return 'archived';
  if (endsAt !== null && new Date(endsAt) <= now) return 'ended';
  return new Date(startsAt) > now ? 'upcoming' : kind;
}

const toModeBalance = (used: string, unitCap: string | null) => ({
  used,
  ...toCap({ unitCap, usedThisMonth: used }),
  percent: unitCap && formatShare(used, unitCap),
});
