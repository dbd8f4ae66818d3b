import { Router, type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express';
import type { Context } from '../../core/http/context.js';
import { AppError, type ErrorCode } from '../../core/errors.js';
import { hangUpSignal } from '../../core/http/hang-up.js';
import { prefersJson } from '../../core/http/accepts.js';
import { readForm } from '../../core/http/form-body.js';
import { requestIdOf } from '../../core/http/request-id.js';
import { setProblemHeaders, statusByCode, toAppError } from '../../core/http/problem.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { renderPage } from '../../core/pages/layout.js';
import { change } from '../session/change.js';
import { codePages } from './code-pages.js';
import type { Devices } from './device-cookie.js';
import { HOME, toLocalPath } from './local-path.js';
import { signInSchema, type SignIn } from './schema.js';
import type { SecretBox } from '../second-factor/secret-box.js';
import type { ReadSession } from '../session/session.js';
import { clearToken, readToken, sendToken } from '../session/session-cookie.js';
import { limitSignIns, markGuess, setSignIn, type SignInLimits } from './sign-in-limits.js';
import { endToken, normalizeEmail, signIn } from './sign-in.js';

export { HOME };

/** What has led to the form, by the word in `?done=`. */
const notices = {
  'signed-out': 'You are signed out.',
  'signed-out-everywhere': 'You are signed out, here and everywhere else.',
};

/** Why somebody has to begin again, by the word in `?again=`. */
const reasons: Record<string, string> = {
  expired: 'That sign-in has expired or was ended. Please begin again.',
  exhausted: 'Too many codes were wrong. Please begin again with your password.',
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
    renderPage({ db, clock }, req, res, { view: 'login', title: 'Sign in', frame: 'card', notices }, view);

  router.get('/login', async (req, res) => {
    const next = toLocalPath(req.query.next, HOME);
    const session = await readSession(req);
    // Without an Organization the dashboard is no place to go on to, but there is coming back as somebody else.
    if (session && (session.orgId !== null || next !== HOME)) {
      res.redirect(303, next);
      return;
    }
    res.locals.person = session;
    await renderForm(req, res, { email: '', next, problem: undefined, reason: reasonOf(req) });
  });

  const readCredentials: RequestHandler = async (req, res, next) => {
    const credentials = parseInput(signInSchema, await readForm(req, res));
    res.locals.credentials = credentials;
    setSignIn(req, res, devices, credentials.email);
    next();
  };

  router.post('/login', readCredentials, ...limiters.passwords, async (req, res) => {
    const credentials = res.locals.credentials as SignIn;
    const next = toLocalPath(credentials.next, HOME);
    const signedIn = await signIn({ db, clock }, credentials, {
      formerToken: readToken(req),
      ip: req.ip ?? '',
      userAgent: req.get('user-agent') ?? '',
      requestId: requestIdOf(res),
      gone: hangUpSignal(res),
    });
    if (!signedIn) throw new AppError('not_signed_in', 'The e-mail address or the password is wrong.');
    sendToken(req, signedIn.token);
    markGuess(res, true);
    if (!signedIn.isCodeDue) {
      devices.remember(req, res, normalizeEmail(credentials.email));
      res.redirect(303, next);
    } else if (prefersJson(req)) throw codeIsDue();
    else res.redirect(303, toAddress('/login/code', { next }));
  });
  router.use(codePages({ db, clock, secrets }, readSession, { codes: limiters.codes, devices }));
  router.use('/login', answerWithForm(renderForm));

  router.post('/logout', async (req, res) => {
    const token = readToken(req);
    if (token !== undefined)
      await change({ db, clock }, { kind: 'proof' }, (tx) =>
        endToken(tx, token, { at: new Date(clock.now()), ip: req.ip, requestId: requestIdOf(res) }),
      );
    clearToken(req);
    res.redirect(303, toAddress('/login', { done: 'signed-out' }));
  });

  return router;
}

const codeIsDue = () =>
  new AppError(
    'not_signed_in',
    'The password is right, and the second factor is due: within 10 minutes, post its code as the form field `code` to /login/code with the cookie of this answer.',
  );

const reasonOf = ({ query }: Request): string | undefined =>
  typeof query.again === 'string' && Object.hasOwn(reasons, query.again) ? reasons[query.again] : undefined;

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

type RenderForm = (
  req: Request,
  res: Response,
  view: { email: string; next: string; problem: string | undefined; reason: string | undefined },
) => Promise<void>;
