import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { byProof, change } from '../../audit/change.js';
import type { Context } from '../../core/http/context.js';
import { hangUpSignal } from '../../core/http/request-context.js';
import { parseInput, text } from '../../core/http/validate.js';
import { fieldError, formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { addLinkPages } from '../links/link-pages.js';
import { MAX_PASSWORD, MIN_PASSWORD } from '../password.js';
import { readToken, sendToken } from '../session/session-cookie.js';
import { browserOf, whereaboutsOf } from '../session/session.js';
import { auditPerson } from '../source.js';
import type { AccountDeps } from './page.js';
import { findResetLink, resetPassword, resetSecondFactor, WrongProof } from './reset.js';
import { filledIn } from './schema.js';

const RESET = '/reset';

const newPasswordSchema = z.strictObject({
  // Judged by the rules for passwords, which say what is missing.
  newPassword: z.string(),
  newPasswordAgain: z.string(),
  code: text(100).optional(),
});

const passwordSchema = z.strictObject({ password: text(MAX_PASSWORD) });

/** `/reset`: where links lead with which people who lost their password or their second factor get back in. */
export function resetPages(deps: AccountDeps & Pick<Context, 'limitStores'>): Router {
  const { db, clock } = deps;
  const router = pageRouter();
  const { opened, wrongLinks, guesses, showOpen, showGone } = addLinkPages(router, deps, {
    base: RESET,
    name: 'reset',
    title: 'Open your link',
    origin: 'You have it from the operator of this service.',
    advice: 'Ask the operator of this service for a new one.',
  });
  const findOpened = (req: Request) => findResetLink(db.orm, opened.read(req), new Date(clock.now()));
  const bearerOf = (req: Request, res: Response) => ({
    where: whereaboutsOf(req, res, clock),
    browser: { ...browserOf(req, res), formerToken: readToken(req) },
    gone: hangUpSignal(res),
  });

  const show = async (req: Request, res: Response, form: FormState) => {
    const { link, person, hasFactor } = await findOpened(req);
    const isPassword = link.kind === 'password_reset';
    const title = isPassword ? 'Choose a new password' : 'Remove the second factor';
    const view = isPassword ? 'links/password' : 'links/second-factor';
    const limits = { min: MIN_PASSWORD, max: MAX_PASSWORD };
    const data = { form, email: person.email, hasFactor, ...limits };
    await renderPage(deps, req, res, { view, title, frame: 'card' }, data);
  };

  router.get(RESET, wrongLinks, (req, res) =>
    opened.read(req) === undefined ? showOpen(req, res, newForm()) : show(req, res, newForm()),
  );

  router.post(
    RESET,
    wrongLinks,
    guesses,
    formRoute({
      async act(req, res, fields) {
        const found = await findOpened(req);
        const bearer = bearerOf(req, res);
        if (found.link.kind === 'second_factor_reset') {
          const { password } = parseInput(passwordSchema, filledIn(fields));
          sendToken(req, await resetSecondFactor(deps, found, password, bearer));
        } else {
          const { newPasswordAgain, ...chosen } = parseInput(newPasswordSchema, filledIn(fields));
          if (chosen.newPassword !== newPasswordAgain)
            throw fieldError('newPasswordAgain', 'is not the same as the new password');
          const reset = resetPassword(deps, found, { ...chosen, code: chosen.code }, bearer);
          sendToken(req, await reset.catch(auditRefusal(found.person, bearer.where)));
        }
        opened.forget(req, res);
        res.redirect(303, '/dashboard');
      },
      show,
    }),
  );

  /** What the refused change would have written is undone: this is written by itself. */
  const auditRefusal =
    ({ id: userId, email }: { id: string; email: string }, where: ReturnType<typeof bearerOf>['where']) =>
    async (error: unknown): Promise<never> => {
      if (error instanceof WrongProof && error.field === 'code')
        await change(deps, byProof, (tx) =>
          auditPerson(tx, { userId, email }, 'user.code_refused', where, { at: 'reset' }),
        );
      throw error;
    };

  router.use(RESET, showGone);
  return router;
}
