import type { Request, Response, Router } from 'express';
import { setTimeout as pause } from 'node:timers/promises';
import type { Orm } from '../../core/db/client.js';
import { firstIdOf } from '../../core/ids.js';
import { isUuid } from '../../core/http/request.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  postForm,
  newForm,
  onlyForms,
  onlyPages,
  textField,
  type FormState,
  readQuery,
} from '../../core/pages/form.js';
import { beginSecretPage } from '../../core/http/headers.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { memberActor } from '../identity/session/authority.js';
import { sessionOf } from '../identity/session/session.js';
import {
  createEndpoint,
  deleteEndpoint,
  EndpointExists,
  MAX_ENDPOINTS,
  requireEndpoint,
  resendDelivery,
  resendFailed,
  rotateSecret,
  testEndpoint,
  updateEndpoint,
  type EndpointDeps,
} from './endpoints.js';
import { createEndpointForms, type EndpointForms } from './form.js';
import {
  countDeliveries,
  findDelivery,
  listAttempts,
  listDeliveries,
  listEndpoints,
  type DeliveryKey,
  type EndpointRow,
} from './queries.js';
import { mayManage, readDeliveries, readDeliveryDetails, readEndpointId, readMessageId } from './request.js';
import { createWebhookSchemas, rotateWebhookSchema, type WebhookSchemas } from './schema.js';
import { describeWebhooks, keyTypes, serviceTypes, type WebhookTypes } from './types.js';
import {
  deliveryStates,
  endpointAddress,
  graceChoices,
  indentJson,
  sinceChoices,
  toDeliveryView,
  toEndpointView,
  WEBHOOKS,
} from './view.js';

const section = 'webhooks';

interface PagesDeps extends EndpointDeps, WebhookSchemas {
  types: WebhookTypes;
  forms: EndpointForms;
}

export function webhookPages(context: EndpointDeps, types: WebhookTypes): Router {
  const router = pageRouter();
  const schemas = createWebhookSchemas(types);
  const deps = { ...context, ...schemas, types, forms: createEndpointForms(types, schemas, context.config) };
  addListPages(router, deps);
  addEditPages(router, deps);
  addSecretPages(router, deps);
  addDeletePages(router, deps);
  addEndpointPage(router, deps);
  addDeliveryPage(router, deps);
  return router;
}

/** A message body to read. */
async function colourJson(json: string) {
  const { highlight } = await import('../../core/reference/highlight.js');
  const code = indentJson(json);
  return { code, html: highlight(code, 'json') };
}

function addListPages(router: Router, deps: PagesDeps): void {
  const described = describeWebhooks(deps.types);
  const sample = (described.find(({ type }) => !(type in keyTypes)) ?? described[0]!).example;
  router.get('/webhooks', onlyPages, mayManage, async (req, res) => {
    const { orgId } = sessionOf(res);
    const now = deps.clock.now();
    const endpoints = await listEndpoints(deps.db.orm, orgId);
    const ids = endpoints.map(({ id }) => id);
    const counts = await countDeliveries(deps.db.orm, orgId, ids, firstIdOf(now - 7 * DAY_MS));
    const last = await Promise.all(
      ids.map((id) => listDeliveries(deps.db.orm, { orgId, endpointId: id }, { limit: 1 })),
    );
    const notices = { deleted: 'The endpoint is deleted. Nothing more is sent to it.' };
    const page = { view: 'accounts/webhooks/list', title: 'Webhooks', section, notices };
    await renderPage(deps, req, res, page, {
      endpoints: endpoints.map((endpoint, i) => ({
        ...toEndpointView(endpoint, now),
        counts: counts.find(({ endpointId }) => endpointId === endpoint.id) ?? { all: 0, failed: 0 },
        last: last[i]!.map((row) => toDeliveryView(endpoint.id, row))[0] ?? null,
      })),
      typeCount: deps.forms.typeCount,
      maxEndpoints: MAX_ENDPOINTS,
      ...(endpoints.length === 0 && { types: described, sample: await colourJson(JSON.stringify(sample)) }),
    });
  });

  router.get('/webhooks/new', onlyPages, mayManage, (req, res) => showForm(req, res, newForm()));

  postForm(router, '/webhooks', {
    before: [onlyForms, mayManage],
    async act(req, res, fields) {
      try {
        const made = await createEndpoint(deps, memberActor(req, res), deps.forms.readNew(fields));
        if (made.secret === null) res.redirect(303, `${endpointAddress(made.endpoint.id)}?done=created`);
        else await showSecret(deps, req, res, { ...made, secret: made.secret });
      } catch (error) {
        if (!(error instanceof EndpointExists)) throw error;
        res.redirect(303, `${endpointAddress(error.endpointId)}?done=exists`);
      }
    },
    show: showForm,
  });

  async function showForm(req: Request, res: Response, form: FormState): Promise<void> {
    const page = { view: 'accounts/webhooks/new', title: 'New endpoint', section };
    const view = deps.forms.toNewView(form, deps.clock.now());
    await renderPage(deps, req, res, page, { ...view, action: WEBHOOKS, cancel: WEBHOOKS });
  }
}

