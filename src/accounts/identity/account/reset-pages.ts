import { createHash } from 'node:crypto';
import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { byProof, change } from '../../audit/audit.js';
import { AppError } from '../../../core/errors.js';
import type { Context } from '../../../core/http/context.js';
import { addressOf, passLimits } from '../../../core/http/rate-limit.js';
import { parseInput, text } from '../../../core/http/validate.js';
import {
  postForm,
  addForm,
  fieldError,
  newForm,
  textField,
  type FormState,
} from '../../../core/pages/form.js';
import { renderPage, pageRouter } from '../../../core/pages/layout.js';
import { HOUR_MS } from '../../../core/time.js';
import { addLinkPages } from '../links/link-pages.js';
import { emailSchema } from '../operator/schema.js';
import { MAX_PASSWORD, MIN_PASSWORD } from '../password.js';
import { auditRefusedFactor } from '../second-factor/codes.js';
import { sendUseOptions, siteOf } from '../second-factor/passkeys.js';
import { findFactors } from '../second-factor/queries.js';
import { sendToken } from '../session/session-cookie.js';
import { arrivalOf, whereaboutsOf } from '../session/session.js';
import { createLimit } from '../sign-in/sign-in-limits.js';
import { normalizeEmail } from '../sign-in/sign-in.js';
import type { Whereabouts } from '../source.js';
import type { AccountDeps } from './page.js';
import {
  findResetLink,
  requestPasswordReset,
  resetPassword,
  resetSecondFactor,
  WrongProof,
} from './reset.js';
import { filledIn, passwordSchema } from './schema.js';

const RESET = '/reset';
const FORGOT = '/forgot';

const newPasswordSchema = passwordSchema.omit({ currentPassword: true });

const ownPasswordSchema = z.strictObject({ password: text(MAX_PASSWORD) });

const forgotSchema = z.strictObject({ email: emailSchema });

type ResetDeps = AccountDeps & Pick<Context, 'limitStores'>;

export function resetPages(deps: ResetDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();
  const { opened, wrongLinks, showOpen, showGone } = addLinkPages(router, deps, {
    base: RESET,
    name: 'reset',
    title: 'Open your link',
    origin: `You got it ${deps.config.mail ? 'by e-mail or ' : ''}from the operator of this service.`,
    advice:
      'Request a new one with “Forgot your password?” on the sign-in page, or ask the operator of this service.',
  });
  const findOpened = (req: Request) => findResetLink(db.orm, opened.read(req), new Date(clock.now()));

  const show = async (req: Request, res: Response, form: FormState) => {
    const { link, person, hasFactor } = await findOpened(req);
    const isPassword = link.kind === 'password_reset';
    const title = isPassword ? 'Choose a new password' : 'Remove the second factor';
    const view = isPassword ? 'accounts/links/password' : 'accounts/links/second-factor';
    const limits = { min: MIN_PASSWORD, max: MAX_PASSWORD };
    const factors = await findFactors(db.orm, person.id);
    const data = { form, email: person.email, hasFactor, ...factors, ...limits };
    await renderPage(deps, req, res, { view, title, frame: 'card' }, data);
  };

  router.get(RESET, wrongLinks, (req, res) =>
    opened.read(req) === undefined ? showOpen(req, res, newForm()) : show(req, res, newForm()),
  );

  postForm(router, RESET, {
    before: [wrongLinks],
    async act(req, res, fields) {
      const found = await findOpened(req);
      await deps.limitFactor(req, res, found.person.email);
      const arrival = arrivalOf(req, res, clock);
      if (found.link.kind === 'second_factor_reset') {
        const { password } = parseInput(ownPasswordSchema, filledIn(fields));
        sendToken(req, await resetSecondFactor(deps, found, password, arrival));
      } else {
        const { newPassword, newPasswordAgain, ...factor } = parseInput(newPasswordSchema, filledIn(fields));
        if (newPassword !== newPasswordAgain)
          throw fieldError('newPasswordAgain', 'does not match the new password');
        const given = {
          code: undefined,
          ...factor,
          site: siteOf(req),
          hashedToken: found.link.hashedToken,
        };
        const reset = resetPassword(deps, found, newPassword, given, arrival);
        sendToken(req, await reset.catch(auditRefusal(deps, found.person, arrival)));
      }
      opened.forget(req, res);
      res.redirect(303, '/dashboard');
    },
    show,
  });

  router.post(`${RESET}/passkey-options`, wrongLinks, async (req, res) => {
    const { link, person } = await findOpened(req);
    await sendUseOptions(deps, req, res, { userId: person.id, hashedToken: link.hashedToken });
  });

  router.use(RESET, showGone);
  addForgotPages(router, deps);
  return router;
}

/** The refused change was rolled back, so this needs its own transaction. */
const auditRefusal =
  (deps: ResetDeps, { id: userId, email }: { id: string; email: string }, where: Whereabouts) =>
  async (error: unknown): Promise<never> => {
    const factor = error instanceof WrongProof ? error.factor : undefined;
    if (factor)
      await change(deps, byProof, (tx) =>
        auditRefusedFactor(tx, { userId, email }, factor, where, { at: 'reset' }),
      );
    throw error;
  };

const forgotNotices = {
  sent: 'If there is an account with this address, a link is on its way. It works once, for an hour.',
};

/** The response is the same for every e-mail address. */
function addForgotPages(router: Router, deps: ResetDeps): void {
  const hasMail = deps.config.mail !== undefined;
  const limits = limitRequests(deps.limitStores);

  const page = { view: 'accounts/links/forgot', title: 'Forgot your password?', notices: forgotNotices };
  const show = (req: Request, res: Response, form: FormState) =>
    renderPage(deps, req, res, { ...page, frame: 'card' }, { form, hasMail });

  addForm(router, FORGOT, {
    async act(req, res, fields) {
      if (!hasMail) throw new AppError('not_found', 'This service does not send e-mail.');
      const typed = normalizeEmail(textField(fields, 'email') ?? '');
      const { email } = parseInput(forgotSchema, filledIn({ ...fields, email: typed }));
      res.locals.forgotBy = createHash('sha256').update(email).digest('hex');
      await passLimits(req, res, limits);
      await requestPasswordReset(deps, email, whereaboutsOf(req, res, deps.clock));
      res.redirect(303, `${FORGOT}?done=sent`);
    },
    show,
  });
}

/** Per hour, whether or not the address has an account. */
const MAX_OF_NETWORK = 20;
const MAX_OF_ADDRESS = 5;

const limitRequests = (stores: ResetDeps['limitStores']) => [
  createLimit(
    stores,
    'forgot-network',
    'Too many links were requested from your network. Try again in an hour.',
    { windowMs: HOUR_MS, limit: MAX_OF_NETWORK, keyGenerator: addressOf },
  ),
  createLimit(
    stores,
    'forgot-address',
    'Too many links were requested for this address. Try again in an hour.',
    {
      windowMs: HOUR_MS,
      limit: MAX_OF_ADDRESS,
      keyGenerator: (_req, res) => res.locals.forgotBy as string,
    },
  ),
];
