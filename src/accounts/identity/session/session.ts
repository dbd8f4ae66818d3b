import type { Request, RequestHandler, Response } from 'express';
import type { Clock } from '../../../core/time.js';
import type { Tx } from '../../../core/db/client.js';
import type { Context } from '../../../core/http/context.js';
import { createSecretBox } from '../../../core/secret-box.js';
import { AppError } from '../../../core/errors.js';
import { isNavigation, originOf, hangUpSignal, requestIdOf } from '../../../core/http/request.js';
import { toAddress } from '../../../core/pages/address.js';
import {
  type FormFields,
  offerForm,
  readTyped,
  sendFormToken,
  type KeptForm,
} from '../../../core/pages/form.js';
import type { Authority } from '../../audit/audit.js';
import type { Role } from '../../organizations/table.js';
import type { Source, Whereabouts } from '../source.js';
import {
  findSession,
  findSessionOwner,
  insertSession,
  KEPT_FORM_MS,
  SESSION_SEEN_MS,
  takeKeptForm,
  updateSession,
  upsertKeptForm,
} from './queries.js';
import { generateToken, hashToken, readToken, sendToken } from './session-cookie.js';

type FoundSession = NonNullable<Awaited<ReturnType<typeof findSession>>>;

export interface SessionPerson extends Omit<FoundSession, 'lastSeenAt' | 'currentOrgId' | 'membership'> {
  sessionId: string;
}

export interface SessionPrincipal
  extends SessionPerson, Omit<NonNullable<FoundSession['membership']>, 'archivedAt'> {
  isArchived: boolean;
  lacksSecondFactor: boolean;
  lacksSingleSignOn: boolean;
  /** For a person who did not sign in: a vendor vouches for them in a portal. */
  portal?: Voucher;
}

export interface Voucher {
  /** In audit rows, as an actor. */
  name: string;
  authorityOf: (roles: readonly Role[]) => Authority & { userId: string };
}

interface SessionWithoutOrganization extends SessionPerson {
  orgId: null;
}

export type ReadSession = ReturnType<typeof createSessionReader>;

/**
 * One query, and at most one write a minute. If the person has left the current Organization, only a page view moves
 * them to another: a change meant for one must not happen in another.
 */
export function createSessionReader({ config, db, clock }: Pick<Context, 'config' | 'db' | 'clock'>) {
  const box = createSecretBox(config.secretKeys, 'kept form');
  /** Owner of an expired session; undefined if the session was ended deliberately. */
  const findOwner = async (req: Request) => {
    const token = readToken(req);
    return token === undefined ? undefined : findSessionOwner(db.orm, hashToken(token));
  };
  const read = async (req: Request): Promise<SessionPrincipal | SessionWithoutOrganization | undefined> => {
    const token = readToken(req);
    if (token === undefined) return undefined;
    const sessionId = hashToken(token);
    const now = new Date(clock.now());
    const found = await findSession(db.orm, sessionId, now);
    if (!found) return undefined;
    const { lastSeenAt, currentOrgId, membership, ...person } = found;
    const isMoved = membership !== null && membership.orgId !== currentOrgId;
    if (isMoved && currentOrgId !== null && isChange(req))
      throw new AppError(
        'forbidden_role',
        'You no longer belong to the Organization you were viewing. Reload to continue with another one.',
      );
    const isSeen = now.getTime() - lastSeenAt.getTime() >= SESSION_SEEN_MS;
    if (isMoved || isSeen) {
      const move = isMoved ? { currentOrgId: membership.orgId } : {};
      await updateSession(db.orm, sessionId, { ...(isSeen ? { lastSeenAt: now } : {}), ...move });
    }
    // Resends the cookie from time to time, so that it is signed with the newest key.
    if (isSeen) sendToken(req, token);
    if (membership === null) return { sessionId, ...person, orgId: null };
    const { archivedAt, ...organization } = membership;
    const lacksSecondFactor = organization.requireSecondFactor && !person.hasSecondFactor;
    const isWaived = organization.role === 'owner' && (person.singleSignOnWaivedUntil ?? now) > now;
    const lacksSingleSignOn = organization.requireSingleSignOn && person.singleSignOnAt === null && !isWaived;
    const lacks = { lacksSecondFactor, lacksSingleSignOn };
    return { sessionId, ...person, ...organization, isArchived: archivedAt !== null, ...lacks };
  };
  /** Returns the token for `takeForm`. */
  const keepForm = async (userId: string, form: KeptForm) => {
    const token = generateToken();
    const expiresAt = new Date(clock.now() + KEPT_FORM_MS);
    const values = box.seal(userId, JSON.stringify(form.values));
    await upsertKeptForm(db.orm, { userId, hashedToken: hashToken(token), expiresAt, ...form, values });
    return token;
  };
  /** Returns the form once, and only to this person and page. */
  const takeForm = async (userId: string, token: string, page: string) => {
    const now = new Date(clock.now());
    const values = await takeKeptForm(db.orm, { userId, hashedToken: hashToken(token), page, now });
    return typeof values === 'string' ? (JSON.parse(box.open(userId, values)) as FormFields) : values;
  };
  return Object.assign(read, { findOwner, keepForm, takeForm });
}

