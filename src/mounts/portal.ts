import type { Router } from 'express';
import { apiKeyPages } from '../accounts/api-keys/pages.js';
import { toSchemes } from '../accounts/portal/accent.js';
import { openLink, PORTAL, requireMember, requirePortal, viewOnly } from '../accounts/portal/access.js';
import type { PortalSession } from '../accounts/portal/queries.js';
import { portalEntries, requirePage } from '../accounts/portal/viewer.js';
import { refuseCrossSite } from '../accounts/identity/session/session.js';
import type { Context } from '../core/http/context.js';
import { pageHeaders } from '../core/http/headers.js';
import { nothingHere } from '../core/http/problem.js';
import { perKeyLimit } from '../core/http/rate-limit.js';
import { createRouter } from '../core/http/router.js';
import { pageFrame, pageRouter, type ReadFrame } from '../core/pages/layout.js';
import type { Running } from '../products.js';

/** A customer's usage in the vendor's own product, for people without an account. */
export function portalRouter(context: Context, { products, services }: Running): Router {
  const router = createRouter();
  router.use(pageFrame(portalFrame), pageHeaders(context.config.portalOrigins), refuseCrossSite);
  router.use(pageRouter().get('/open', openLink(context)));
  router.use(requirePortal(context), sessionLimit(context), viewOnly(context));
  router.use(
    pageRouter().get('/', (_req, res) => {
      const first = entriesOf(res.locals.portal as PortalSession)[0];
      if (!first) throw nothingHere();
      res.redirect(303, PORTAL + first.path);
    }),
  );
  for (const { portalPages } of products) if (portalPages) router.use(...portalPages);
  router.use('/api-keys', requirePage('keys'), requireMember);
  router.use(apiKeyPages({ ...context, ...services }));
  return router;
}

const sessionLimit = (context: Context) =>
  perKeyLimit(context, {
    name: 'portal-pages',
    perMinute: context.config.limits.dashboardPerMinute,
    keyOf: (_req, res) => (res.locals.portal as PortalSession).hashedToken!,
    caller: 'This view',
    calls: 'requests',
    isQuiet: true,
  });

const entriesOf = ({ pages }: PortalSession) =>
  portalEntries.filter(({ page }) => pages.includes(page) && !(page === 'events' && pages.includes('usage')));

const portalFrame: ReadFrame = (res, section) => {
  const portal = res.locals.portal as PortalSession | undefined;
  return Promise.resolve({
    me: portal && { orgName: portal.organization.name, isArchived: false },
    person: undefined,
    organizations: [],
    hasMoreOrganizations: false,
    place: 'Portal',
    home: PORTAL,
    returnUrl: portal?.returnUrl ?? undefined,
    viewUntil: portal?.operatorId ? portal.expiresAt : undefined,
    schemes: portal?.accent ? toSchemes(portal.accent) : undefined,
    navigation: portal
      ? entriesOf(portal).map(({ path, label }) => ({
          id: path.slice(1),
          href: PORTAL + path,
          label,
          isCurrent: path === `/${section}`,
        }))
      : [],
  });
};
