import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { sampleRead } from '../accounts/api-keys/change-pages.js';
import {
  expiryChoices,
  graceChoices,
  keyFormValues,
  readGrace,
  readKeyForm,
  servicePresets,
} from '../accounts/api-keys/key-form.js';
import { serviceScopes, type ServiceScope } from '../accounts/api-keys/scopes.js';
import { serviceScopeAllows, toShownKey, whatScopeAllows } from '../accounts/api-keys/view.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { requireConfirmation } from '../accounts/identity/session/operator.js';
import { listServiceKeyCalls, listServiceKeys, type ServiceKey } from '../accounts/service-keys/queries.js';
import { serviceKeyInputSchema } from '../accounts/service-keys/schema.js';
import {
  createServiceKey,
  getServiceKey,
  revokeServiceKey,
  rotateServiceKey,
  type NewServiceKey,
} from '../accounts/service-keys/service-keys.js';
import { beginSecretPage } from '../core/http/headers.js';
import { cutPage, idCursorField } from '../core/http/page.js';
import { originOf, readPathId } from '../core/http/request.js';
import { decodeCursor, encodeCursor, newFormId } from '../core/ids.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { recentUse } from '../accounts/api-keys/cut-over.js';
import { addForm, parseQueryForm, readQuery, renewForm } from '../core/pages/form.js';
import { pageRouter, renderPage } from '../core/pages/layout.js';
import { DAY_MS } from '../core/time.js';
import { listCustomers } from './customer-queries.js';
import { CONSOLE, PAGE_SIZE, type ConsoleDeps } from './page.js';

const list = { label: 'Service keys', href: `${CONSOLE}/service-keys` };
const MAX_CUSTOMERS = 20;

const cursorSchema = z.object({ cursor: idCursorField });

/** The first that a new key may call is shown with its secret. */
const examples: { scope: ServiceScope; purpose: string; path: (nowMs: number) => string }[] = [
  { scope: 'entitlements:read', purpose: 'Read what a customer may use:', path: () => 'entitlements' },
  {
    scope: 'usage:read',
    purpose: 'Read what a customer has used this month:',
    path: (nowMs) => `usage?from=${dayOf(nowMs).slice(0, 7)}-01&to=${dayOf(nowMs + DAY_MS)}`,
  },
];

const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

const notices = { revoked: 'The service key is revoked. It fails on its next call, for every customer.' };

const idOf = (req: Request) => readPathId(req, 'id', 'service key');

/** The forms and their pages are those of API keys. */
export function serviceKeyPages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  const desk = createDesk(deps);
  // First, because `new` is no id.
  addCreation(router, deps, desk);
  addReadPages(router, deps, desk);
  addChanges(router, deps, desk);
  return router;
}

type Desk = ReturnType<typeof createDesk>;

function createDesk(deps: ConsoleDeps) {
  const { db, clock } = deps;
  const toView = (key: ServiceKey) => toShownKey(key, list, clock.now());
  const render = (req: Request, res: Response, view: string, title: string, data: object) =>
    renderPage(deps, req, res, { view, title, section: 'service-keys', notices }, data);
  return {
    toView,
    render,
    readKey: (req: Request) => getServiceKey(db.orm, idOf(req)),
    readCalls: (id: string, sinceMs: number) =>
      listServiceKeyCalls(db.orm, id, new Date(sinceMs), MAX_CUSTOMERS),
    showSecret: async (req: Request, res: Response, { key, secret }: NewServiceKey) => {
      beginSecretPage(res);
      const { customers } = await listCustomers(db.orm, clock.now(), { state: 'current' }, { limit: 1 });
      const example = examples.find(({ scope }) => key.scopes.includes(scope));
      return render(req, res, 'accounts/api-keys/secret', 'Service key created', {
        key: toView(key),
        holder: 'every customer, within its scopes',
        secret,
        previous: undefined,
        snippets: example && {
          purpose: example.purpose,
          samples: sampleRead(
            originOf(req),
            secret,
            `/service/organizations/${customers[0]?.slug ?? 'SLUG'}/${example.path(clock.now())}`,
          ),
        },
        lacksProduct: false,
      });
    },
  };
}

