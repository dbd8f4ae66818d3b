import type { Request, Response, Router } from 'express';
import type { Orm } from '../../core/db/client.js';
import { parseInput } from '../../core/http/validate.js';
import { originOf, isUuid } from '../../core/http/request.js';
import {
  addForm,
  postForm,
  newForm,
  onlyForms,
  onlyPages,
  renewForm,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { beginSecretPage } from '../../core/http/headers.js';
import { renderPage } from '../../core/pages/layout.js';
import { languages, toSamples, type SampleRequest } from '../../core/reference/samples.js';
import { MINUTE_MS } from '../../core/time.js';
import { memberActor } from '../identity/session/authority.js';
import { requireRole, sessionOf } from '../identity/session/session.js';
import { managingRoles } from '../organizations/table.js';
import {
  KeyExists,
  createApiKey,
  renameApiKey,
  requireKey,
  revokeApiKey,
  rotateApiKey,
  scopesFor,
  type KeyDeps,
} from './api-keys.js';
import { newFormId } from '../../core/ids.js';
import {
  expiryChoices,
  graceChoices,
  keyFormValues,
  presetChoices,
  readGrace,
  readKeyForm,
} from './key-form.js';
import { recentUse } from './cut-over.js';
import type { KeyUse } from './key-use.js';
import { findKeyDetails, sumCalls, type KeyDetails, type KeyRow } from './queries.js';
import { SECTION, readId, requireOwnKeyDetails, showBudget } from './request.js';
import { createApiKeySchema, renameApiKeySchema } from './schema.js';
import { guideScopes, keyAddress, ownKeys, toKeyView } from './view.js';

const mayChange = requireRole(...managingRoles);

/** A first call with the new key, in each language. */
function makeSnippets(
  origin: string,
  { id, secret, scopes }: Pick<KeyRow, 'id' | 'scopes'> & { secret: string },
  product: { slug: string; usageMetric: string } | undefined,
  isRotated: boolean,
) {
  const request = requestWith(origin, secret);
  if (!scopes.includes('usage:write') || !product)
    return scopes.includes('entitlements:read') && !scopes.includes('usage:write')
      ? {
          purpose: 'Read what your Organization is entitled to:',
          samples: sampleRead(origin, secret, '/api/entitlements'),
        }
      : { purpose: 'Read what this key may do:', samples: sampleRead(origin, secret, '/api/key') };
  const { slug: productSlug, usageMetric: metric } = product;
  return {
    purpose: `${isRotated ? 'Send an event with the new key' : 'Send a first event'}. It adds 1 to ${metric} of ${productSlug}, and counts only once however often you send it.`,
    // Event keys are unique within the Organization, so the examples for each key and language differ.
    samples: sampleWith((language) => ({
      ...request,
      method: 'POST',
      path: '/api/usage/events',
      headers: { ...request.headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({
        events: [{ productSlug, metric, quantity: 1, idempotencyKey: `first-event-${language}-${id}` }],
      }),
    })),
  };
}

const requestWith = (origin: string, secret: string) => ({
  origin,
  headers: { Authorization: `Bearer ${secret}` },
  answers: 'json' as const,
});

export const sampleRead = (origin: string, secret: string, path: string) =>
  sampleWith(() => ({ ...requestWith(origin, secret), method: 'GET', path, body: '' }));

const sampleWith = (requestIn: (language: string) => SampleRequest) =>
  languages.map(({ id }) => {
    const { code, ...sample } = toSamples(requestIn(id)).find((sample) => sample.id === id)!;
    const hint = id === 'typescript' ? '// Save as first-call.mts and run: npx tsx first-call.mts\n' : '';
    return { ...sample, code: hint + code };
  });

export interface KeyPageDeps extends KeyDeps {
  keyUse: KeyUse;
  /** Undefined if the service does no metering. */
  findLiveProduct?(
    orm: Orm,
    orgId: string,
    now: Date,
  ): Promise<{ slug: string; usageMetric: string } | undefined>;
  /** This month’s, in words. Undefined if they are not known. */
  readKeyCredits?(deps: KeyDeps, orgId: string, key: KeyDetails): Promise<string | undefined>;
}

/** The form contains the new key's id, so submitting the form twice creates only one key. */
export function addCreatePages(router: Router, deps: KeyPageDeps): void {
  router.get('/api-keys/new', onlyPages, mayChange, async (req, res) => {
    const { orgId } = sessionOf(res);
    const { like } = req.query;
    const found = isUuid(like) ? await findKeyDetails(deps.db.orm, orgId, like) : undefined;
    const model = found?.serviceKeyId === null ? found : undefined;
    await showCreation(req, res, newForm(keyFormValues(newFormId(deps.clock.now()), model)));
  });

  const offeredTo = (res: Response) => scopesFor(deps.config, sessionOf(res));

  postForm(router, '/api-keys', {
    before: [onlyForms, mayChange],
    act: createFromForm,
    show: showCreation,
  });

  async function createFromForm(req: Request, res: Response, fields: FormFields): Promise<void> {
    try {
      const input = readKeyForm(createApiKeySchema, fields, deps.clock.now(), presetChoices(offeredTo(res)));
      const { key, secret } = await createApiKey(deps, memberActor(req, res), input);
      await showSecret(deps, req, res, { key, secret, previous: undefined });
    } catch (error) {
      if (!(error instanceof KeyExists)) throw error;
      res.redirect(303, `${keyAddress(error.keyId, req.baseUrl)}?done=exists`);
    }
  }

  async function showCreation(req: Request, res: Response, form: FormState): Promise<void> {
    const page = { view: 'accounts/api-keys/new', title: 'New API key', section: SECTION };
    const offered = offeredTo(res);
    await renderPage(deps, req, res, page, {
      form: renewForm(form, newFormId(deps.clock.now())),
      list: ownKeys(req.baseUrl),
      action: `${req.baseUrl}/api-keys`,
      budget: await showBudget(deps, res),
      presets: presetChoices(offered),
      scopeGuide: guideScopes(offered),
      expiryChoices,
    });
  }
}

export function addRotatePages(router: Router, deps: KeyPageDeps): void {
  addForm(router, '/api-keys/:id/rotate', {
    hasJson: true,
    before: [mayChange],
    values: { grace: '60', graceMinutes: '' },
    async act(req, res, fields) {
      const made = await rotateApiKey(deps, memberActor(req, res), readId(req), readGrace(fields));
      await showSecret(deps, req, res, made);
    },
    async show(req, res, form) {
      const key = await requireOwnKeyDetails(deps, sessionOf(res).orgId, readId(req));
      const view = toKeyView(key, new Set(key.scopes), deps.clock.now(), req.baseUrl);
      const page = { view: 'accounts/api-keys/rotate', title: `Rotate ${key.name}`, section: SECTION };
      await renderPage(deps, req, res, page, {
        key: view,
        successor: key.successorId === null ? undefined : { href: keyAddress(key.successorId, req.baseUrl) },
        form,
        graceChoices,
        budget: await showBudget(deps, res),
      });
    },
  });
}

export function addRenamePages(router: Router, deps: KeyDeps): void {
  addForm(router, '/api-keys/:id/rename', {
    hasJson: true,
    before: [mayChange],
    async act(req, res, fields) {
      const { name } = parseInput(renameApiKeySchema, fields);
      await renameApiKey(deps, memberActor(req, res), readId(req), name);
      res.redirect(303, `${keyAddress(readId(req), req.baseUrl)}?done=renamed`);
    },
    async show(req, res, form) {
      const key = await requireOwnKeyDetails(deps, sessionOf(res).orgId, readId(req));
      const page = { view: 'accounts/api-keys/rename', title: `Rename ${key.name}`, section: SECTION };
      await renderPage(deps, req, res, page, {
        key: toKeyView(key, new Set(key.scopes), deps.clock.now(), req.baseUrl),
        form: { ...form, values: { name: key.name, ...form.values } },
      });
    },
  });
}

export function addRevokePages(router: Router, deps: KeyPageDeps): void {
  router.get('/api-keys/:id/revoke', onlyPages, mayChange, async (req, res) => {
    const { orgId } = sessionOf(res);
    await deps.keyUse.flush();
    const key = await requireOwnKeyDetails(deps, orgId, readId(req));
    const now = deps.clock.now();
    const view = toKeyView(key, new Set(key.scopes), now, req.baseUrl);
    const recent = recentUse(view.state);
    const from = new Date(now - (now % MINUTE_MS) - recent.ms);
    const used = await sumCalls(deps.db.orm, orgId, [key.id], { from, stepMs: MINUTE_MS });
    const page = { view: 'accounts/api-keys/revoke', title: `Revoke ${key.name}`, section: SECTION };
    await renderPage(deps, req, res, page, {
      key: view,
      recent: recent.name,
      recentCalls: used.reduce((sum, { calls }) => sum + calls, 0),
      cutOver: key.successorId === null ? undefined : `${keyAddress(key.successorId, req.baseUrl)}/cut-over`,
    });
  });

  router.post('/api-keys/:id/revoke', mayChange, async (req, res) => {
    const id = readId(req);
    await revokeApiKey(deps, memberActor(req, res), id);
    const { successorId } = await requireKey(deps.db.orm, sessionOf(res).orgId, id);
    const next =
      successorId === null
        ? `${keyAddress(id, req.baseUrl)}?done=revoked`
        : `${keyAddress(successorId, req.baseUrl)}/cut-over`;
    res.redirect(303, next);
  });
}

/** Not cached, and not compressed because the compressed length could leak the secret. */
async function showSecret(
  deps: KeyPageDeps,
  req: Request,
  res: Response,
  { key, secret, previous }: { key: KeyRow; secret: string; previous: KeyRow | undefined },
): Promise<void> {
  const now = new Date(deps.clock.now());
  const product = await deps.findLiveProduct?.(deps.db.orm, sessionOf(res).orgId, now);
  const { id, name, scopes, livemode, expiresAt } = key;
  const isEnded = previous?.expiresAt != null && previous.expiresAt <= now;
  beginSecretPage(res);
  const page = {
    view: 'accounts/api-keys/secret',
    title: previous ? 'Key rotated' : 'Key created',
    section: SECTION,
  };
  await renderPage(deps, req, res, page, {
    key: {
      name,
      scopes,
      expiresAt,
      mode: livemode ? 'live' : 'test',
      href: keyAddress(id, req.baseUrl),
      list: ownKeys(req.baseUrl),
    },
    holder: 'your Organization',
    secret,
    previous: previous && { expiresAt: previous.expiresAt, isEnded },
    snippets: makeSnippets(originOf(req), { id, secret, scopes }, product, previous !== undefined),
    lacksProduct: product === undefined && scopes.includes('usage:write'),
  });
}
