import type { Request, Response, Router } from 'express';
import { sessionOf } from '../identity/session/session.js';
import { AppError } from '../core/errors.js';
import { prefersHtml } from '../core/http/accepts.js';
import { renderPage } from '../core/pages/layout.js';
import type { KeyDeps } from './api-keys.js';
import { makeCallChart, startOfStep } from './calls-chart.js';
import { onlyPages } from './create-pages.js';
import { readCutOver } from './cut-over.js';
import { canManage, requireKeyDetails, SECTION } from './page-kit.js';
import { listScopeUse, sumCalls } from './page-queries.js';
import { readId } from './request.js';
import { scopeGuide } from './scope-guide.js';
import { keyAddress, showPrefix, toKeyView } from './views.js';

const HOUR_MS = 3_600_000;

/** What the page of a key can look back on. */
const ranges = {
  day: { label: 'Last 24 hours', hours: 24, stepMs: HOUR_MS },
  week: { label: 'Last 7 days', hours: 7 * 24, stepMs: 6 * HOUR_MS },
} as const;

const keyNotices = {
  revoked: 'The key is revoked. Calls with it fail from now on.',
  exists:
    'This form has made this key already, and its secret was shown then, once. If you did not see it, rotate the key. For another key, begin with a new form.',
};
const cutOverNotices = { finished: 'The old key is revoked. Calls with it fail from now on.' };

/** The page of a key, and the page that shows how calls move over to it. Every member may see both. */
export function addKeyPages(router: Router, deps: KeyDeps): void {
  router.get('/api-keys/:id', async (req, res, next) => {
    if (!prefersHtml(req)) next('route');
    else await showKey(deps, req, res);
  });

  router.get('/api-keys/:id/cut-over', onlyPages, async (req, res) => {
    const { orgId } = sessionOf(res);
    const key = await requireKeyDetails(deps, orgId, readId(req));
    if (key.rotatedFromId === null) {
      if (key.successorId === null)
        throw new AppError(
          'not_found',
          'This API key has replaced no other, so there is no cut-over to watch.',
        );
      res.redirect(303, `${keyAddress(key.successorId)}/cut-over`);
      return;
    }
    const old = await requireKeyDetails(deps, orgId, key.rotatedFromId);
    const now = deps.clock.now();
    const cutOver = await readCutOver(deps.db.orm, orgId, { old, successor: key }, now);
    await renderPage(
      deps,
      req,
      res,
      {
        view: 'api-keys/cut-over',
        title: `Cut-over of ${key.name}`,
        section: SECTION,
        notices: cutOverNotices,
      },
      {
        key: toKeyView(key, new Set(key.scopes), now),
        old: toKeyView(old, new Set(old.scopes), now),
        cutOver,
        canChange: canManage(res),
      },
    );
  });
}

async function showKey(deps: KeyDeps, req: Request, res: Response): Promise<void> {
  const { orgId } = sessionOf(res);
  const key = await requireKeyDetails(deps, orgId, readId(req));
  const now = deps.clock.now();
  const range = req.query.range === 'week' ? 'week' : 'day';
  const { stepMs, hours } = ranges[range];
  const fromMs = startOfStep(now, stepMs) - hours * HOUR_MS + stepMs;
  const calls = await sumCalls(deps.db.orm, orgId, [key.id], { from: new Date(fromMs), stepMs });
  const used = await listScopeUse(deps.db.orm, orgId, [key.id]);
  const view = toKeyView(key, new Set(used.map(({ scope }) => scope)), now);
  await renderPage(
    deps,
    req,
    res,
    { view: 'api-keys/key', title: key.name, section: SECTION, notices: keyNotices },
    {
      key: view,
      canChange: canManage(res),
      scopeUse: key.scopes.map((scope) => ({
        scope,
        allows: scopeGuide.find((guide) => guide.scope === scope)?.allows ?? '',
        ...(used.find((use) => use.scope === scope) ?? { calls: 0, lastUsedAt: null }),
      })),
      chart: makeCallChart([{ id: key.id, label: 'Calls' }], calls, { fromMs, toMs: now, stepMs }),
      ranges: Object.entries(ranges).map(([value, { label }]) => ({
        href: value === 'day' ? view.href : `${view.href}?range=${value}`,
        label,
        isCurrent: value === range,
      })),
      previous: toNeighbour(key.rotatedFromId, key.previousPrefix),
      successor: toNeighbour(key.successorId, key.successorPrefix),
      usageHref: `/dashboard/usage?key=${key.id}`,
    },
  );
}

const toNeighbour = (id: string | null, prefix: string | null) =>
  id === null || prefix === null ? undefined : { href: keyAddress(id), prefix: showPrefix(prefix) };
