import type { Request, Router } from 'express';
import { operatorActor } from '../accounts/identity/session/authority.js';
import { requireConfirmation } from '../accounts/identity/session/operator.js';
import {
  createEndpoint,
  deleteEndpoint,
  EndpointExists,
  MAX_ENDPOINTS,
  requireEndpoint,
  testEndpoint,
  updateEndpoint,
} from '../accounts/webhooks/endpoints.js';
import { createEndpointForms, type EndpointForms } from '../accounts/webhooks/form.js';
import { listDeliveries, listEndpoints } from '../accounts/webhooks/queries.js';
import { readEndpointId } from '../accounts/webhooks/request.js';
import { waitForAttempt } from '../accounts/webhooks/pages.js';
import { createWebhookSchemas } from '../accounts/webhooks/schema.js';
import type { WebhookTypes } from '../accounts/webhooks/types.js';
import { toDeliveryView, toEndpointView } from '../accounts/webhooks/view.js';
import { beginSecretPage } from '../core/http/headers.js';
import { toAddress } from '../core/pages/address.js';
import { addForm, readQuery } from '../core/pages/form.js';
import { pageRouter } from '../core/pages/layout.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';

const tab = 'webhooks';

const notices = {
  created: 'The endpoint is created.',
  saved: 'The endpoint is saved.',
  tested: 'The test message is queued. It is the newest delivery.',
  exists:
    'This form already created this endpoint, and its secret was shown once. Owners and admins can rotate it.',
};

const listAddress = (slug: string): string => `${addressOf(slug)}/webhooks`;

interface PagesDeps extends ConsoleDeps {
  forms: EndpointForms;
}

const SHOWN_DELIVERIES = 20;

/** The contents of deliveries are shown only to the customer's owners and admins. */
export function customerWebhookPages(context: ConsoleDeps, types: WebhookTypes): Router {
  const deps = { ...context, forms: createEndpointForms(types, createWebhookSchemas(types), context.config) };
  const { typeCount } = deps.forms;
  const router = pageRouter();

  router.get('/customers/:slug/webhooks', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const rows = await listEndpoints(deps.db.orm, customer.id);
    const page = {
      view: 'console/webhooks',
      tab,
      title: 'Webhooks',
      notices: { deleted: 'The endpoint is deleted. Nothing more is sent to it.' },
    };
    await renderCustomer(deps, req, res, page, customer, {
      endpoints: rows.map((row) => toEndpointView(row, deps.clock.now(), listAddress(customer.slug))),
      typeCount,
      maxEndpoints: MAX_ENDPOINTS,
    });
  });

  addCreation(router, deps);
  router.get('/customers/:slug/webhooks/:id', async (req, res) => {
    const { customer, endpoint } = await readOne(deps, req);
    const where = { orgId: customer.id, endpointId: endpoint.id };
    const rows = await listDeliveries(deps.db.orm, where, { limit: SHOWN_DELIVERIES });
    const noticeTone = readQuery(req).done === 'tested' ? ('info' as const) : ('good' as const);
    const page = { view: 'console/webhook', tab, title: 'Endpoint', notices, noticeTone };
    await renderCustomer(deps, req, res, page, customer, {
      endpoint,
      typeCount,
      deliveries: rows.map((row) => toDeliveryView(endpoint.id, row)),
    });
  });

  router.post('/customers/:slug/webhooks/:id/test', async (req, res) => {
    const { customer, endpoint } = await readOne(deps, req);
    const messageId = await testEndpoint(deps, operatorActor(req, res, customer.id), endpoint.id);
    await waitForAttempt(deps.db.orm, { orgId: customer.id, endpointId: endpoint.id, messageId });
    res.redirect(303, toAddress(endpoint.href, { done: 'tested' }));
  });
  addChanges(router, deps);
  return router;
}

async function readOne(deps: ConsoleDeps, req: Request) {
  const customer = await readCustomer(deps, req);
  const row = await requireEndpoint(deps.db.orm, customer.id, readEndpointId(req));
  return { customer, endpoint: toEndpointView(row, deps.clock.now(), listAddress(customer.slug)) };
}

function addCreation(router: Router, deps: PagesDeps): void {
  const { clock, forms } = deps;

  addForm(router, '/customers/:slug/webhooks/new', {
    before: [requireConfirmation(clock)],
    async act(req, res, fields) {
      const customer = await readCustomer(deps, req);
      const list = listAddress(customer.slug);
      try {
        const actor = operatorActor(req, res, customer.id);
        const { endpoint, secret } = await createEndpoint(deps, actor, forms.readNew(fields));
        const view = toEndpointView(endpoint, clock.now(), list);
        if (secret === null) return res.redirect(303, toAddress(view.href, { done: 'created' }));
        beginSecretPage(res);
        const page = { view: 'accounts/webhooks/secret', tab, title: 'Signing secret' };
        await renderCustomer(deps, req, res, page, customer, { endpoint: view, secret });
      } catch (error) {
        if (!(error instanceof EndpointExists)) throw error;
        res.redirect(303, toAddress(`${list}/${error.endpointId}`, { done: 'exists' }));
      }
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const page = { view: 'accounts/webhooks/new', tab, title: 'New endpoint' };
      const cancel = listAddress(customer.slug);
      const view = { ...forms.toNewView(form, clock.now()), action: `${cancel}/new`, cancel };
      await renderCustomer(deps, req, res, page, customer, view);
    },
  });
}

function addChanges(router: Router, deps: PagesDeps): void {
  const before = [requireConfirmation(deps.clock)];

  addForm(router, '/customers/:slug/webhooks/:id/edit', {
    before,
    async act(req, res, fields) {
      const { customer, endpoint } = await readOne(deps, req);
      const actor = operatorActor(req, res, customer.id);
      await updateEndpoint(deps, actor, endpoint.id, deps.forms.readChanged(fields));
      res.redirect(303, toAddress(endpoint.href, { done: 'saved' }));
    },
    async show(req, res, form) {
      const { customer, endpoint } = await readOne(deps, req);
      const page = { view: 'accounts/webhooks/edit', tab, title: 'Edit endpoint' };
      const view = { endpoint, ...deps.forms.toEditView(form, endpoint) };
      await renderCustomer(deps, req, res, page, customer, view);
    },
  });

  addForm(router, '/customers/:slug/webhooks/:id/delete', {
    before,
    async act(req, res) {
      const { customer, endpoint } = await readOne(deps, req);
      await deleteEndpoint(deps, operatorActor(req, res, customer.id), endpoint.id);
      res.redirect(303, toAddress(listAddress(customer.slug), { done: 'deleted' }));
    },
    async show(req, res, form) {
      const { customer, endpoint } = await readOne(deps, req);
      const page = { view: 'accounts/webhooks/delete', tab, title: 'Delete endpoint' };
      await renderCustomer(deps, req, res, page, customer, { form, endpoint });
    },
  });
}
