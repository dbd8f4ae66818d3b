import type { Request, Response, Router } from 'express';
import { requireRole, sessionOf } from '../identity/session/session.js';
import { formRoute, newForm, type FormState } from '../core/pages/form.js';
import { renderPage } from '../core/pages/layout.js';
import { rotateApiKey, type KeyDeps } from './api-keys.js';
import { onlyForms, onlyPages } from './create-pages.js';
import { graceChoices, readGrace } from './key-form.js';
import { requireKeyDetails, SECTION, showBudget } from './page-kit.js';
import { actorOf, readId } from './request.js';
import { showSecret } from './secret-page.js';
import { keyAddress, managingRoles, toKeyView } from './views.js';

/** Replacing a key, with a choice of how long the old one goes on working. */
export function addRotatePages(router: Router, deps: KeyDeps): void {
  const mayChange = requireRole(...managingRoles);

  router.get('/api-keys/:id/rotate', onlyPages, mayChange, (req, res) =>
    showForm(req, res, newForm({ grace: '60', graceMinutes: '' })),
  );

  const rotate = formRoute({
    async act(req, res, fields) {
      const made = await rotateApiKey(deps, actorOf(req, res), readId(req), readGrace(fields));
      await showSecret(deps, req, res, made);
    },
    show: showForm,
  });
  router.post('/api-keys/:id/rotate', onlyForms, mayChange, rotate);

  /** For a key that cannot be rotated the page says why, and what to do instead. */
  async function showForm(req: Request, res: Response, form: FormState): Promise<void> {
    const key = await requireKeyDetails(deps, sessionOf(res).orgId, readId(req));
    const view = toKeyView(key, new Set(key.scopes), deps.clock.now());
    await renderPage(
      deps,
      req,
      res,
      { view: 'api-keys/rotate', title: `Rotate ${key.name}`, section: SECTION },
      {
        key: view,
        successor: key.successorId === null ? undefined : { href: keyAddress(key.successorId) },
        form,
        graceChoices,
        budget: await showBudget(deps, res),
      },
    );
  }
}
