import type { Request, RequestHandler, Router } from 'express';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { originOf } from '../../../core/http/request.js';
import { passLimits, perAddressLimit } from '../../../core/http/rate-limit.js';
import { toAddress } from '../../../core/pages/address.js';
import { pageRouter } from '../../../core/pages/layout.js';
import { MINUTE_MS, SECOND_MS } from '../../../core/time.js';
import { JOIN } from '../members/invitations.js';
import { getInvitation, InvitationGone, InvitationVoid } from '../members/join.js';
import { readOpenedInvitation } from '../members/join-pages.js';
import { generateToken, hashToken, hostCookie, sendToken, tokenShape } from '../session/session-cookie.js';
import { arrivalOf } from '../session/session.js';
import { HOME, toLocalPath } from '../sign-in/schema.js';
import type { Devices } from '../sign-in/sign-in-limits.js';
import { CannotSignIn } from '../sign-in/sign-in.js';
import { TOLERANCE_SECONDS, type Claims, type Issuer } from './issuer.js';
import { insertSingleSignOn, spendSingleSignOn } from './queries.js';
import { signInAs } from './single-sign-on.js';

const BASE = '/login/single-sign-on';

const CONFIRM = '/confirm';

const WAIT_MS = 10 * MINUTE_MS;

/** Per IP address, enough for an office behind one. Each sign-in inserts a row that stays until it expires. */
const BEGUN_PER_MINUTE = 300;

/** Answers without a sign-in, per IP address. */
const STRAY_PER_MINUTE = 60;

const callbackOf = (req: Request): string => `${originOf(req)}${BASE}/callback`;

export function singleSignOnPages(
  deps: Pick<Context, 'db' | 'clock' | 'config'>,
  issuer: Issuer,
  devices: Devices,
): Router {
  const { db, clock } = deps;
  const router = pageRouter();
  const cookie = hostCookie('gauge_sso', WAIT_MS);
  const readBrowser = (req: Request) => tokenShape.exec(cookie.read(req) ?? '')?.[0];
  const limit = (name: string, perMinute: number, calls: string) =>
    perAddressLimit({ clock }, { name, perMinute, calls });
  const limitBegun = limit('single-sign-on', BEGUN_PER_MINUTE, 'single sign-ons');
  const limitStray = limit('single-sign-on-answers', STRAY_PER_MINUTE, 'answers to expired single sign-ons');

  const findInvitedAddress = (req: Request) =>
    getInvitation(db.orm, readOpenedInvitation(req), undefined, new Date(clock.now())).then(
      ({ email }) => email,
      ignoreGone,
    );

  router.get(BASE, refuseEmbedded, limitBegun, async (req, res) => {
    const isConfirmation = req.query.confirm === 'yes';
    const { address, state, nonce, codeVerifier } = await issuer.begin(callbackOf(req), isConfirmation);
    // Two tabs of a browser can sign in at the same time.
    const browser = readBrowser(req) ?? generateToken();
    const next = toLocalPath(req.query.next, HOME);
    await insertSingleSignOn(db.orm, {
      hashedState: hashToken(state),
      hashedBrowser: hashToken(browser),
      nonce,
      codeVerifier,
      next: isConfirmation
        ? toAddress(CONFIRM, { next, done: 'asked' })
        : // Continuing here would restart the sign-in in a loop.
          next.startsWith(BASE)
          ? HOME
          : next,
      expiresAt: new Date(clock.now() + WAIT_MS),
    });
    cookie.keep(req, res, browser);
    res.redirect(303, address);
  });

  router.get(`${BASE}/callback`, async (req, res) => {
    // An empty state matches no sign-in.
    const state = typeof req.query.state === 'string' ? req.query.state : '';
    const hashes = { hashedState: hashToken(state), hashedBrowser: hashToken(readBrowser(req) ?? '') };
    const begun = await spendSingleSignOn(db.orm, hashes);
    res.locals.next = begun?.next;
    if (!begun) await passLimits(req, res, [limitStray]);
    if (!begun || begun.expiresAt.getTime() <= clock.now())
      throw new CannotSignIn(
        'not_signed_in',
        'This sign-in has expired, was already used, or began in another browser. Start again.',
      );
    const { nonce, codeVerifier, next } = begun;
    const answer = new URL(callbackOf(req) + new URL(req.originalUrl, originOf(req)).search);
    const claims = await issuer.finish(answer, { state, nonce, codeVerifier });
    const invited = next === JOIN ? await findInvitedAddress(req) : undefined;
    const { token, isCodeDue, email } = await signInAs(
      deps,
      issuer.config,
      {
        claims,
        invited,
        isConfirmation: next.startsWith(`${CONFIRM}?`),
        isFresh: wasAsked(claims, begun.expiresAt),
      },
      arrivalOf(req, res, clock),
    );
    sendToken(req, token);
    if (!isCodeDue) devices.remember(req, res, email);
    res.redirect(303, isCodeDue ? toAddress('/login/code', { next }) : next);
  });
  return router;
}

/** An image or frame on another page must neither begin a sign-in nor use up the address's limit. */
const refuseEmbedded: RequestHandler = (req, _res, next) => {
  const target = req.get('sec-fetch-dest');
  if (target !== undefined && target !== 'document')
    throw new AppError('cross_site_request', 'Open this address in a window of its own.');
  next();
};

const wasAsked = ({ authenticatedAt }: Claims, expiresAt: Date): boolean =>
  authenticatedAt !== undefined &&
  authenticatedAt.getTime() >= expiresAt.getTime() - WAIT_MS - TOLERANCE_SECONDS * SECOND_MS;

/** The invitation page explains the problem. */
function ignoreGone(error: unknown): undefined {
  if (!(error instanceof InvitationGone || error instanceof InvitationVoid)) throw error;
}