function addReadPages(
  router: Router,
  { db, clock }: ConsoleDeps,
  { toView, readKey, readCalls, render }: Desk,
): void {
  router.get('/service-keys', async (req, res) => {
    const { cursor } = parseQueryForm(cursorSchema, readQuery(req));
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const rows = await listServiceKeys(db.orm, { limit: PAGE_SIZE + 1, after });
    const { page: keys, nextCursor } = cutPage(rows, PAGE_SIZE, ({ id }) => encodeCursor(id));
    const pager = toPager(list.href, {}, { cursor, nextCursor });
    await render(req, res, 'console/service-keys', list.label, { keys: keys.map(toView), pager });
  });

  router.get('/service-keys/:id', async (req, res) => {
    const key = await readKey(req);
    const customers = await readCalls(key.id, Math.floor(clock.now() / DAY_MS) * DAY_MS);
    const neighbour = (id: string | null, prefix: string) => id && { href: `${list.href}/${id}`, prefix };
    await render(req, res, 'console/service-key', key.name, {
      key: toView(key),
      previous: neighbour(key.rotatedFromId, 'an earlier key'),
      successor: neighbour(key.successorId, 'a newer key'),
      customers,
      mostCustomers: MAX_CUSTOMERS,
      scopes: key.scopes.map((scope) => ({ scope, allows: whatScopeAllows(scope, true) })),
    });
  });
}

function addCreation(router: Router, deps: ConsoleDeps, { render, showSecret }: Desk): void {
  const { clock } = deps;
  addForm(router, '/service-keys/new', {
    before: [requireConfirmation(clock)],
    async act(req, res, fields) {
      const input = readKeyForm(serviceKeyInputSchema, fields, clock.now(), servicePresets);
      const made = await changeAsOperator(deps, req, res, (tx, source) =>
        createServiceKey(tx, input, source),
      );
      await showSecret(req, res, made);
    },
    show(req, res, form) {
      const id = newFormId(clock.now());
      return render(req, res, 'accounts/api-keys/new', 'New service key', {
        form: renewForm(
          {
            ...form,
            values: { ...keyFormValues(id), preset: servicePresets[0]!.value, expiry: '365', ...form.values },
          },
          id,
        ),
        list,
        action: `${list.href}/new`,
        presets: servicePresets,
        scopeGuide: serviceScopes.map((scope) => ({ scope, allows: serviceScopeAllows[scope] })),
        expiryChoices,
      });
    },
  });
}

function addChanges(router: Router, deps: ConsoleDeps, desk: Desk): void {
  const { clock } = deps;
  const { toView, readKey, render } = desk;
  const before = [requireConfirmation(clock)];

  addForm(router, '/service-keys/:id/rotate', {
    before,
    values: { grace: '60', graceMinutes: '' },
    async act(req, res, fields) {
      const grace = readGrace(fields);
      const made = await changeAsOperator(deps, req, res, (tx, source) =>
        rotateServiceKey(tx, idOf(req), grace, source),
      );
      await desk.showSecret(req, res, made);
    },
    async show(req, res, form) {
      const key = toView(await readKey(req));
      const data = { key: { ...key, hints: [] }, successor: undefined, form, graceChoices };
      await render(req, res, 'accounts/api-keys/rotate', `Rotate ${key.name}`, data);
    },
  });

  addForm(router, '/service-keys/:id/revoke', {
    before,
    async act(req, res) {
      const id = idOf(req);
      await changeAsOperator(deps, req, res, (tx, source) => revokeServiceKey(tx, id, source));
      res.redirect(303, toAddress(`${list.href}/${id}`, { done: 'revoked' }));
    },
    async show(req, res) {
      const key = toView(await readKey(req));
      const recent = recentUse(key.state);
      const used = await desk.readCalls(key.id, clock.now() - recent.ms);
      await render(req, res, 'accounts/api-keys/revoke', `Revoke ${key.name}`, {
        key,
        recent: recent.name,
        recentCalls: used.reduce((sum, { calls }) => sum + calls, 0),
        cutOver: undefined,
      });
    },
  });
}
