import type { Request, Response, Router } from 'express';
import { personOf } from '../session/session.js';
import { parseInput } from '../../core/http/validate.js';
import { listOrganizationsOf } from '../organizations/queries.js';
import { toAddress } from '../../core/pages/address.js';
import { fieldError, formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { changeName } from './account.js';
import { ACCOUNT, authorOf, renderAccount, type AccountDeps } from './page.js';
import { filledIn, nameSchema } from './schema.js';

/** The Organizations that the page names at most. */
const MAX_ORGANIZATIONS = 100;

const notices = { saved: 'Your name is saved.', unchanged: 'That is your name already.' };

export function profilePages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const { userId } = personOf(res);
    const organizationsOf = await listOrganizationsOf(db.orm, userId, MAX_ORGANIZATIONS + 1);
    const page = { view: 'profile', tab: 'profile', title: 'Your account', notices } as const;
    await renderAccount(deps, req, res, page, {
      form,
      memberships: organizationsOf.slice(0, MAX_ORGANIZATIONS),
      hasMoreMemberships: organizationsOf.length > MAX_ORGANIZATIONS,
    });
  };

  router.get('/account', (req, res) => show(req, res, newForm({ name: personOf(res).userName })));

  router.post(
    '/account',
    formRoute({
      async act(req, res, fields) {
        const name = parseInput(nameSchema, filledIn(fields)).name.trim();
        if (name === '') throw fieldError('name', 'must not be blank');
        const isChanged = await changeName(deps, authorOf(deps, req, res), name);
        res.redirect(303, toAddress(ACCOUNT, { done: isChanged ? 'saved' : 'unchanged' }));
      },
      show,
    }),
  );
  return router;
}
