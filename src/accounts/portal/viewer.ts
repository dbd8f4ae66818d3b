import type { Request, RequestHandler, Response } from 'express';
import { nothingHere } from '../../core/http/problem.js';
import { readQuery, type FormFields } from '../../core/pages/form.js';
import { sessionOf } from '../identity/session/session.js';
import type { PortalSession } from './queries.js';
import type { PortalPage } from './table.js';

export const portalEntries: { page: PortalPage; path: string; label: string }[] = [
  { page: 'usage', path: '/usage', label: 'Usage' },
  // On the same page, without the sums.
  { page: 'events', path: '/usage', label: 'Events' },
  { page: 'entitlements', path: '/entitlements', label: 'Entitlements' },
  { page: 'credits', path: '/credits', label: 'Credits' },
  { page: 'keys', path: '/api-keys', label: 'API keys' },
];

/** A member reads an Organization's pages in the dashboard, a person without an account reads them in the portal. */
export interface Viewer {
  orgId: string;
  /** The beginning of every link. */
  home: '/dashboard' | '/portal';
  /** Undefined for both modes. */
  mode: 'live' | 'test' | undefined;
  /** Undefined for the whole Organization. */
  subject: string | undefined;
  shows: (page: PortalPage) => boolean;
}

export function viewerOf(res: Response): Viewer {
  const portal = res.locals.portal as PortalSession | undefined;
  if (!portal) {
    const { orgId } = sessionOf(res);
    return { orgId, home: '/dashboard', mode: undefined, subject: undefined, shows: () => true };
  }
  const { organization, livemode, subject, pages } = portal;
  return {
    orgId: organization.id,
    home: '/portal',
    mode: livemode === null ? undefined : livemode ? 'live' : 'test',
    subject: subject ?? undefined,
    shows: (page) => pages.includes(page),
  };
}

/** With the viewer's mode, if there is only one. */
export function readViewQuery(req: Request, res: Response): FormFields {
  const { mode } = viewerOf(res);
  return { ...readQuery(req), ...(mode && { mode }) };
}

/** A page of which the session has no part does not exist for it. */
export const requirePage =
  (...pages: PortalPage[]): RequestHandler =>
  (_req, res, next) =>
    next(pages.some(viewerOf(res).shows) ? undefined : nothingHere());
