import type { Request, Response, Router } from 'express';
import { requireRole, sessionOf } from '../identity/session/session.js';
import { prefersHtml } from '../core/http/accepts.js';
import { isUuid } from '../core/http/path-id.js';
import { formRoute, isPostedForm, newForm, type FormFields, type FormState } from '../core/pages/form.js';
import { renderPage } from '../core/pages/layout.js';
import { createApiKey, KeyExists, type KeyDeps } from './api-keys.js';
import { newFormId } from './fresh-id.js';
import { expiryChoices, keyFormValues, readKeyForm } from './key-form.js';
import { SECTION, showBudget } from './page-kit.js';
import { findKeyDetails } from './page-queries.js';
import { actorOf } from './request.js';
import { scopeGuide } from './scope-guide.js';
import { showSecret } from './secret-page.js';
import { keyAddress, managingRoles } from './views.js';

/** A key is made with a form that carries the key's id: whoever sends it twice makes one key. */
export function addCreatePages(router: Router, deps: KeyDeps): void {
  const mayChange = requireRole(...managingRoles);

  router.get('/api-keys/new', onlyPages, mayChange, async (req, res) => {
    const { orgId } = sessionOf(res);
    const { like } = req.query;
    const model = isUuid(like) ? await findKeyDetails(deps.db.orm, orgId, like) : undefined;
    await showForm(req, res, newForm(keyFormValues(newFormId(deps.clock.now()), model)));
  });

  const create = formRoute({ act: createFromForm, show: showForm });
  router.post('/api-keys', onlyForms, mayChange, create);

  async function createFromForm(req: Request, res: Response, fields: FormFields): Promise<void> {
    try {
      const input = readKeyForm(fields, deps.clock.now());
      const { key, secret } = await createApiKey(deps, actorOf(req, res), input);
      await showSecret(deps, req, res, { key, secret, previous: undefined });
    } catch (error) {
      if (!(error instanceof KeyExists)) throw error;
      res.redirect(303, `${keyAddress(error.keyId)}?done=exists`);
    }
  }

  async function showForm(req: Request, res: Response, form: FormState): Promise<void> {
    await renderPage(
      deps,
      req,
      res,
      { view: 'api-keys/new', title: 'New API key', section: SECTION },
      { form: renewed(form), budget: await showBudget(deps, res), scopeGuide, expiryChoices },
    );
  }

  /** A form that is too old for its id gets another one, and says so. */
  function renewed(form: FormState): FormState {
    const { id, ...errors } = form.errors;
    if (id === undefined) return form;
    return {
      values: { ...form.values, id: newFormId(deps.clock.now()) },
      errors,
      problem:
        'This form was open for too long and has been renewed. Nothing was made: please send it again.',
    };
  }
}

/** Programs find nothing here: there is no JSON at this address. */
export function onlyPages(req: Request, _res: Response, next: (word?: 'route') => void): void {
  if (prefersHtml(req)) next();
  else next('route');
}

/** Lets forms of a browser through; everything else goes on to the JSON route at the same address. */
export function onlyForms(req: Request, _res: Response, next: (word?: 'route') => void): void {
  if (isPostedForm(req) && prefersHtml(req)) next();
  else next('route');
}
