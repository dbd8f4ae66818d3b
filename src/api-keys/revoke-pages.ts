import type { Router } from 'express';
import { requireRole, sessionOf } from '../identity/session/session.js';
import { renderPage } from '../core/pages/layout.js';
import { requireKey, revokeApiKey, type KeyDeps } from './api-keys.js';
import { onlyPages } from './create-pages.js';
import { requireKeyDetails, SECTION } from './page-kit.js';
import { sumCalls } from './page-queries.js';
import { actorOf, readId } from './request.js';
import { keyAddress, managingRoles, toKeyView } from './views.js';

const MINUTE_MS = 60_000;
/** How far back the page looks for calls that would begin to fail. */
const RECENT_MINUTES = 15;

/** Ending a key, after a page that says which one and who may still need it. */
export function addRevokePages(router: Router, deps: KeyDeps): void {
  const mayChange = requireRole(...managingRoles);

  router.get('/api-keys/:id/revoke', onlyPages, mayChange, async (req, res) => {
    const { orgId } = sessionOf(res);
    const key = await requireKeyDetails(deps, orgId, readId(req));
    const now = deps.clock.now();
    const from = new Date(now - (now % MINUTE_MS) - RECENT_MINUTES * MINUTE_MS);
    const recent = await sumCalls(deps.db.orm, orgId, [key.id], { from, stepMs: MINUTE_MS });
    await renderPage(
      deps,
      req,
      res,
      { view: 'api-keys/revoke', title: `Revoke ${key.name}`, section: SECTION },
      {
        key: toKeyView(key, new Set(key.scopes), now),
        recentMinutes: RECENT_MINUTES,
        recentCalls: recent.reduce((sum, { calls }) => sum + calls, 0),
        cutOver: key.successorId === null ? undefined : `${keyAddress(key.successorId)}/cut-over`,
      },
    );
  });

  router.post('/api-keys/:id/revoke', mayChange, async (req, res) => {
    const id = readId(req);
    await revokeApiKey(deps, actorOf(req, res), id);
    const { successorId } = await requireKey(deps.db.orm, sessionOf(res).orgId, id);
    // The end of an old key is the end of its cut-over.
    const next =
      successorId === null
        ? `${keyAddress(id)}?done=revoked`
        : `${keyAddress(successorId)}/cut-over?done=finished`;
    res.redirect(303, next);
  });
}
