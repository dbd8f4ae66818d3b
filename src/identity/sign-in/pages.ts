import { Router, type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express';
import { AppError, type ErrorCode } from '../../core/errors.js';
import { prefersJson } from '../../core/http/accepts.js';
import type { Context } from '../../core/http/context.js';
import { readForm } from '../../core/http/form-body.js';
import { hangUpSignal } from '../../core/http/hang-up.js';
import { setProblemHeaders, statusByCode, toAppError } from '../../core/http/problem.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { formRoute, newForm, textField, type FormFields, type FormState } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { findChallenge } from '../second-factor/queries.js';
import type { SecretBox } from '../second-factor/secret-box.js';
import { change } from '../session/change.js';
import { clearToken, hashToken, readToken, sendToken } from '../session/session-cookie.js';
import { browserOf, whereaboutsOf, type ReadSession } from '../session/session.js';
import { codeSchema, signInSchema, type SignIn } from './schema.js';
import {
  limitSignIns,
  markGuess,
  passLimits,
  setSignIn,
  type Devices,
  type SignInLimiters,
  type SignInLimits,
} from './sign-in-limits.js';
import { answerChallenge, endToken, normalizeEmail, signIn, type Challenge } from './sign-in.js';

/** Where a person goes who was not going anywhere. */
export const HOME = '/dashboard';

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
      ...browserOf(req, res),
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
        endToken(tx, token, whereaboutsOf(req, res, clock)),
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

/** Stands in for this service, so that the URL parser shows where a browser would end up. */
const here = 'http://here.invalid';

/** `value` if a browser that is sent there stays on this site, else `fallback`. */
function toLocalPath(value: unknown, fallback: string): string {
  if (typeof value !== 'string' || !value.startsWith('/') || value.length > 2000) return fallback;
  if (!URL.canParse(value, here)) return fallback;
  const { origin, pathname, search, hash } = new URL(value, here);
  // `/.//elsewhere` is ours until it is normalised, and then it is not.
  return origin === here && !pathname.startsWith('//') ? pathname + search + hash : fallback;
}

/** `/login/code`: the second step of a sign-in, for whoever has a second factor. */
function codePages(
  { db, clock, secrets }: Pick<Context, 'db' | 'clock'> & { secrets: SecretBox },
  readSession: ReadSession,
  { codes, devices }: Pick<SignInLimiters, 'codes'> & { devices: Devices },
): Router {
  const router = pageRouter();

  const requireChallenge: RequestHandler = async (req, res, next) => {
    const token = readToken(req);
    const now = new Date(clock.now());
    const challenge = token === undefined ? undefined : await findChallenge(db.orm, hashToken(token), now);
    if (challenge) {
      res.locals.challenge = challenge;
      setSignIn(req, res, devices, challenge.email);
      next();
    } else if (await readSession(req)) res.redirect(303, toLocalPath(req.query.next, HOME));
    else beginAgain(req, res, token === undefined ? undefined : 'expired');
  };

  const show = (req: Request, res: Response, form: FormState) => {
    const { email } = res.locals.challenge as Challenge;
    const next = toLocalPath(req.query.next ?? form.values.next, HOME);
    const wantsRecoveryCode = (req.query.with ?? form.values.with) === 'recovery-code';
    const page = { view: 'login-code', title: 'Second factor', frame: 'card' } as const;
    return renderPage({ db, clock }, req, res, page, {
      form,
      email,
      next,
      wantsRecoveryCode,
      otherWay: toAddress('/login/code', { next, ...(wantsRecoveryCode ? {} : { with: 'recovery-code' }) }),
      startAgain: toAddress('/login', { next }),
    });
  };

  const act = async (req: Request, res: Response, fields: FormFields) => {
    const { code } = parseInput(codeSchema, { ...fields, code: textField(fields, 'code') });
    await passLimits(req, res, codes);
    const answer = await answerChallenge({ db, clock, secrets }, res.locals.challenge as Challenge, code, {
      ...browserOf(req, res),
      gone: hangUpSignal(res),
    });
    const next = toLocalPath(fields.next, HOME);
    if (answer.outcome === 'signed_in') {
      devices.remember(req, res, (res.locals.challenge as Challenge).email);
      sendToken(req, answer.token);
      res.redirect(303, next);
      return;
    }
    const isWrong = answer.outcome === 'wrong';
    markGuess(res, !isWrong);
    if (isWrong && answer.triesLeft > 0) throw wrongCode(answer.triesLeft);
    beginAgain(req, res, isWrong ? 'exhausted' : 'expired', next);
  };
  const codeForm = formRoute({ act, show });

  router.get('/login/code', requireChallenge, (req, res) => show(req, res, newForm()));
  router.post('/login/code', requireChallenge, async (req, res, next) => {
    if (prefersJson(req)) await act(req, res, (await readForm(req, res)) as FormFields);
    else await codeForm(req, res, next);
  });
  return router;
}

const wrongCode = (triesLeft: number) =>
  new AppError(
    'not_signed_in',
    `This code is not right, or was used before. ${triesLeft === 1 ? 'One try is' : `${triesLeft} tries are`} left. The app’s newest code works if the clock of your device is right.`,
  );

function beginAgain(req: Request, res: Response, again: 'expired' | 'exhausted' | undefined, next?: string) {
  if (prefersJson(req))
    throw new AppError(
      'not_signed_in',
      'No sign-in waits for a code here. Begin with the password, at /login.',
    );
  res.redirect(303, toAddress('/login', { again, next: next ?? toLocalPath(req.query.next, HOME) }));
}
