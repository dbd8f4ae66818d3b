import type { RequestHandler, Router } from 'express';
import { prefersHtml } from '../core/http/request.js';
import { renderPage, type PageDeps, pageRouter } from '../core/pages/layout.js';
import { organizationArchived, sessionOf, type ReadSession } from '../accounts/identity/session/session.js';

/** A login shown to every visitor: always of the demo, never of a customer. */
export interface DemoLogin {
  email: string;
  name: string;
  organization: string;
  role: string;
  password: string;
}

/** `/`: introduces the service and links to it. */
export function frontPages(
  deps: PageDeps,
  readSession: ReadSession,
  { before, listDemoLogins }: { before: RequestHandler[]; listDemoLogins: () => readonly DemoLogin[] },
): Router {
  return pageRouter().get('/', ...before, async (req, res) => {
    const session = await readSession(req);
    res.locals.person = session;
    const page = { view: 'front', title: 'Welcome', frame: 'card' } as const;
    const shown = session ? [] : listDemoLogins();
    // One login per person, even with several Organizations.
    const emails = new Set(shown.map(({ email }) => email));
    const logins = [...emails].map((email) => shown.filter((login) => login.email === email));
    await renderPage(deps, req, res, page, { logins });
  });
}

/** Shows members of an archived Organization only that it is archived. `change` checks this again for each change. */
export function hideArchived(deps: PageDeps): RequestHandler {
  return async (req, res, next) => {
    const { isArchived, orgName } = sessionOf(res);
    if (!isArchived) return next();
    if (!prefersHtml(req)) throw organizationArchived(orgName);
    res.status(403);
    await renderPage(deps, req, res, { view: 'archived', title: 'Archived Organization' }, {});
  };
}
