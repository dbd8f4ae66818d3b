import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { expiryChoices, graceChoices, readExpiry, readGrace } from '../accounts/api-keys/key-form.js';
import { serviceScopes, type ServiceScope } from '../accounts/api-keys/scopes.js';
import { serviceScopeAllows, stateBadges } from '../accounts/api-keys/view.js';
import { stateOf } from '../accounts/api-keys/api-keys.js';
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
import { parseInput } from '../core/http/validate.js';
import { decodeCursor, encodeCursor, newFormId } from '../core/ids.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { addForm, listField, parseQueryForm, readQuery, renewForm, textField } from '../core/pages/form.js';
import { pageRouter, renderPage } from '../core/pages/layout.js';
import { DAY_MS } from '../core/time.js';
import { addressOf, CONSOLE, PAGE_SIZE, type ConsoleDeps } from './page.js';

const SERVICE_KEYS = `${CONSOLE}/service-keys`;
const MAX_CUSTOMERS = 20;

const cursorSchema = z.object({ cursor: idCursorField });

const notices = { revoked: 'The service key is revoked. It fails on its next call, for every customer.' };

export function serviceKeyPages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  // First, because `new` is no id.
  addCreation(router, deps);
  addReadPages(router, deps);
  addChanges(router, deps);
  return router;
}

const page = (view: string, title: string) => ({
  view: `console/${view}`,
  title,
  section: 'service-keys',
  notices,
});

const idOf = (req: Request) => readPathId(req, 'id', 'service key');
const readKey = ({ db }: ConsoleDeps, req: Request) => getServiceKey(db.orm, idOf(req));

const readCallsToday = ({ db, clock }: ConsoleDeps, id: string) =>
  listServiceKeyCalls(db.orm, id, new Date(Math.floor(clock.now() / DAY_MS) * DAY_MS), MAX_CUSTOMERS);

function addReadPages(router: Router, deps: ConsoleDeps): void {
  const { db, clock } = deps;

  router.get('/service-keys', async (req, res) => {
    const { cursor } = parseQueryForm(cursorSchema, readQuery(req));
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const rows = await listServiceKeys(db.orm, { limit: PAGE_SIZE + 1, after });
    const { page: keys, nextCursor } = cutPage(rows, PAGE_SIZE, ({ id }) => encodeCursor(id));
    await renderPage(deps, req, res, page('service-keys', 'Service keys'), {
      keys: keys.map((key) => toView(key, clock.now())),
      pager: toPager(SERVICE_KEYS, {}, { cursor, nextCursor }),
    });
  });

  router.get('/service-keys/:id', async (req, res) => {
    const key = await readKey(deps, req);
    const customers = await readCallsToday(deps, key.id);
    await renderPage(deps, req, res, page('service-key', key.name), {
      key: toView(key, clock.now()),
      customers: customers.map((one) => ({ ...one, href: addressOf(one.slug) })),
      mostCustomers: MAX_CUSTOMERS,
      scopes: key.scopes.map((scope) => ({ scope, allows: serviceScopeAllows[scope as ServiceScope] })),
    });
  });
}

function addCreation(router: Router, deps: ConsoleDeps): void {
  const { clock } = deps;

  addForm(router, '/service-keys/new', {
    before: [requireConfirmation(clock)],
    async act(req, res, fields) {
      const { name, livemode, scopes } = parseInput(serviceKeyInputSchema, {
        name: textField(fields, 'name') ?? '',
        livemode: textField(fields, 'livemode') !== 'false',
        scopes: listField(fields, 'scopes'),
      });
      const id = textField(fields, 'id') ?? '';
      const input = { id, name, livemode, scopes, expiresAt: readExpiry(fields, clock.now()) };
      const made = await changeAsOperator(deps, req, res, (tx, source) =>
        createServiceKey(tx, input, source),
      );
      await showSecret(deps, req, res, made);
    },
    show(req, res, form) {
      const id = newFormId(clock.now());
      const values = { id, livemode: 'true', expiry: 'never', ...form.values };
      return renderPage(deps, req, res, page('new-service-key', 'New service key'), {
        form: renewForm({ ...form, values }, id),
        scopes: serviceScopes.map((scope) => ({ scope, allows: serviceScopeAllows[scope] })),
        expiryChoices: expiryChoices.filter(({ value }) => value !== 'at'),
      });
    },
  });
}

function addChanges(router: Router, deps: ConsoleDeps): void {
  const { clock } = deps;
  const before = [requireConfirmation(clock)];

  addForm(router, '/service-keys/:id/rotate', {
    before,
    async act(req, res, fields) {
      const grace = readGrace(fields);
      const made = await changeAsOperator(deps, req, res, (tx, source) =>
        rotateServiceKey(tx, idOf(req), grace, source),
      );
      await showSecret(deps, req, res, made);
    },
    async show(req, res, form) {
      const key = toView(await readKey(deps, req), clock.now());
      const values = { grace: '60', ...form.values };
      const choices = graceChoices.filter(({ value }) => value !== 'custom');
      const data = { key, form: { ...form, values }, graceChoices: choices };
      await renderPage(deps, req, res, page('rotate-service-key', `Rotate ${key.name}`), data);
    },
  });

  addForm(router, '/service-keys/:id/revoke', {
    before,
    async act(req, res) {
      const id = idOf(req);
      await changeAsOperator(deps, req, res, (tx, source) => revokeServiceKey(tx, id, source));
      res.redirect(303, toAddress(`${SERVICE_KEYS}/${id}`, { done: 'revoked' }));
    },
    async show(req, res, form) {
      const key = await readKey(deps, req);
      const data = { key: toView(key, clock.now()), form, customers: await readCallsToday(deps, key.id) };
      await renderPage(deps, req, res, page('revoke-service-key', `Revoke ${key.name}`), data);
    },
  });
}

async function showSecret(
  deps: ConsoleDeps,
  req: Request,
  res: Response,
  { key, secret }: NewServiceKey,
): Promise<void> {
  beginSecretPage(res);
  const data = { key: toView(key, deps.clock.now()), secret, origin: originOf(req) };
  await renderPage(deps, req, res, page('service-key-secret', 'Service key created'), data);
}

function toView(key: ServiceKey, nowMs: number) {
  const state = stateOf(key, nowMs);
  const badges = { badge: stateBadges[state], mode: key.livemode ? 'live' : 'test' };
  return { ...key, ...badges, state, prefix: `${key.prefix}…`, href: `${SERVICE_KEYS}/${key.id}` };
}
