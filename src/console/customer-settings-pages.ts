import type { Router } from 'express';
import { z } from 'zod';
import { nameField, parseInput } from '../core/http/validate.js';
import { toAddress } from '../core/pages/address.js';
import { addForm, fieldError, startForm } from '../core/pages/form.js';
import { filledIn } from '../accounts/identity/account/schema.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { stripeCustomerField } from '../accounts/identity/operator/schema.js';
import { getLockedOrganization, putOrganization } from '../accounts/identity/organizations/organizations.js';
import type { Organization } from '../accounts/identity/organizations/queries.js';
import { marketAccesses } from '../accounts/organizations/table.js';
import { confirmDanger, requireConfirmation } from '../accounts/identity/session/operator.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps, type CustomerDeps } from './page.js';

export const marketAccessField = z.enum(marketAccesses, 'must be one of the options').optional();
const settingsSchema = z.strictObject({
  name: nameField,
  requireSecondFactor: z.literal('yes').optional(),
  requireSingleSignOn: z.literal('yes').optional(),
  mayCorrect: z.literal('yes').optional(),
  marketAccess: marketAccessField,
  stripeCustomerId: stripeCustomerField.optional(),
});
export const archiveSchema = z.strictObject({ archived: z.enum(['yes', 'no'], 'must be yes or no') });

export function addSettings(router: Router, deps: CustomerDeps): void {
  const { config } = deps;

  addForm(router, '/customers/:slug/settings', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const { name, marketAccess, stripeCustomerId, ...checked } = parseInput(
        settingsSchema,
        filledIn(fields),
      );
      const input = {
        name: name.trim(),
        requireSecondFactor: checked.requireSecondFactor === 'yes',
        requireSingleSignOn: checked.requireSingleSignOn === 'yes',
        mayCorrect: checked.mayCorrect === 'yes',
        marketAccess,
        // A form opened before an upgrade may lack this field.
        stripeCustomerId: 'stripeCustomerId' in fields ? (stripeCustomerId ?? null) : undefined,
      };
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const current = await getLockedOrganization(tx, slug);
        if (input.requireSingleSignOn && !current.requireSingleSignOn && !config.singleSignOn)
          throw fieldError('requireSingleSignOn', 'needs OIDC_ISSUER, which this service does not have');
        if (isDangerous(current, input)) await confirmDanger(tx, res, source);
        await putOrganization(tx, slug, input, source);
      });
      res.redirect(303, toAddress(`${addressOf(slug)}/settings`, { done: 'saved' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const given = {
        name: customer.name,
        requireSecondFactor: customer.requireSecondFactor ? 'yes' : '',
        requireSingleSignOn: customer.requireSingleSignOn ? 'yes' : '',
        mayCorrect: customer.mayCorrect ? 'yes' : '',
        marketAccess: customer.marketAccess,
        stripeCustomerId: customer.stripeCustomerId ?? '',
      };
      const page = {
        view: 'console/customer-settings',
        tab: 'settings',
        title: 'Settings',
        notices: { saved: 'Saved. It takes effect on the next request.' },
      };
      await renderCustomer(deps, req, res, page, customer, {
        form: startForm(form, given),
        hasMarkets: config.hasMarkets,
        hasSingleSignOn: config.singleSignOn !== undefined || customer.requireSingleSignOn,
      });
    },
  });
}

/** Lowers the sign-in requirements, widens what the customer may do, or changes who pays for its usage. */
const isDangerous = (current: Organization, wanted: Parameters<typeof putOrganization>[2]): boolean =>
  (current.requireSecondFactor && !wanted.requireSecondFactor) ||
  (current.requireSingleSignOn && !wanted.requireSingleSignOn) ||
  (wanted.mayCorrect === true && !current.mayCorrect) ||
  (wanted.stripeCustomerId !== undefined && wanted.stripeCustomerId !== current.stripeCustomerId) ||
  marketAccesses.indexOf(wanted.marketAccess ?? 'none') > marketAccesses.indexOf(current.marketAccess);

export function addArchive(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/customers/:slug/archive', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const archived = parseInput(archiveSchema, fields).archived === 'yes';
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const { name } = await getLockedOrganization(tx, slug);
        await putOrganization(tx, slug, { name, archived }, source);
      });
      res.redirect(303, toAddress(addressOf(slug), { done: archived ? 'archived' : 'restored' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const title = customer.archivedAt === null ? 'Archive' : 'Restore';
      await renderCustomer(deps, req, res, { view: 'console/archive', tab: 'settings', title }, customer, {
        form,
      });
    },
  });
}