export interface Arrival extends Whereabouts {
  userAgent: string;
  /** The previous session ends on sign-in, so that nobody can plant a session in another person's browser. */
  formerToken: string | undefined;
  gone: AbortSignal;
}

export interface SessionStart {
  isSingleSignOn: boolean;
  /** False if the issuer relied on an earlier sign-in, which proves less than a password. */
  isConfirmed: boolean;
  /** Shown first; null for the person's oldest membership. */
  currentOrgId: string | null;
}

export const arrivalOf = (req: Request, res: Response, clock: Clock): Arrival => ({
  ...whereaboutsOf(req, res, clock),
  userAgent: req.get('user-agent') ?? '',
  formerToken: readToken(req),
  gone: hangUpSignal(res),
});

export async function startSession(
  tx: Tx,
  userId: string,
  { at: now, ip = '', userAgent }: Arrival,
  start: SessionStart,
): Promise<string> {
  const token = generateToken();
  const session = { hashedToken: hashToken(token), userId, now, ip, userAgent: userAgent.slice(0, 255) };
  await insertSession(tx, { ...session, ...start });
  return token;
}

/** If the session has expired, stores what the person typed and redirects to the sign-in page. */
export function requirePerson(readSession: ReadSession): RequestHandler {
  return async (req, res, next) => {
    const session = await readSession(req);
    if (session === undefined) {
      if (isNavigation(req)) {
        res.redirect(303, toAddress('/login', { next: req.originalUrl }));
        return;
      }
      const owner = await readSession.findOwner(req);
      const page = owner === undefined ? undefined : await keepTyped(readSession, req, res, owner);
      if (page === undefined) throw new AppError('not_signed_in', 'Sign in first, at /login.');
      res.redirect(303, toAddress('/login', { next: page, again: 'kept' }));
      return;
    }
    res.locals.person = session;
    offerForm(req, res, (formToken, page) => readSession.takeForm(session.userId, formToken, page));
    if (session.orgId !== null) res.locals.session = session;
    next();
  };
}

/** Undefined if the form's page is not on this site. */
export async function keepTyped(readSession: ReadSession, req: Request, res: Response, userId: string) {
  const typed = await readTyped(req, res);
  if (typed) sendFormToken(req, res, await readSession.keepForm(userId, typed), KEPT_FORM_MS);
  return typed?.page;
}

/** Must be mounted after `requirePerson`. */
export const requireOrganization: RequestHandler = (req, res, next) => {
  if (res.locals.session === undefined) {
    // Operators need no Organization. They continue the set-up where they left off.
    if (personOf(res).isOperator && isNavigation(req)) {
      res.redirect(303, '/set-up');
      return;
    }
    throw new AppError(
      'forbidden_role',
      'You do not belong to an Organization. Ask an owner or admin of your Organization to add you.',
    );
  }
  next();
};