function addEditPages(router: Router, deps: PagesDeps): void {
  addForm(router, '/webhooks/:id/edit', {
    hasJson: true,
    before: [mayManage],
    async act(req, res, fields) {
      const input = deps.forms.readChanged(fields);
      const { id } = await updateEndpoint(deps, memberActor(req, res), readEndpointId(req), input);
      res.redirect(303, `${endpointAddress(id)}?done=saved`);
    },
    async show(req, res, form) {
      const endpoint = await endpointViewOf(deps, req, res);
      const page = { view: 'accounts/webhooks/edit', title: 'Edit endpoint', section };
      await renderPage(deps, req, res, page, { endpoint, ...deps.forms.toEditView(form, endpoint) });
    },
  });
}

function addSecretPages(router: Router, deps: EndpointDeps): void {
  addForm(router, '/webhooks/:id/rotate', {
    hasJson: true,
    before: [mayManage],
    values: { graceMinutes: '1440' },
    async act(req, res, fields) {
      const choice = textField(fields, 'graceMinutes') ?? '';
      if (!graceChoices.some(({ value }) => value === choice))
        throw fieldError('graceMinutes', 'must be one of the options');
      const { graceMinutes } = parseInput(rotateWebhookSchema, { graceMinutes: Number(choice) });
      const made = await rotateSecret(deps, memberActor(req, res), readEndpointId(req), graceMinutes);
      await showSecret(deps, req, res, made);
    },
    async show(req, res, form) {
      const endpoint = await endpointViewOf(deps, req, res);
      const page = { view: 'accounts/webhooks/rotate', title: 'Rotate secret', section };
      await renderPage(deps, req, res, page, { endpoint, form, graceChoices });
    },
  });
}

async function showSecret(
  deps: EndpointDeps,
  req: Request,
  res: Response,
  { endpoint, secret }: { endpoint: EndpointRow; secret: string },
): Promise<void> {
  beginSecretPage(res);
  const page = { view: 'accounts/webhooks/secret', title: 'Signing secret', section };
  await renderPage(deps, req, res, page, {
    endpoint: toEndpointView(endpoint, deps.clock.now()),
    secret,
  });
}

function addDeletePages(router: Router, deps: EndpointDeps): void {
  router.get('/webhooks/:id/delete', onlyPages, mayManage, async (req, res) => {
    const endpoint = await endpointViewOf(deps, req, res);
    const page = { view: 'accounts/webhooks/delete', title: 'Delete endpoint', section };
    await renderPage(deps, req, res, page, { endpoint });
  });

  router.post('/webhooks/:id/delete', mayManage, async (req, res) => {
    await deleteEndpoint(deps, memberActor(req, res), readEndpointId(req));
    res.redirect(303, `${WEBHOOKS}?done=deleted`);
  });
}

const endpointNotices = {
  created: 'The endpoint is created. Send a test message to see it in the chat.',
  saved: 'The endpoint is saved.',
  exists:
    'This form already created this endpoint, and its secret was shown once. If you did not see the secret, rotate it.',
  resent: 'Failed deliveries from that period are being resent, oldest first, at most 1,000.',
  none: 'No deliveries failed in that period.',
};

