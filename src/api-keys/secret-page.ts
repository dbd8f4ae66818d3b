import type { Request, Response } from 'express';
import { sessionOf } from '../identity/session/session.js';
import { originOf } from '../core/http/own-origin.js';
import { renderPage } from '../core/pages/layout.js';
import type { KeyDeps } from './api-keys.js';
import { SECTION } from './page-kit.js';
import { findLiveProduct } from './page-queries.js';
import type { KeyRow } from './queries.js';
import { makeSnippets } from './snippets.js';
import { keyAddress } from './views.js';

/**
 * Answers with a new key and its secret, the only time that it is shown. The answer is kept nowhere, and it is not
 * compressed: the length of a compressed page says something about what is in it.
 */
export async function showSecret(
  deps: KeyDeps,
  req: Request,
  res: Response,
  { key, secret, previous }: { key: KeyRow; secret: string; previous: KeyRow | undefined },
): Promise<void> {
  const now = new Date(deps.clock.now());
  const product = await findLiveProduct(deps.db.orm, sessionOf(res).orgId, now);
  const { id, name, scopes, livemode, expiresAt } = key;
  const isEnded = previous?.expiresAt != null && previous.expiresAt <= now;
  res.status(201).setHeader('Cache-Control', 'no-store, no-transform');
  await renderPage(
    deps,
    req,
    res,
    { view: 'api-keys/secret', title: previous ? 'Key rotated' : 'Key made', section: SECTION },
    {
      key: { name, scopes, livemode, expiresAt, href: keyAddress(id) },
      secret,
      previous: previous && { expiresAt: previous.expiresAt, isEnded },
      snippets: makeSnippets(originOf(req), { id, secret, scopes }, product),
      lacksProduct: product === undefined && scopes.includes('usage:write'),
    },
  );
}
