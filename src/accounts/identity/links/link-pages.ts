import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express';
import type { Options } from 'express-rate-limit';
import { prefersHtml } from '../../../core/http/request.js';
import type { Context } from '../../../core/http/context.js';
import type { LimitStores } from '../../../core/http/limit-store.js';
import { addressOf } from '../../../core/http/rate-limit.js';
import { formRoute, textField, type FormState } from '../../../core/pages/form.js';
import { renderPage } from '../../../core/pages/layout.js';
import { HOUR_MS, MINUTE_MS } from '../../../core/time.js';
import { hashToken, hostCookie } from '../session/session-cookie.js';
import { createLimit, tooManyGuesses } from '../sign-in/sign-in-limits.js';
import { isLinkToken, LinkGone, readLinkToken } from './links.js';

interface LinkPages {
  /** Where the links lead. */
  base: string;
  /** Names the cookie and the limits. */
  name: string;
  /** Of the page with the field for the link. */
  title: string;
  /** Where its holder has it from. */
  origin: string;
  /** What to do about a link that opens nothing. */
  advice: string;
}

type LinkDeps = Pick<Context, 'clock' | 'limitStores'>;

/** The pages hold a link's secret: nothing on the way may keep or compress them. */
export const keepSecret: RequestHandler = (_req, res, next) => {
  res.setHeader('Cache-Control', 'no-store, no-transform');
  next();
};

/**
 * Adds what all pages of one-time links share. The secret stands behind the `#` of the link, which a browser keeps to itself:
 * a script posts it to `…/open`, or its holder pastes it there.
 */
export function addLinkPages(
  router: Router,
  deps: LinkDeps,
  { base, name, title, origin, advice }: LinkPages,
) {
  const opened = openedLink(`gauge_${name}`, isLinkToken);
  const wrongLinks = createLimit(deps.limitStores, `${name}-links`, tooManyLinks, wrongLinkOptions);

  /** The page with the field for the link. */
  const showOpen = (req: Request, res: Response, form: FormState) =>
    renderPage(deps, req, res, { view: 'accounts/links/open', title, frame: 'card' }, { form, base, origin });

  router.use(base, keepSecret);

  router.post(
    `${base}/open`,
    wrongLinks,
    formRoute({
      act(req, res, fields) {
        const token = readLinkToken(textField(fields, 'link') ?? '');
        if (token === undefined)
          throw new LinkGone('This link is incomplete. Part of it may have been lost.');
        opened.keep(req, res, token);
        res.redirect(303, base);
        return Promise.resolve();
      },
      show: showOpen,
    }),
  );

  /** One page for every link that opens nothing: goes behind the pages that throw `LinkGone`. */
  const showGone: ErrorRequestHandler = async (thrown, req, res, next) => {
    if (!(thrown instanceof LinkGone) || res.headersSent || !prefersHtml(req)) {
      next(thrown);
      return;
    }
    res.locals.error = thrown;
    opened.forget(req, res);
    res.status(404);
    const page = { view: 'accounts/links/gone', title: 'This link does not work', frame: 'card' } as const;
    await renderPage(deps, req, res, page, { reason: thrown.message, advice });
  };
  return { opened, wrongLinks, showOpen, showGone };
}

/** A request counts when it comes and is taken back when it was good: a burst gets no further. */
const skipGood = { windowMs: 15 * MINUTE_MS, skipSuccessfulRequests: true };
const MAX_GUESSES = 10;

/** Links that open nothing, of an address. */
export const wrongLinkOptions = {
  ...skipGood,
  limit: 30,
  keyGenerator: addressOf,
  requestWasSuccessful: (_req, res) => res.statusCode !== 404,
} satisfies Partial<Options>;

const tooManyLinks = 'Too many links from your address did not work. Try again later.';

/** Counts passwords that were wrong beside a link, of each link. */
export const limitLinkGuesses = (stores: LimitStores, name: string, opened: OpenedLink): RequestHandler =>
  createLimit(stores, `${name}-guesses`, tooManyGuesses, {
    ...skipGood,
    limit: MAX_GUESSES,
    keyGenerator: (req) => {
      const token = opened.read(req);
      return token === undefined ? addressOf(req) : hashToken(token);
    },
    requestWasSuccessful: (_req, res) => res.statusCode !== 401,
  });

type OpenedLink = ReturnType<typeof openedLink>;

/**
 * The link that this browser has opened. It is kept for an hour in a cookie, while its holder signs in or makes an
 * account: in an address it would get into histories, into the logs of proxies and into what is sent as a referrer.
 */
export function openedLink(cookie: string, isToken: (value: unknown) => value is string) {
  const { read, keep, forget } = hostCookie(cookie, HOUR_MS);
  return {
    read(req: Request): string | undefined {
      const token = read(req);
      return isToken(token) ? token : undefined;
    },
    keep,
    forget,
  };
}
