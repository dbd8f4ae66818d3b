import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express';
import { rateLimit, type Options } from 'express-rate-limit';
import { AppError } from '../../core/errors.js';
import { prefersHtml } from '../../core/http/request-line.js';
import type { Context } from '../../core/http/context.js';
import type { LimitStores } from '../../core/http/limit-store.js';
import { addressOf } from '../../core/http/rate-limit.js';
import { formRoute, textField, type FormState } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { MINUTE_MS } from '../../core/time.js';
import { openedLink, type OpenedLink } from '../opened-link.js';
import { hashToken } from '../session/session-cookie.js';
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

export interface OpenedPages {
  opened: OpenedLink;
  /** Counts links that open nothing, of each address. */
  wrongLinks: RequestHandler;
  /** Counts passwords and codes that were wrong, of each link. */
  guesses: RequestHandler;
  /** The page with the field for the link. */
  showOpen: (req: Request, res: Response, form: FormState) => Promise<void>;
  /** One page for every link that opens nothing: goes behind the pages that throw `LinkGone`. */
  showGone: ErrorRequestHandler;
}

type LinkDeps = Pick<Context, 'clock' | 'limitStores'>;

/**
 * Adds what all pages of one-time links share. The secret stands behind the `#` of the link, which a browser keeps to itself:
 * a script posts it to `…/open`, or its holder pastes it there.
 */
export function addLinkPages(
  router: Router,
  deps: LinkDeps,
  { base, name, title, origin, advice }: LinkPages,
): OpenedPages {
  const opened = openedLink(`gauge_${name}`, isLinkToken);
  const { wrongLinks, guesses } = limitLinks(deps.limitStores, name, opened);

  const showOpen = (req: Request, res: Response, form: FormState) =>
    renderPage(deps, req, res, { view: 'links/open', title, frame: 'card' }, { form, base, origin });

  // The pages hold secrets: nothing on the way may keep or compress them.
  router.use(base, (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store, no-transform');
    next();
  });

  router.post(
    `${base}/open`,
    wrongLinks,
    formRoute({
      act(req, res, fields) {
        const token = readLinkToken(textField(fields, 'link') ?? '');
        if (token === undefined)
          throw new LinkGone('This is no whole link. A part of it may have been lost.');
        opened.keep(req, res, token);
        res.redirect(303, base);
        return Promise.resolve();
      },
      show: showOpen,
    }),
  );

  const showGone: ErrorRequestHandler = async (thrown, req, res, next) => {
    if (!(thrown instanceof LinkGone) || res.headersSent || !prefersHtml(req)) {
      next(thrown);
      return;
    }
    res.locals.error = thrown;
    opened.forget(req, res);
    res.status(404);
    const page = { view: 'links/gone', title: 'This link does not work', frame: 'card' } as const;
    await renderPage(deps, req, res, page, { reason: thrown.message, advice });
  };
  return { opened, wrongLinks, guesses, showOpen, showGone };
}

const WINDOW_MS = 15 * MINUTE_MS;
const MAX_WRONG_LINKS = 30;
const MAX_GUESSES = 10;

function limitLinks(stores: LimitStores, name: string, opened: OpenedLink) {
  const limit = (identifier: string, detail: string, options: Partial<Options>) =>
    rateLimit({
      windowMs: WINDOW_MS,
      standardHeaders: 'draft-8',
      legacyHeaders: false,
      identifier,
      requestPropertyName: identifier,
      store: stores.create(identifier),
      passOnStoreError: true,
      // A request counts when it comes and is taken back when it was good: a burst gets no further.
      skipSuccessfulRequests: true,
      handler: (_req, _res, next) => next(new AppError('rate_limited', detail)),
      ...options,
    });
  return {
    wrongLinks: limit(`${name}-links`, 'Too many links from your address did not work. Try again later.', {
      limit: MAX_WRONG_LINKS,
      keyGenerator: addressOf,
      requestWasSuccessful: (_req, res) => res.statusCode !== 404,
    }),
    guesses: limit(`${name}-guesses`, 'Too many passwords or codes were wrong. Try again in some minutes.', {
      limit: MAX_GUESSES,
      keyGenerator: (req) => {
        const token = opened.read(req);
        return token === undefined ? addressOf(req) : hashToken(token);
      },
      requestWasSuccessful: (_req, res) => res.statusCode !== 401,
    }),
  };
}