function addEndpointPage(router: Router, deps: PagesDeps): void {
  const typeFilters = Object.keys({ ...deps.types, ...serviceTypes }).map((type) => ({
    value: type,
    label: type,
  }));
  const querySchema = deps.listDeliveriesSchema.omit({ limit: true });
  router.get('/webhooks/:id', onlyPages, mayManage, (req, res) => showEndpoint(req, res, newForm()));

  postForm(router, '/webhooks/:id/test', {
    before: [onlyForms, mayManage],
    async act(req, res) {
      const id = readEndpointId(req);
      const actor = memberActor(req, res);
      const messageId = await testEndpoint(deps, actor, id);
      await waitForAttempt(deps.db.orm, { orgId: actor.orgId, endpointId: id, messageId });
      res.redirect(303, toAddress(endpointAddress(id), { tested: messageId }));
    },
    show: showEndpoint,
  });

  postForm(router, '/webhooks/:id/resend', {
    before: [onlyForms, mayManage],
    async act(req, res, fields) {
      const id = readEndpointId(req);
      const hours = textField(fields, 'since') ?? '';
      if (!sinceChoices.some(({ value }) => value === hours))
        throw fieldError('since', 'must be one of the options');
      const since = new Date(deps.clock.now() - Number(hours) * HOUR_MS);
      const resent = await resendFailed(deps, memberActor(req, res), id, since);
      res.redirect(303, `${endpointAddress(id)}?done=${resent > 0 ? 'resent' : 'none'}`);
    },
    show: showEndpoint,
  });

  async function showEndpoint(req: Request, res: Response, form: FormState): Promise<void> {
    const { orgId } = sessionOf(res);
    const endpoint = await endpointViewOf(deps, req, res);
    const { tested, ...rest } = readQuery(req);
    const query = parseInput(querySchema, rest);
    const { status, type, cursor } = query;
    const where = { orgId, endpointId: endpoint.id };
    const { deliveries, nextCursor } = await readDeliveries(deps.db.orm, where, query);
    const page = { view: 'accounts/webhooks/endpoint', title: 'Endpoint', section, notices: endpointNotices };
    await renderPage(deps, req, res, page, {
      endpoint,
      typeCount: deps.forms.typeCount,
      test: isUuid(tested) && (await readTest(deps.db.orm, { ...where, messageId: tested })),
      deliveries: deliveries.map((row) => toDeliveryView(endpoint.id, row)),
      isFiltered: status !== undefined || type !== undefined || cursor !== undefined,
      states: deliveryStates,
      types: typeFilters,
      pager: toPager(endpoint.href, { status, type }, { cursor, nextCursor }),
      form: { ...form, values: { status: status ?? '', type: type ?? '', since: '24', ...form.values } },
      sinceChoices,
    });
  }
}

const TRIES = 12;
const TRY_MS = 250;

/** Most receivers respond within these 3 seconds, so the page after the form can show the result. */
export async function waitForAttempt(orm: Orm, key: DeliveryKey): Promise<void> {
  for (let i = 0; i < TRIES; i++) {
    const delivery = await findDelivery(orm, key);
    if (!delivery || delivery.attempts > 0 || delivery.status !== 'waiting') return;
    await pause(TRY_MS);
  }
}

/** Undefined if the message is gone or is not a test. */
async function readTest(orm: Orm, key: DeliveryKey) {
  const delivery = await findDelivery(orm, key);
  if (delivery?.type !== 'webhook.test') return undefined;
  const [attempt] = await listAttempts(orm, key, 1);
  return { ...toDeliveryView(key.endpointId, delivery), attempt };
}

function addDeliveryPage(router: Router, deps: EndpointDeps): void {
  router.get('/webhooks/:id/deliveries/:messageId', onlyPages, mayManage, (req, res) =>
    showDelivery(req, res, newForm()),
  );

  postForm(router, '/webhooks/:id/deliveries/:messageId/resend', {
    before: [onlyForms, mayManage],
    async act(req, res) {
      const [id, messageId] = [readEndpointId(req), readMessageId(req)];
      await resendDelivery(deps, memberActor(req, res), id, messageId);
      res.redirect(303, `${endpointAddress(id)}/deliveries/${messageId}?done=resent`);
    },
    show: showDelivery,
  });

  async function showDelivery(req: Request, res: Response, form: FormState): Promise<void> {
    const { orgId } = sessionOf(res);
    const endpoint = await endpointViewOf(deps, req, res);
    const key = { orgId, endpointId: endpoint.id, messageId: readMessageId(req) };
    const { body, attemptLog, ...row } = await readDeliveryDetails(deps.db.orm, key);
    const notices = {
      resent: 'The delivery is being resent. Reload this page to see the result.',
    };
    const page = { view: 'accounts/webhooks/delivery', title: 'Delivery', section, notices };
    await renderPage(deps, req, res, page, {
      endpoint,
      delivery: toDeliveryView(endpoint.id, row),
      body: await colourJson(body),
      attempts: attemptLog,
      form,
    });
  }
}

const endpointViewOf = async ({ db, clock }: EndpointDeps, req: Request, res: Response) =>
  toEndpointView(await requireEndpoint(db.orm, sessionOf(res).orgId, readEndpointId(req)), clock.now());
