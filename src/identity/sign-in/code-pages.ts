import type { Request, RequestHandler, Response, Router } from 'express';
import type { Context } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import { hangUpSignal } from '../../core/http/hang-up.js';
import { prefersJson } from '../../core/http/accepts.js';
import { readForm } from '../../core/http/form-body.js';
import { requestIdOf } from '../../core/http/request-id.js';
import { formRoute, newForm, textField, type FormFields, type FormState } from '../../core/pages/form.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import type { Devices } from './device-cookie.js';
import { HOME, toLocalPath } from './local-path.js';
import { codeSchema } from './schema.js';
import { answerChallenge, type Challenge } from '../second-factor/challenge.js';
import { findChallenge } from '../second-factor/challenge-queries.js';
import type { SecretBox } from '../second-factor/secret-box.js';
import type { ReadSession } from '../session/session.js';
import { hashToken, readToken, sendToken } from '../session/session-cookie.js';
import { markGuess, setSignIn, type SignInLimiters } from './sign-in-limits.js';
import { passLimits } from '../../core/http/rate-limit.js';

/** `/login/code`: the second step of a sign-in, for whoever has a second factor. */
export function codePages(
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
    return renderPage({ clock }, req, res, page, {
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
      ip: req.ip ?? '',
      userAgent: req.get('user-agent') ?? '',
      requestId: requestIdOf(res),
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
  const form = formRoute({ act, show });

  router.get('/login/code', requireChallenge, (req, res) => show(req, res, newForm()));
  router.post('/login/code', requireChallenge, async (req, res, next) => {
    if (prefersJson(req)) await act(req, res, (await readForm(req, res)) as FormFields);
    else await form(req, res, next);
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
