import type { Router } from 'express';
import { listExpiringKeys } from '../../accounts/api-keys/queries.js';
import type { Wording } from '../../accounts/audit/wording.js';
import type { Context } from '../../core/http/context.js';
import { originOf } from '../../core/http/request.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { DAY_MS } from '../../core/time.js';
import { sessionOf, type SessionPrincipal } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import { listDisabled } from '../../accounts/webhooks/queries.js';
import { toDisabledView } from '../../accounts/webhooks/view.js';
import { readLatestChanges } from '../audit-log/view.js';

export interface OverviewPanel {
  view: string;
  data: object;
  /** Replaces the rest of the page, for example with first steps. */
  isAlone?: boolean;
}

export interface OverviewRequest {
  session: SessionPrincipal;
  livemode: boolean;
  /** At which the reader reaches the service. */
  origin: string;
}

export type ReadOverviewPanel = (
  context: Pick<Context, 'db' | 'clock'>,
  request: OverviewRequest,
) => Promise<OverviewPanel | undefined>;

interface OverviewDeps extends Context {
  wording: Wording;
  readPanels: readonly ReadOverviewPanel[];
}

export function overviewPages(deps: OverviewDeps): Router {
  const router = pageRouter();

  router.get('/', async (req, res) => {
    const session = sessionOf(res);
    const livemode = req.query.mode !== 'test';
    const panels: OverviewPanel[] = [];
    for (const readPanel of deps.readPanels) {
      const panel = await readPanel(deps, { session, livemode, origin: originOf(req) });
      if (panel) panels.push(panel);
    }
    const page = {
      view: 'overview/overview',
      title: 'Overview',
      section: 'overview',
      notices: { joined: 'Welcome: you are a member of this Organization now.' },
    };
    await renderPage(deps, req, res, page, {
      livemode,
      panels,
      alone: panels.find(({ isAlone }) => isAlone),
      ...(await readOwnPanels(deps, session, livemode)),
    });
  });

  return router;
}

/** The audit log has them too. */
const noChanges = ['customer.viewed', 'webhook.tested'];
const SHOWN_KEYS = 5;
const SOON_MS = 14 * DAY_MS;

async function readOwnPanels(deps: OverviewDeps, { orgId, role }: SessionPrincipal, livemode: boolean) {
  const { db, clock, wording } = deps;
  const now = new Date(clock.now());
  const until = new Date(now.getTime() + SOON_MS);
  return {
    expiringKeys: await listExpiringKeys(db.orm, orgId, { livemode, now, until, limit: SHOWN_KEYS }),
    /** Undefined without the right to read the audit log. */
    changes: isManager(role)
      ? await readLatestChanges(db.orm, wording, orgId, { without: noChanges })
      : undefined,
    /** Empty without the right to manage webhooks. */
    disabledWebhooks: isManager(role) ? (await listDisabled(db.orm, orgId)).map(toDisabledView) : [],
  };
}
