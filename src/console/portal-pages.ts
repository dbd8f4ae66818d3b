import type { Request, Response, Router } from 'express';
import { listMembers } from '../accounts/identity/members/queries.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { confirmDanger } from '../accounts/identity/session/operator.js';
import { personOf } from '../accounts/identity/session/session.js';
import { isManager } from '../accounts/organizations/table.js';
import { createPortalSession, endPortalSessions } from '../accounts/portal/portal.js';
import { listSessions } from '../accounts/portal/queries.js';
import { DEFAULT_MINUTES, portalSessionInputSchema } from '../accounts/portal/schema.js';
import { portalPages } from '../accounts/portal/table.js';
import { portalEntries } from '../accounts/portal/viewer.js';
import { beginSecretPage } from '../core/http/headers.js';
import { originOf } from '../core/http/request.js';
import { parseInput } from '../core/http/validate.js';
import { toAddress } from '../core/pages/address.js';
import {
  addForm,
  listField,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../core/pages/form.js';
import { pageRouter } from '../core/pages/layout.js';
import { addressOf, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';

const VIEW_MINUTES = 30;
/** Owners and admins among these are offered. */
const MAX_MEMBERS = 200;
const notices = { ended: 'All sessions have ended. Their next request is refused.' };

const lifetimes = [
  { value: '15', label: '15 minutes' },
  { value: String(DEFAULT_MINUTES), label: 'An hour' },
  { value: '480', label: '8 hours' },
  { value: '1440', label: 'A day' },
];

export function customerPortalPages(deps: ConsoleDeps): Router {
  const { db, clock, config } = deps;
  const router = pageRouter();

  /** @param link a new one, which is shown once */
  const show = async (
    req: Request,
    res: Response,
    form: FormState,
    link?: { url: string; expiresAt: Date },
  ) => {
    const customer = await readCustomer(deps, req);
    const sessions = await listSessions(db.orm, customer.id, new Date(clock.now()), PAGE_SIZE);
    const pages = portalPages.filter((page) => page !== 'keys');
    const values = { pages, expiresInMinutes: String(DEFAULT_MINUTES), ...form.values };
    const page = { view: 'console/portal', tab: 'portal', title: link ? 'Portal link' : 'Portal', notices };
    await renderCustomer(deps, req, res, page, customer, {
      form: { ...form, values },
      link,
      lifetimes,
      entries: portalEntries,
      managers: (await listMembers(db.orm, customer.id, { after: undefined, limit: MAX_MEMBERS })).filter(
        ({ role }) => isManager(role),
      ),
      sessions,
      most: PAGE_SIZE,
      origins: config.portalOrigins,
    });
  };

  addForm(router, '/customers/:slug/portal', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const input = parseInput(portalSessionInputSchema, readFields(fields));
      const { path, expiresAt } = await changeAsOperator(deps, req, res, async (tx, source) => {
        // Whoever opens the link acts as this person.
        if (input.member !== undefined) await confirmDanger(tx, res, source);
        return createPortalSession(tx, slug, input, source);
      });
      beginSecretPage(res);
      await show(req, res, newForm(), { url: originOf(req) + path, expiresAt });
    },
    show,
  });

  router.post('/customers/:slug/view', async (req, res) => {
    const { slug } = await readCustomer(deps, req);
    const input = parseInput(portalSessionInputSchema, { expiresInMinutes: VIEW_MINUTES });
    const operatorId = personOf(res).userId;
    const { path } = await changeAsOperator(deps, req, res, (tx, source) =>
      createPortalSession(tx, slug, input, source, { operatorId }),
    );
    res.redirect(303, path);
  });

  router.post('/customers/:slug/portal/end', async (req, res) => {
    const { slug } = await readCustomer(deps, req);
    await changeAsOperator(deps, req, res, (tx, source) => endPortalSessions(tx, slug, source));
    res.redirect(303, toAddress(`${addressOf(slug)}/portal`, { done: 'ended' }));
  });

  return router;
}

function readFields(fields: FormFields) {
  const text = (name: string) => textField(fields, name)?.trim();
  const mode = text('livemode');
  return {
    pages: listField(fields, 'pages'),
    expiresInMinutes: Number(text('expiresInMinutes')),
    subject: text('subject'),
    // A hidden field is sent, too.
    member: listField(fields, 'pages').includes('keys') ? text('member') : undefined,
    returnUrl: text('returnUrl'),
    accent: text('accent'),
    livemode: mode === undefined ? undefined : mode === 'live',
  };
}
