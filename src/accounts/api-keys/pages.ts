import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { newForm, onlyPages, readQuery } from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { groupBy } from '../../core/collections.js';
import { toTrend } from '../../core/charts/trend.js';
import { formatCount } from '../../core/pages/format.js';
import { HOUR_MS } from '../../core/time.js';
import { sessionOf } from '../identity/session/session.js';
import type { KeyDeps } from './api-keys.js';
import {
  addCreatePages,
  addRenamePages,
  addRevokePages,
  addRotatePages,
  type KeyPageDeps,
} from './change-pages.js';
import { makeCallChart, readCutOver, startOfStep } from './cut-over.js';
import { decodeCursor, encodeCursor } from '../../core/ids.js';
import {
  countKeys,
  listKeyDetails,
  listKeyManagers,
  listScopeUse,
  sumCalls,
  sumRefusals,
  type KeyDetails,
  type KeyFilter,
  watchKey,
} from './queries.js';
import { canManage, readId, readUsedScopes, requireKeyDetails, SECTION, showBudget } from './request.js';
import { GATHERED_MS } from './key-use.js';
import { listApiKeysSchema } from './schema.js';
import { isSecretShaped } from './bearer-key.js';
import { keyAddress, keyStates, showPrefix, toKeyView, whatScopeAllows, type KeyList } from './view.js';

export function apiKeyPages(deps: KeyPageDeps): Router {
  const router = pageRouter();
  router.get('/api-keys', onlyPages, (req, res) => showList(deps, req, res));
  addCreatePages(router, deps);
  addRotatePages(router, deps);
  addRevokePages(router, deps);
  addRenamePages(router, deps);
  addKeyPages(router, deps);
  return router;
}

const PAGE_SIZE = 50;

const MAX_MANAGERS = 5;

const querySchema = z.object({
  state: z.enum(['active', 'grace', 'expired', 'revoked']).optional(),
  mode: z.enum(['live', 'test']).optional(),
  q: text(100).optional(),
  cursor: listApiKeysSchema.shape.cursor,
  before: listApiKeysSchema.shape.cursor,
});

async function showList(deps: KeyDeps, req: Request, res: Response): Promise<void> {
  const path = `${req.baseUrl}/api-keys`;
  const { state, mode, q, cursor, before } = parseInput(querySchema, readQuery(req));
  if (q !== undefined && isSecretShaped(q)) {
    // A secret pasted into the search must not stay in the URL.
    res.redirect(303, toAddress(path, { state, mode, q: q.slice(0, 12) }));
    return;
  }
  const { orgId } = sessionOf(res);
  const now = new Date(deps.clock.now());
  const filter = { state, livemode: mode === undefined ? undefined : mode === 'live', search: q };
  const page = await readPage(deps.db.orm, orgId, { cursor, before, filter, now });
  const count = await countKeys(deps.db.orm, orgId, { filter, now, firstId: page[0]?.id });
  const used = await readUsedScopes(deps, orgId, page);
  const trendOf = await readTrends(deps.db.orm, orgId, page, now.getTime());
  const isFiltered = state !== undefined || mode !== undefined || q !== undefined;
  const isEmpty = count.total === 0 && !isFiltered;
  const last = count.newer + page.length;
  const kept = { state, mode, q };
  const first = count.newer > 0 ? encodeCursor(page[0]!.id) : undefined;
  const nextCursor = last < count.total && page.length > 0 ? encodeCursor(page.at(-1)!.id) : undefined;
  const data = {
    canChange: canManage(res),
    budget: await showBudget(deps, res),
    keys: page.map((key) => ({
      ...toKeyView(key, used.get(key.id)!, now.getTime(), req.baseUrl),
      ...trendOf(key),
    })),
    form: newForm({ state: state ?? '', mode: mode ?? '', q: q ?? '' }),
    states: keyStates,
    isFiltered,
    isEmpty,
    managers: isEmpty && !canManage(res) ? await listKeyManagers(deps.db.orm, orgId, MAX_MANAGERS) : [],
    pager: {
      ...toPager(path, kept, { cursor: first, nextCursor }),
      previous: first && toAddress(path, { ...kept, before: first }),
      position: page.length > 0 ? { first: count.newer + 1, last, total: count.total } : undefined,
    },
  };
  const shown = { view: 'accounts/api-keys/list', title: 'API keys', section: SECTION };
  await renderPage(deps, req, res, shown, data);
}

const TREND_HOURS = 24;

async function readTrends(orm: Orm, orgId: string, keys: KeyDetails[], nowMs: number) {
  const fromMs = startOfStep(nowMs, HOUR_MS) - (TREND_HOURS - 1) * HOUR_MS;
  const asked = { from: new Date(fromMs), stepMs: HOUR_MS };
  const ids = keys.map(({ id }) => id);
  const found = ids.length === 0 ? [] : await sumCalls(orm, orgId, ids, asked);
  const byKey = groupBy(found, ({ keyId }) => keyId);
  return ({ id }: KeyDetails) => {
    const values = Array<number>(TREND_HOURS).fill(0);
    for (const { startMs, calls } of byKey.get(id) ?? []) values[(startMs - fromMs) / HOUR_MS]! += calls;
    const calls = values.reduce((sum, value) => sum + value, 0);
    return { calls, trend: toTrend(`${formatCount(calls, 'call')} in the last 24 hours, by hour`, values) };
  };
}

