import type { Request, Response, Router } from 'express';
import { MAX_PASSWORD, MIN_PASSWORD, passwordProblem } from '../auth/password-rules.js';
import { personOf } from '../auth/session.js';
import { sendToken } from '../auth/session-cookie.js';
import { parseInput } from '../http/validate.js';
import { toAddress } from '../pages/address.js';
import { fieldError, formRoute, newForm, type FormState } from '../pages/form.js';
import { pageRouter } from '../pages/page-router.js';
import { changePassword, checkPassword } from './account.js';
import { ACCOUNT, authorOf, limitGuesses, renderAccount, type AccountDeps } from './page.js';
import { filledIn, passwordSchema } from './schema.js';

const notices = { changed: 'Your password is changed. All your other sessions have ended.' };

export function passwordPages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  const show = (req: Request, res: Response, form: FormState) => {
    const page = { view: 'password', tab: 'password', title: 'Your password', notices } as const;
    return renderAccount(deps, req, res, page, { form, min: MIN_PASSWORD, max: MAX_PASSWORD });
  };

  router.get('/account/password', (req, res) => show(req, res, newForm()));

  router.post(
    '/account/password',
    formRoute({
      async act(req, res, fields) {
        const { userId, email } = personOf(res);
        const { currentPassword, newPassword, newPasswordAgain } = parseInput(
          passwordSchema,
          filledIn(fields),
        );
        const problem = passwordProblem(newPassword, email);
        if (problem !== undefined) throw fieldError('newPassword', problem);
        if (newPassword !== newPasswordAgain)
          throw fieldError('newPasswordAgain', 'is not the same as the new password');
        const person = await limitGuesses(deps, req, res, () =>
          checkPassword(db.orm, userId, currentPassword),
        );
        if (newPassword === currentPassword) throw fieldError('newPassword', 'is your password already');
        sendToken(req, await changePassword(deps, authorOf(deps, req, res), person, newPassword));
        res.redirect(303, toAddress(`${ACCOUNT}/password`, { done: 'changed' }));
      },
      show,
    }),
  );
  return router;
}
