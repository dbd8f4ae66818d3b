import type { Request, Response, Router } from 'express';
import { MAX_PASSWORD, MIN_PASSWORD, passwordProblem } from '../password-rules.js';
import { personOf } from '../session/session.js';
import { sendToken } from '../session/session-cookie.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { fieldError, formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { changePassword, checkPassword } from './account.js';
import { ACCOUNT, authorOf, limitGuesses, renderAccount, type AccountDeps } from './page.js';
import { readSecondFactor } from './second-factor.js';
import { filledIn, passwordSchema } from './schema.js';

const notices = { changed: 'Your password is changed. All your other sessions have ended.' };

export function passwordPages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const page = { view: 'password', tab: 'password', title: 'Your password', notices } as const;
    const { since } = await readSecondFactor(db.orm, personOf(res).userId);
    const hasFactor = since !== undefined;
    await renderAccount(deps, req, res, page, { form, hasFactor, min: MIN_PASSWORD, max: MAX_PASSWORD });
  };

  router.get('/account/password', (req, res) => show(req, res, newForm()));

  router.post(
    '/account/password',
    formRoute({
      async act(req, res, fields) {
        const author = authorOf(deps, req, res);
        const { currentPassword, newPassword, newPasswordAgain, code } = parseInput(
          passwordSchema,
          filledIn(fields),
        );
        const problem = await passwordProblem(newPassword, author.email);
        if (problem !== undefined) throw fieldError('newPassword', problem);
        if (newPassword !== newPasswordAgain)
          throw fieldError('newPasswordAgain', 'is not the same as the new password');
        const token = await limitGuesses(deps, req, res, async () => {
          const person = await checkPassword(db.orm, author, currentPassword);
          if (newPassword === currentPassword) throw fieldError('newPassword', 'is your password already');
          return changePassword(deps, author, person, { newPassword, typed: code });
        });
        sendToken(req, token);
        res.redirect(303, toAddress(`${ACCOUNT}/password`, { done: 'changed' }));
      },
      show,
    }),
  );
  return router;
}
