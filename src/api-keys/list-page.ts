import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { sessionOf } from '../identity/session/session.js';
import { prefersHtml } from '../core/http/accepts.js';
import { parseInput, text } from '../core/http/validate.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { renderPage } from '../core/pages/layout.js';
import type { KeyDeps } from './api-keys.js';
import { decodeCursor, encodeCursor } from './cursor.js';
import { canManage, readUsedScopes, SECTION, showBudget } from './page-kit.js';
import { listKeyDetails, listKeyManagers } from './page-queries.js';
import { isSecretShaped } from './secret.js';
import { listApiKeysSchema } from './schema.js';
import { keyStates, toKeyView } from './views.js';

const PATH = '/dashboard/api-keys';
const PAGE_SIZE = 50;
const MAX_MANAGERS = 5;

/** What the list can be narrowed down to. */
const querySchema = z.object({
  state: z.enum(['active', 'grace', 'expired', 'revoked']).optional(),
  mode: z.enum(['live', 'test']).optional(),
  q: text(100).optional(),
  cursor: listApiKeysSchema.shape.cursor,
});

/** `GET /dashboard/api-keys` for a browser. */
export function addListPage(router: Router, deps: KeyDeps): void {
  router.get('/api-keys', async (req, res, next) => {
    if (!prefersHtml(req)) next('route');
    else await showList(deps, req, res);
  });
}

async function showList(deps: KeyDeps, req: Request, res: Response): Promise<void> {
  const { state, mode, q, cursor } = parseInput(querySchema, withoutEmpty(req.query));
  if (q !== undefined && isSecretShaped(q)) {
    // A secret that was pasted to find its key must not stay in the address.
    res.redirect(303, toAddress(PATH, { state, mode, q: q.slice(0, 12) }));
    return;
  }
  const { orgId } = sessionOf(res);
  const now = new Date(deps.clock.now());
  const rows = await listKeyDetails(deps.db.orm, orgId, {
    limit: PAGE_SIZE + 1,
    afterId: cursor === undefined ? undefined : decodeCursor(cursor),
    filter: { state, livemode: mode === undefined ? undefined : mode === 'live', search: q },
    now,
  });
  const page = rows.slice(0, PAGE_SIZE);
  const used = await readUsedScopes(deps, orgId, page);
  const isFiltered = state !== undefined || mode !== undefined || q !== undefined;
  const isEmpty = page.length === 0 && !isFiltered && cursor === undefined;
  const data = {
    canChange: canManage(res),
    budget: await showBudget(deps, res),
    keys: page.map((key) => toKeyView(key, used.get(key.id)!, now.getTime())),
    filter: { state: state ?? '', mode: mode ?? '', q: q ?? '' },
    states: keyStates,
    isFiltered,
    isEmpty,
    managers: isEmpty && !canManage(res) ? await listKeyManagers(deps.db.orm, orgId, MAX_MANAGERS) : [],
    pager: toPager(
      PATH,
      { state, mode, q },
      { cursor, nextCursor: rows.length > PAGE_SIZE ? encodeCursor(page.at(-1)!.id) : undefined },
    ),
  };
  await renderPage(deps, req, res, { view: 'api-keys/list', title: 'API keys', section: SECTION }, data);
}

/** A form sends its empty fields, too. */
const withoutEmpty = (query: object): object =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
