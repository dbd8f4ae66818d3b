import type { Request, Response, Router } from 'express';
import { AppError } from '../../../core/errors.js';
import { toAddress } from '../../../core/pages/address.js';
import { postForm, newForm, type FormState } from '../../../core/pages/form.js';
import { pageRouter } from '../../../core/pages/layout.js';
import { byPerson } from '../session/authority.js';
import { personOf, personSource, type SessionPrincipal } from '../session/session.js';
import { HOME, toLocalPath } from '../sign-in/schema.js';
import type { Issuer } from '../single-sign-on/issuer.js';
import { findLinkTime } from '../single-sign-on/queries.js';
import { waiveSingleSignOn } from '../single-sign-on/single-sign-on.js';
import { ACCOUNT, renderAccount, type AccountDeps } from './page.js';

export function accountSingleSignOnPages(deps: AccountDeps, issuer: Issuer | undefined): Router {
  const { db, clock } = deps;
  const router = pageRouter();
  const path = '/account/single-sign-on';

  const show = async (req: Request, res: Response, form: FormState) => {
    const { userId, singleSignOnAt } = personOf(res);
    const session = res.locals.session as SessionPrincipal | undefined;
    if (!issuer && !session?.lacksSingleSignOn) return res.redirect(303, ACCOUNT);
    const next = toLocalPath(req.query.next ?? form.values.next, HOME);
    const isOwner = session?.role === 'owner';
    const page = { view: 'single-sign-on', title: 'Single sign-on' };
    await renderAccount(deps, req, res, page, {
      form,
      name: issuer?.config.name,
      linkedAt: await findLinkTime(db.orm, userId),
      usedAt: singleSignOnAt,
      demandedBy: session?.lacksSingleSignOn ? session.orgName : undefined,
      mayWaive: isOwner && issuer?.config.ownersWhenDown === true,
      next,
      href: toAddress('/login/single-sign-on', { next }),
    });
  };

  router.get(path, (req, res) => show(req, res, newForm()));

  postForm(router, `${path}/waiver`, {
    async act(req, res, fields) {
      const session = res.locals.session as SessionPrincipal | undefined;
      if (!session?.lacksSingleSignOn || session.role !== 'owner' || !issuer?.config.ownersWhenDown)
        throw new AppError('forbidden_role', 'Single sign-on cannot be left out here.');
      if (!(await issuer.isDown()))
        throw new AppError('invalid_request', `${issuer.config.name} responds. Sign in there.`);
      const by = { ...byPerson(res, true), email: session.email };
      await waiveSingleSignOn(deps, by, session.orgId, personSource(req, res, clock));
      res.redirect(303, toLocalPath(fields.next, HOME));
    },
    show,
  });
  return router;
}
