import type { ErrorRequestHandler, Request, RequestHandler, Response, Router } from 'express';
import { createRouter } from '../../../core/http/router.js';
import { AppError, type ErrorCode } from '../../../core/errors.js';
import { prefersJson } from '../../../core/http/request.js';
import type { Context } from '../../../core/http/context.js';
import { readForm } from '../../../core/http/body.js';
import { beginProblem, toAppError } from '../../../core/http/problem.js';
import { parseInput } from '../../../core/http/validate.js';
import { toAddress } from '../../../core/pages/address.js';
import {
  fieldError,
  formRoute,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../../core/pages/form.js';
import { renderPage, pageRouter } from '../../../core/pages/layout.js';
import { sendUseOptions, siteOf } from '../second-factor/passkeys.js';
import { findChallenge, findFactors } from '../second-factor/queries.js';
import { markGuess, setSignIn, type Devices, type SignInLimiters } from './sign-in-limits.js';
import { HOME, codeSchema, passkeySchema, toLocalPath } from './schema.js';
import type { SecretBox } from '../../../core/secret-box.js';
import { findDemoCode, groupByPerson, type ListDemoLogins } from './demo-logins.js';
import { hashToken, readToken, sendToken } from '../session/session-cookie.js';
import { arrivalOf, type ReadSession } from '../session/session.js';
import { passLimits, perAddressLimit } from '../../../core/http/rate-limit.js';
import {
  CannotSignIn,
  answerChallenge,
  findPasskeyOwner,
  signInByPasskey,
  type Challenge,
  type RoleChanges,
} from './sign-in.js';
import { mountRoutes } from '../../../core/reference/define-route.js';
import { signInRoutes, type RenderForm } from './sign-in-routes.js';

const notices = {
  'signed-out': 'You are signed out.',
  'signed-out-everywhere': 'You are signed out, here and everywhere else.',
};

interface SignInOptions {
  limiters: SignInLimiters;
  devices: Devices;
  secrets: SecretBox;
  listDemoLogins: ListDemoLogins;
  roleChanges: RoleChanges;
  singleSignOn: { name: string; pages: Router } | undefined;
}

export function signInPages(
  { db, clock, log }: Pick<Context, 'db' | 'clock' | 'log'>,
  readSession: ReadSession,
  { limiters, devices, secrets, listDemoLogins, roleChanges, singleSignOn }: SignInOptions,
): Router {
  const router = createRouter();
  const renderForm: RenderForm = (req, res, view) =>
    renderPage(
      { clock },
      req,
      res,
      { view: 'login', title: 'Sign in', notices, frame: 'card' },
      {
        ...view,
        logins: groupByPerson(listDemoLogins()),
        singleSignOn: singleSignOn && {
          name: singleSignOn.name,
          href: toAddress('/login/single-sign-on', { next: view.next }),
        },
      },
    );

  mountRoutes(router, '', signInRoutes, { db, clock, log, readSession, renderForm, limiters, devices });
  router.use(
    codePages({ db, clock, secrets, roleChanges }, readSession, {
      codes: limiters.codes,
      devices,
      listDemoLogins,
    }),
  );
  router.use(passkeyPages({ db, clock }, { passwords: limiters.passwords, devices }));
  if (singleSignOn) router.use(singleSignOn.pages);
  router.use('/login', answerWithForm(renderForm));
  return router;
}

const formCodes = new Set<ErrorCode>(['invalid_request', 'not_signed_in', 'rate_limited']);

function answerWithForm(renderForm: RenderForm): ErrorRequestHandler {
  return async (thrown, req, res, next) => {
    const error = toAppError(thrown);
    const isShown = formCodes.has(error.code) || error instanceof CannotSignIn;
    if (!isShown || prefersJson(req) || res.headersSent) {
      next(thrown);
      return;
    }
    beginProblem(res, error);
    await renderForm(req, res, { ...readTyped(req, res), problem: error.message, reason: undefined });
  };
}

function readTyped(req: Request, res: Response): { email: string; next: string } {
  const { email, next } = (req.body ?? {}) as { email?: unknown; next?: unknown };
  const kept: unknown = next ?? res.locals.next ?? req.query.next;
  return { email: typeof email === 'string' ? email.slice(0, 320) : '', next: toLocalPath(kept, HOME) };
}

function codePages(
  deps: Pick<Context, 'db' | 'clock'> & Pick<SignInOptions, 'secrets' | 'roleChanges'>,
  readSession: ReadSession,
  {
    codes,
    devices,
    listDemoLogins,
  }: Pick<SignInLimiters, 'codes'> & Pick<SignInOptions, 'devices' | 'listDemoLogins'>,
): Router {
  const { db, clock } = deps;
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

  const show = async (req: Request, res: Response, form: FormState) => {
    const challenge = res.locals.challenge as Challenge;
    const { email, userId } = challenge;
    const next = toLocalPath(req.query.next ?? form.values.next, HOME);
    const wantsRecoveryCode = (req.query.with ?? form.values.with) === 'recovery-code';
    const page = { view: 'login-code', title: 'Second factor', frame: 'card' } as const;
    await renderPage({ clock }, req, res, page, {
      form,
      demoCode: await findDemoCode({ db, clock }, listDemoLogins(), challenge),
      email,
      ...(await findFactors(db.orm, userId)),
      next,
      wantsRecoveryCode,
      otherWay: toAddress('/login/code', { next, ...(wantsRecoveryCode ? {} : { with: 'recovery-code' }) }),
      startAgain: toAddress('/login', { next }),
    });
  };

  const act = async (req: Request, res: Response, fields: FormFields) => {
    const { code, passkey } = parseInput(codeSchema, { ...fields, code: textField(fields, 'code') });
    if (code === undefined && !passkey) throw fieldError('code', 'is required');
    await passLimits(req, res, codes);
    const challenge = res.locals.challenge as Challenge;
    const given = { code, passkey, site: siteOf(req), hashedToken: challenge.hashedToken };
    const answer = await answerChallenge(deps, challenge, given, arrivalOf(req, res, clock));
    const next = toLocalPath(fields.next, HOME);
    if (answer.outcome === 'signed_in') {
      devices.remember(req, res, challenge.email);
      sendToken(req, answer.token);
      res.redirect(303, next);
      return;
    }
    const isWrong = answer.outcome === 'wrong';
    markGuess(res, !isWrong);
    if (isWrong && answer.triesLeft > 0) throw wrongCode(answer.triesLeft, passkey !== undefined);
    beginAgain(req, res, isWrong ? 'exhausted' : 'expired', next);
  };
  const codeForm = formRoute({ act, show });

  router.post('/login/code/passkey-options', requireChallenge, async (req, res) => {
    const { userId, hashedToken } = res.locals.challenge as Challenge;
    await sendUseOptions({ db, clock }, req, res, { userId, hashedToken });
  });
  router.get('/login/code', requireChallenge, (req, res) => show(req, res, newForm()));
  router.post('/login/code', requireChallenge, async (req, res, next) => {
    if (prefersJson(req)) await act(req, res, (await readForm(req, res)) as FormFields);
    else await codeForm(req, res, next);
  });
  return router;
}

/** Per IP address: anonymous browsers may request options, and each inserts a row that stays until it expires. */
const OPTIONS_PER_MINUTE = 60;

function passkeyPages(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  { passwords, devices }: Pick<SignInLimiters, 'passwords'> & { devices: Devices },
): Router {
  const router = pageRouter();
  const perMinute = { name: 'passkeys', perMinute: OPTIONS_PER_MINUTE, calls: 'sign-ins with a passkey' };

  router.post('/login/passkey-options', perAddressLimit({ clock }, perMinute), (req, res) =>
    sendUseOptions({ db, clock }, req, res, {}),
  );

  router.post('/login/passkey', async (req, res) => {
    const { passkey, next } = parseInput(passkeySchema, await readForm(req, res));
    const user = await findPasskeyOwner(db.orm, passkey.id);
    setSignIn(req, res, devices, user?.email ?? `passkey ${passkey.id}`);
    await passLimits(req, res, passwords);
    const arrival = arrivalOf(req, res, clock);
    const token = await signInByPasskey({ db, clock }, user, passkey, siteOf(req), arrival);
    if (token === undefined || !user)
      throw new AppError(
        'not_signed_in',
        'This passkey was not accepted. Try again, or sign in with your password.',
      );
    devices.remember(req, res, user.email);
    sendToken(req, token);
    res.redirect(303, toLocalPath(next, HOME));
  });
  return router;
}

function wrongCode(triesLeft: number, isPasskey: boolean): AppError {
  const left = `${triesLeft === 1 ? 'One try is' : `${triesLeft} tries are`} left.`;
  return new AppError(
    'not_signed_in',
    isPasskey
      ? `This passkey was not accepted. ${left}`
      : `This code is wrong or has been used before. ${left} If the app’s newest code fails too, check that the clock of your device is right.`,
  );
}

function beginAgain(req: Request, res: Response, again: 'expired' | 'exhausted' | undefined, next?: string) {
  if (prefersJson(req))
    throw new AppError(
      'not_signed_in',
      'No sign-in is waiting for a code here. Start with the password, at /login.',
    );
  res.redirect(303, toAddress('/login', { again, next: next ?? toLocalPath(req.query.next, HOME) }));
}