async function readPage(
  orm: Orm,
  orgId: string,
  {
    cursor,
    before,
    ...asked
  }: { cursor: string | undefined; before: string | undefined; filter: KeyFilter; now: Date },
): Promise<KeyDetails[]> {
  const list = (place: { afterId?: string; beforeId?: string }) =>
    listKeyDetails(orm, orgId, { ...asked, limit: PAGE_SIZE, ...place });
  if (before !== undefined) {
    const page = await list({ beforeId: decodeCursor(before) });
    return page.length < PAGE_SIZE ? list({}) : page;
  }
  return list(cursor === undefined ? {} : { afterId: decodeCursor(cursor) });
}

const ranges = {
  day: { label: 'Last 24 hours', hours: 24, stepMs: HOUR_MS },
  week: { label: 'Last 7 days', hours: 7 * 24, stepMs: 6 * HOUR_MS },
} as const;

const keyNotices = {
  renamed: 'The key was renamed.',
  revoked: 'The key is revoked. Calls with it fail from now on.',
  exists:
    'This form already created this key, and its secret was shown once. If you did not see the secret, rotate the key. To create another key, open a new form.',
};

function addKeyPages(router: Router, deps: KeyPageDeps): void {
  router.get('/api-keys/:id', onlyPages, (req, res) => showKey(deps, req, res));

  router.get('/api-keys/:id/cut-over', onlyPages, async (req, res) => {
    const { orgId } = sessionOf(res);
    // The keys and their counts must include the same calls.
    await deps.keyUse.flush();
    const key = await requireKeyDetails(deps, orgId, readId(req));
    if (key.rotatedFromId === null) {
      if (key.successorId === null)
        throw new AppError('not_found', 'This API key did not replace another key, so there is no cut-over.');
      res.redirect(303, `${keyAddress(key.successorId, req.baseUrl)}/cut-over`);
      return;
    }
    const old = await requireKeyDetails(deps, orgId, key.rotatedFromId);
    const now = deps.clock.now();
    await watchKey(deps.db.orm, orgId, key.id, new Date(now));
    const cutOver = await readCutOver(deps.db.orm, orgId, { old, successor: key }, now);
    const title = `Switch ${key.name} to the new key`;
    const page = { view: 'accounts/api-keys/cut-over', title, section: SECTION };
    await renderPage(deps, req, res, page, {
      key: toKeyView(key, new Set(key.scopes), now, req.baseUrl),
      old: toKeyView(old, new Set(old.scopes), now, req.baseUrl),
      cutOver,
      canChange: canManage(res),
    });
  });
}

async function showKey(deps: KeyPageDeps, req: Request, res: Response): Promise<void> {
  const { orgId } = sessionOf(res);
  const key = await requireKeyDetails(deps, orgId, readId(req));
  const now = deps.clock.now();
  const range = req.query.range === 'week' ? 'week' : 'day';
  const { stepMs, hours } = ranges[range];
  const fromMs = startOfStep(now, stepMs) - hours * HOUR_MS + stepMs;
  const calls = await sumCalls(deps.db.orm, orgId, [key.id], { from: new Date(fromMs), stepMs });
  const refused = await sumRefusals(deps.db.orm, orgId, key.id, new Date(fromMs));
  const used = await listScopeUse(deps.db.orm, orgId, [key.id]);
  const view = toKeyView(key, new Set(used.map(({ scope }) => scope)), now, req.baseUrl);
  const page = { view: 'accounts/api-keys/key', title: key.name, section: SECTION, notices: keyNotices };
  await renderPage(deps, req, res, page, {
    key: view,
    canChange: canManage(res),
    scopeUse: key.scopes.map((scope) => ({
      scope,
      allows: whatScopeAllows(scope, key.serviceKeyId !== null),
      ...(used.find((use) => use.scope === scope) ?? { calls: 0, lastUsedAt: null }),
    })),
    chart: makeCallChart([{ id: key.id, label: 'Accepted calls' }], calls, { fromMs, toMs: now, stepMs }),
    refused,
    isCounted: isCounted(key, now),
    ranges: Object.entries(ranges).map(([value, { label }]) => ({
      href: value === 'day' ? view.href : `${view.href}?range=${value}`,
      label,
      isCurrent: value === range,
    })),
    previous: toNeighbour(view.list, key.rotatedFromId, key.previousPrefix, key.id),
    successor: toNeighbour(view.list, key.successorId, key.successorPrefix, key.successorId),
    // A portal shows no usage by key.
    usage: sessionOf(res).portal
      ? undefined
      : {
          href: toAddress('/dashboard/usage', { key: key.id, mode: key.livemode ? 'live' : 'test' }),
          credits: await deps.readKeyCredits?.(deps, orgId, key),
        },
  });
}

/** A new key's first calls may not have been written yet. */
const isCounted = ({ createdAt }: KeyDetails, nowMs: number): boolean =>
  nowMs - createdAt.getTime() >= GATHERED_MS;

/** @param newId of the two, the one that has the page of their cut-over */
const toNeighbour = ({ href }: KeyList, id: string | null, prefix: string | null, newId: string | null) =>
  id === null || prefix === null
    ? undefined
    : { href: `${href}/${id}`, prefix: showPrefix(prefix), cutOver: `${href}/${newId}/cut-over` };