/** Redirects to the set-up of a second factor. Each change repeats this check; see `change`. */
export const requireOwnFactor: RequestHandler = (req, res, next) => {
  const { lacksSecondFactor, orgName } = sessionOf(res);
  if (!lacksSecondFactor) next();
  else if (isNavigation(req)) res.redirect(303, '/dashboard/account/second-factor?done=required');
  else throw factorRequired(orgName);
};

/** Redirects to the account page. Each change repeats this check; see `change`. */
export const requireOwnSingleSignOn: RequestHandler = (req, res, next) => {
  const { lacksSingleSignOn, orgName } = sessionOf(res);
  if (!lacksSingleSignOn) next();
  else if (isNavigation(req))
    res.redirect(303, toAddress('/dashboard/account/single-sign-on', { next: req.originalUrl }));
  else throw singleSignOnRequired(orgName);
};

export const requireMarketAccess: RequestHandler = (_req, res, next) => {
  const { marketAccess, orgName } = sessionOf(res);
  if (marketAccess !== 'none') return next();
  throw new AppError(
    'entitlement_required',
    `${orgName} has no access to markets. Ask the operator of this service for access.`,
  );
};

export const organizationArchived = (orgName: string): AppError =>
  new AppError(
    'forbidden_role',
    `${orgName} was archived by the operator of this service. Nothing is deleted.`,
  );

export const factorRequired = (orgName: string): AppError =>
  new AppError(
    'forbidden_role',
    `${orgName} requires a second factor. Turn yours on at /dashboard/account/second-factor.`,
  );

export const singleSignOnRequired = (orgName: string): AppError =>
  new AppError(
    'forbidden_role',
    `${orgName} requires single sign-on. Sign in at /dashboard/account/single-sign-on.`,
  );

export const onlyFor = (roles: readonly Role[]): string =>
  `Only ${roles.map((role) => `${role}s`).join(' and ')} can do this.`;

export function requireRole(...allowed: readonly Role[]): RequestHandler {
  return (_req, res, next) => {
    const { role, orgName } = sessionOf(res);
    // The change's transaction checks the same roles again; see `byMember`.
    res.locals.requiredRoles = allowed;
    if (!allowed.includes(role))
      throw new AppError('forbidden_role', `${onlyFor(allowed)} Your role in ${orgName} is ${role}.`);
    next();
  };
}

export function personOf(res: Response): SessionPerson {
  const person = res.locals.person as SessionPerson | undefined;
  if (!person) throw new Error('this route is not behind requirePerson');
  return person;
}

export function sessionOf(res: Response): SessionPrincipal {
  const session = res.locals.session as SessionPrincipal | undefined;
  if (!session) throw new Error('this route is not behind requireOrganization');
  return session;
}

/**
 * Browsers state a request's source in `Sec-Fetch-Site`; older ones, and all on plain HTTP, in `Origin`. A request with
 * neither comes from no browser, so it carries no victim's cookie.
 */
export const refuseCrossSite: RequestHandler = (req, _res, next) => {
  if (isChange(req) && !isSameSite(req))
    throw new AppError('cross_site_request', 'Changes are accepted only from this site’s own pages.');
  next();
};

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

const isChange = (req: Request): boolean => !safeMethods.has(req.method);

function isSameSite(req: Request): boolean {
  const site = req.get('sec-fetch-site');
  // `same-site` may be somebody else's host. `none` means that the person typed the URL or used a bookmark.
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const origin = req.get('origin');
  return origin === undefined || isOwnHost(origin, req);
}

/** Parsing as URLs lower-cases the hosts and drops the scheme's default port. */
function isOwnHost(origin: string, req: Request): boolean {
  const own = originOf(req);
  if (!URL.canParse(origin) || !URL.canParse(own)) return false;
  const { host } = new URL(origin);
  return host !== '' && host === new URL(own).host;
}

export const whereaboutsOf = (req: Request, res: Response, clock: Clock): Whereabouts => ({
  at: new Date(clock.now()),
  ip: req.ip,
  requestId: requestIdOf(res),
});

export const personSource = (req: Request, res: Response, clock: Clock): Source => ({
  ...whereaboutsOf(req, res, clock),
  actor: personOf(res).userId,
});
