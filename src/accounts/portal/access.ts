import type { Request, RequestHandler, Response } from 'express';
import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import type { Authority } from '../audit/audit.js';
import { noMember, wrongRole } from '../identity/session/authority.js';
import { hashToken, readCookie, tokenShape } from '../identity/session/session-cookie.js';
import type { SessionPrincipal } from '../identity/session/session.js';
import { isManager, lockOrganizationId, type Role } from '../organizations/table.js';
import { openPortal, whyNoKeys } from './portal.js';
import { deleteSession, findSession, lockMember, type PortalSession } from './queries.js';

export const PORTAL = '/portal';

/** Only with PORTAL_ORIGINS is the cookie sent in a frame of another site, and then only within that site. */
function cookieOf({ config }: Pick<Context, 'config'>, req: Request) {
  const isFramed = config.portalOrigins.length > 0;
  const secure = isFramed || req.secure;
  return {
    name: secure ? '__Secure-gauge_portal' : 'gauge_portal',
    options: {
      httpOnly: true,
      path: PORTAL,
      secure,
      sameSite: isFramed ? 'none' : 'lax',
      partitioned: isFramed,
    } as const,
  };
}

/** Opens a link once. A frame of another site opens none, because its browser would not show the page. */
export function openLink(context: Pick<Context, 'config' | 'db' | 'clock'>): RequestHandler {
  const { config, db, clock } = context;
  return async (req, res) => {
    const { token: secret } = req.query;
    refuseFrame(req, config.portalOrigins);
    if (typeof secret !== 'string' || !tokenShape.test(secret))
      throw new AppError('not_found', 'This link is not complete. Copy it again.');
    // A preview of the link must not use it up.
    if (req.method === 'HEAD') {
      res.end();
      return;
    }
    const opened = await findOwnSession(context, req);
    if (opened?.hashedLink === hashToken(secret)) return res.redirect(303, PORTAL);
    const token = await openPortal(db.orm, secret, { at: new Date(clock.now()) });
    const { name, options } = cookieOf(context, req);
    res.cookie(name, token, options);
    res.redirect(303, PORTAL);
  };
}

function refuseFrame(req: Request, origins: readonly string[]): void {
  if (req.get('sec-fetch-dest') !== 'iframe') return;
  const { referer = '' } = req.headers;
  const origin = URL.canParse(referer) ? new URL(referer).origin : undefined;
  if (origins.length === 0 || (origin !== undefined && !origins.includes(origin)))
    throw new AppError(
      'cross_site_request',
      `A portal opens in a frame only on the origins in PORTAL_ORIGINS${origin === undefined ? '' : `, and ${origin} is not one of them`}.`,
    );
}

async function findOwnSession(context: Pick<Context, 'config' | 'db' | 'clock'>, req: Request) {
  const token = readCookie(req, cookieOf(context, req).name);
  if (token === undefined || !tokenShape.test(token)) return undefined;
  return findSession(context.db.orm, hashToken(token), new Date(context.clock.now()));
}

/** Reads the session on every request, so that its end takes effect on the next one. */
export function requirePortal(context: Pick<Context, 'config' | 'db' | 'clock'>): RequestHandler {
  return async (req, res, next) => {
    const session = await findOwnSession(context, req);
    if (!session)
      throw new AppError('not_signed_in', 'This view has ended. Open the page that you came from again.');
    res.locals.portal = session;
    const principal = toPrincipal(session);
    if (principal) res.locals.session = principal;
    next();
  };
}

function toPrincipal(session: PortalSession): SessionPrincipal | undefined {
  const { organization, member, pages, createdBy } = session;
  const hashedToken = session.hashedToken!;
  const { id: orgId, slug: orgSlug, name: orgName } = organization;
  const canManage = member?.role && isManager(member.role) && pages.includes('keys');
  if (!canManage || whyNoKeys(organization) !== undefined) return undefined;
  const { userId, role } = member as { userId: string; role: Role };
  return {
    ...organization,
    orgId,
    orgSlug,
    orgName,
    role,
    userId,
    email: member.email!,
    userName: member.userName!,
    sessionId: hashedToken,
    isOperator: false,
    isArchived: false,
    hasSecondFactor: false,
    confirmedAt: null,
    singleSignOnAt: null,
    singleSignOnWaivedUntil: null,
    lacksSecondFactor: false,
    lacksSingleSignOn: false,
    portal: {
      name: createdBy,
      authorityOf: (roles) => ({ userId, ...memberInPortal(orgId, hashedToken, roles) }),
    },
  };
}

const memberInPortal = (orgId: string, hashedToken: string, roles: readonly Role[]): Authority => ({
  lock: (tx) => lockOrganizationId(tx, orgId),
  async confirm(tx: Orm, now: Date) {
    const member = await lockMember(tx, hashedToken, now);
    if (!member) throw noMember();
    if (!roles.includes(member.role)) throw wrongRole(member.role, roles);
    const why = whyNoKeys(member.organization);
    if (why !== undefined) throw new AppError('forbidden_role', `${why}. Nothing was changed.`);
  },
});

/** An operator who views an Organization's pages can only read, and end the view. */
export function viewOnly(context: Pick<Context, 'config' | 'db'>): RequestHandler {
  return async (req, res, next) => {
    const { id, operatorId, organization } = res.locals.portal as PortalSession;
    if (operatorId === null || ['GET', 'HEAD'].includes(req.method)) return next();
    if (req.path !== '/end')
      throw new AppError(
        'forbidden_role',
        `You are viewing this page as ${organization.name}, and a view changes nothing. End the view first.`,
      );
    await deleteSession(context.db.orm, id);
    const { name, options } = cookieOf(context, req);
    res.clearCookie(name, options);
    res.redirect(303, `/console/customers/${organization.slug}`);
  };
}

/** Keys belong to a member for whom the vendor vouches. */
export const requireMember: RequestHandler = (_req, res: Response, next) =>
  next(
    res.locals.session
      ? undefined
      : new AppError('forbidden_role', 'This view cannot manage API keys any more. Open it again.'),
  );
