import { type ErrorRequestHandler, type Request, Router } from 'express';
import type { Context } from '../../core/http/context.js';
import type { ErrorCode } from '../../core/errors.js';
import { prefersJson } from '../../core/http/accepts.js';
import { setProblemHeaders, statusByCode, toAppError } from '../../core/http/problem.js';
import { mountRoutes } from '../../core/reference/define-route.js';
import { renderPage } from '../../core/pages/layout.js';
import { codePages } from './code-pages.js';
import type { Devices } from './device-cookie.js';
import { HOME, toLocalPath } from './local-path.js';
import type { SecretBox } from '../second-factor/secret-box.js';
import type { ReadSession } from '../session/session.js';
import { limitSignIns, type SignInLimits } from './sign-in-limits.js';
import { type RenderForm, signInRoutes } from './sign-in-routes.js';

/** What has led to the form, by the word in `?done=`. */
const notices = {
  'signed-out': 'You are signed out.',
  'signed-out-everywhere': 'You are signed out, here and everywhere else.',
};

/** `/login` and `/logout`: forms that work without a script. */
export function signInPages(
  { db, clock, limitStores }: Pick<Context, 'db' | 'clock' | 'limitStores'>,
  readSession: ReadSession,
  { limits, devices, secrets }: { limits: SignInLimits; devices: Devices; secrets: SecretBox },
): Router {
  const limiters = limitSignIns(limitStores, limits);
  const router = Router();
  const renderForm: RenderForm = (req, res, view) =>
    renderPage({ clock }, req, res, { view: 'login', title: 'Sign in', frame: 'card', notices }, view);

  mountRoutes(router, '', signInRoutes, { db, clock, readSession, renderForm, limiters, devices });
  router.use(codePages({ db, clock, secrets }, readSession, { codes: limiters.codes, devices }));
  router.use('/login', answerWithForm(renderForm));
  return router;
}

/** What a person can put right in the form itself. */
const formCodes = new Set<ErrorCode>(['invalid_request', 'not_signed_in', 'rate_limited']);

function answerWithForm(renderForm: RenderForm): ErrorRequestHandler {
  return async (thrown, req, res, next) => {
    const error = toAppError(thrown);
    if (!formCodes.has(error.code) || prefersJson(req) || res.headersSent) {
      next(thrown);
      return;
    }
    res.locals.error = error;
    setProblemHeaders(res, error);
    res.status(statusByCode[error.code]);
    await renderForm(req, res, { ...readTyped(req), problem: error.message, reason: undefined });
  };
}

/** What the person typed, as far as it is worth typing again. */
function readTyped(req: Request): { email: string; next: string } {
  const { email, next } = (req.body ?? {}) as { email?: unknown; next?: unknown };
  return { email: typeof email === 'string' ? email.slice(0, 320) : '', next: toLocalPath(next, HOME) };
}
