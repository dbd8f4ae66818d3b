import type { Router } from 'express';
import { z } from 'zod';
import { nameField, parseInput } from '../core/http/validate.js';
import { toAddress } from '../core/pages/address.js';
import { addForm, fieldError, startForm } from '../core/pages/form.js';
import { renderPage } from '../core/pages/layout.js';
import { filledIn } from '../accounts/identity/account/schema.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { fillInSlug, slugSchema } from '../accounts/identity/operator/schema.js';
import { putOrganization } from '../accounts/identity/organizations/organizations.js';
import { findOrganization, lockOrganization } from '../accounts/identity/organizations/queries.js';
import { inviteAsOperator } from '../accounts/identity/members/invitations.js';
import { confirmDanger } from '../accounts/identity/session/operator.js';
import { personOf } from '../accounts/identity/session/session.js';
import { addressOf, type CustomerDeps } from './page.js';
import { inviteSchema, showInvitation, withEmail } from './people-pages.js';
import { marketAccessField } from './customer-settings-pages.js';

const newSchema = z.object({
  slug: slugSchema,
  name: nameField,
  marketAccess: marketAccessField,
  email: inviteSchema.shape.email.optional(),
});
/** The customer, its plan and its owner's invitation are one transaction. */
export function addNew(router: Router, deps: CustomerDeps, forget: () => void): void {
  const { hasMarkets, mail } = deps.config;
  const parts = deps.summaries.flatMap(({ newCustomer }) => newCustomer ?? []);

  addForm(router, '/new-customer', {
    async act(req, res, fields) {
      fillInSlug(fields, 'slug', 'name');
      const typed = slugSchema.safeParse(fields.slug);
      const isTaken =
        typed.success && (await findOrganization(deps.db.orm, { slug: typed.data })) !== undefined;
      // Reported together with other mistakes.
      const schema = newSchema.extend({
        slug: slugSchema.refine(() => !isTaken, 'is taken by another customer'),
      });
      const { slug, name, email, marketAccess = 'none' } = parseInput(schema, filledIn(withEmail(fields)));
      const { customer, invitation, ends } = await changeAsOperator(deps, req, res, async (tx, source) => {
        if (await lockOrganization(tx, { slug })) throw fieldError('slug', 'is taken by another customer');
        if (email !== undefined) await confirmDanger(tx, res, source);
        const { resource } = await putOrganization(tx, slug, { name: name.trim(), marketAccess }, source);
        const ends = [];
        for (const part of parts) ends.push(await part.begin(tx, slug, fields, source));
        const owner = email === undefined ? undefined : { email, role: 'owner' as const, days: 7 };
        const invited =
          owner && (await inviteAsOperator(tx, resource.id, owner, personOf(res).userId, source, mail));
        return { customer: resource, ends, invitation: owner && invited && { ...owner, ...invited } };
      });
      for (const end of ends) end(deps.metrics);
      forget();
      if (invitation) await showInvitation(deps, req, res, customer, { ...invitation, isNewCustomer: true });
      else res.redirect(303, toAddress(addressOf(slug), { done: 'created' }));
    },
    async show(req, res, form) {
      const data: { view: string; data: object }[] = [];
      for (const part of parts) data.push({ view: part.view, data: await part.read(deps.db.orm) });
      const page = { view: 'console/new-customer', title: 'New customer', section: 'customers' };
      await renderPage(deps, req, res, page, {
        // The choice with the least risk.
        form: startForm(form, { marketAccess: 'none' }),
        parts: data,
        hasMarkets,
        hasMail: mail !== undefined,
      });
    },
    codes: new Set(parts.flatMap(({ codes }) => codes)),
  });
}
