import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express';
import type { Options } from 'express-rate-limit';
import { prefersHtml } from '../../../core/http/request.js';
import type { Context } from '../../../core/http/context.js';
import type { LimitStores } from '../../../core/http/limit-store.js';
import { addressOf } from '../../../core/http/rate-limit.js';
import { postForm, textField, type FormState } from '../../../core/pages/form.js';
import { renderPage } from '../../../core/pages/layout.js';
import { HOUR_MS, MINUTE_MS } from '../../../core/time.js';
import { hashToken, hostCookie } from '../session/session-cookie.js';
import { createLimit, tooManyGuesses } from '../sign-in/sign-in-limits.js';
import { isLinkToken, LinkGone, readLinkToken } from './links.js';

interface LinkPages {
  base: string;
  name: string;
  title: string;
  /** Tells the holder where the link came from. */
  origin: string;
  /** For the holder of a link that does not work. */
  advice: string;
}

type LinkDeps = Pick<Context, 'clock' | 'limitStores'>;

/** The pages contain a link's secret. */
export const keepSecret: RequestHandler = (_req, res, next) => {
  res.setHeader('Cache-Control', 'no-store, no-transform');
  next();
};

/** Browsers do not send what follows `#`, so a script posts the secret to `…/open`, or the holder pastes the link. */
export function addLinkPages(
  router: Router,
  deps: LinkDeps,
  { base, name, title, origin, advice }: LinkPages,
) {
  const opened = openedLink(`gauge_${name}`, isLinkToken);
  const wrongLinks = createLimit(deps.limitStores, `${name}-links`, tooManyLinks, wrongLinkOptions);

  const showOpen = (req: Request, res: Response, form: FormState) =>
    renderPage(deps, req, res, { view: 'accounts/links/open', title, frame: 'card' }, { form, base, origin });

  router.use(base, keepSecret);

  postForm(router, `${base}/open`, {
    before: [wrongLinks],
    act(req, res, fields) {
      const token = readLinkToken(textField(fields, 'link') ?? '');
      if (token === undefined) throw new LinkGone('This link is incomplete. Part of it may have been lost.');
      opened.keep(req, res, token);
      res.redirect(303, base);
      return Promise.resolve();
    },
    show: showOpen,
  });

  /** Must be mounted after the pages that throw `LinkGone`. */
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

/** Counts each request on arrival and uncounts it on success, so that a burst cannot exceed the limit. */
const skipGood = { windowMs: 15 * MINUTE_MS, skipSuccessfulRequests: true };
const MAX_GUESSES = 10;

export const wrongLinkOptions = {
  ...skipGood,
  limit: 30,
  keyGenerator: addressOf,
  requestWasSuccessful: (_req, res) => res.statusCode !== 404,
} satisfies Partial<Options>;

const tooManyLinks = 'Too many links from your address did not work. Try again later.';

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

/** Kept in a cookie for an hour: a URL would leak into browser histories, proxy logs and referrers. */
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
