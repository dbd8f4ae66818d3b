import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { parseInput } from '../../core/http/validate.js';
import { formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { readFactor, type GivenFactor } from '../second-factor/codes.js';
import { findFactors } from '../second-factor/queries.js';
import { updateSession } from '../session/queries.js';
import { requirePerson, personOf, type ReadSession } from '../session/session.js';
import { HOME, toLocalPath } from '../sign-in/schema.js';
import { audit, changeAccount, checkPassword, requireCodeIfOn, type Author } from './account.js';
import { authorOf, givenFactor, limitGuesses, type AccountDeps } from './page.js';
import { confirmBothSchema, filledIn } from './schema.js';

const schema = confirmBothSchema.extend({ next: z.string().optional() });

/** `/confirm`: where people prove once more who they are, on the way to what is dangerous. */
export function confirmPages(deps: AccountDeps, readSession: ReadSession): Router {
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const next = toLocalPath(req.query.next ?? form.values.next, HOME);
    const { hasSecondFactor: hasFactor, userId } = personOf(res);
    const page = { view: 'account/confirm', title: 'Confirm that it is you', frame: 'card' } as const;
    await renderPage(deps, req, res, page, {
      form,
      next,
      hasFactor,
      ...(await findFactors(deps.db.orm, userId)),
    });
  };

  router.get('/confirm', requirePerson(readSession), (req, res) => show(req, res, newForm()));

  router.post(
    '/confirm',
    requirePerson(readSession),
    formRoute({
      async act(req, res, fields) {
        const { next, currentPassword, ...factor } = parseInput(schema, filledIn(fields));
        const author = authorOf(deps, req, res);
        const given = givenFactor(req, res, factor);
        await limitGuesses(deps, req, res, () => confirm(deps, author, currentPassword, given));
        res.redirect(303, toLocalPath(next, HOME));
      },
      show,
    }),
  );
  return router;
}

/** @throws WrongGuess; AppError not_signed_in */
async function confirm(
  deps: AccountDeps,
  author: Author,
  currentPassword: string,
  given: GivenFactor,
): Promise<void> {
  const person = await checkPassword(deps.db.orm, author, currentPassword);
  const code = await readFactor(deps.db.orm, { ...author, now: author.at }, given);
  await changeAccount(deps, author, person, async (tx) => {
    await requireCodeIfOn(tx, deps.secrets, author, code);
    await updateSession(tx, author.sessionId, { confirmedAt: author.at });
    await audit(tx, author, 'user.confirmed');
  });
}
