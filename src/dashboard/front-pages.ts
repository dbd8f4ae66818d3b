import type { RequestHandler, Router } from 'express';
import { prefersHtml } from '../core/http/request.js';
import { renderPage, type PageDeps, pageRouter } from '../core/pages/layout.js';
import { organizationArchived, sessionOf, type ReadSession } from '../accounts/identity/session/session.js';

/** A login that each visitor is shown: of the demo's data, never of a customer's. */
export interface DemoLogin {
  email: string;
  name: string;
  organization: string;
  role: string;
  password: string;
}

/** `/`: what this is, and the ways in. */
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
    // One login for a person, whatever they belong to.
    const emails = new Set(shown.map(({ email }) => email));
    const logins = [...emails].map((email) => shown.filter((login) => login.email === email));
    await renderPage(deps, req, res, page, { logins });
  });
}

/** Tells members of an archived Organization that it is, and shows nothing else of it. Each change asks again: see `change`. */
export function hideArchived(deps: PageDeps): RequestHandler {
  return async (req, res, next) => {
    const { isArchived, orgName } = sessionOf(res);
    if (!isArchived) return next();
    if (!prefersHtml(req)) throw organizationArchived(orgName);
    res.status(403);
    await renderPage(deps, req, res, { view: 'archived', title: 'Archived Organization' }, {});
  };
}
