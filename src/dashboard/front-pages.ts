import type { RequestHandler, Router } from 'express';
import { prefersHtml } from '../core/http/request.js';
import { renderPage, type PageDeps, pageRouter } from '../core/pages/layout.js';
import { groupByPerson, type ListDemoLogins } from '../accounts/identity/sign-in/demo-logins.js';
import { organizationArchived, sessionOf, type ReadSession } from '../accounts/identity/session/session.js';

const description =
  'Gauge meters usage, checks entitlements, and charges credits: every event once, every limit exactly.';

export function frontPages(
  deps: PageDeps,
  readSession: ReadSession,
  { before, listDemoLogins }: { before: RequestHandler[]; listDemoLogins: ListDemoLogins },
): Router {
  return pageRouter().get('/', ...before, async (req, res) => {
    const session = await readSession(req);
    res.locals.person = session;
    const page = { view: 'front', title: 'Welcome', description, frame: 'card' } as const;
    await renderPage(deps, req, res, page, { logins: session ? [] : groupByPerson(listDemoLogins()) });
  });
}

/** Members of an archived Organization see only that. Each change checks this again. */
export function hideArchived(deps: PageDeps): RequestHandler {
  return async (req, res, next) => {
    const { isArchived, orgName } = sessionOf(res);
    if (!isArchived) return next();
    if (!prefersHtml(req)) throw organizationArchived(orgName);
    res.status(403);
    await renderPage(deps, req, res, { view: 'archived', title: 'Archived Organization' }, {});
  };
}
