import type { RequestHandler, Router } from 'express';
import type { Context } from '../core/http/context.js';
import { findOrganization } from '../identity/organizations/queries.js';
import { requireKey, toApiKeyJson } from './api-keys.js';
import { readHashedSecret } from './bearer-key.js';
import type { KeyReader } from './key-reader.js';
import type { KeyUse } from './key-use.js';

/** `GET /api/key`: any valid key asks about itself and its Organization. */
export function addOwnKeyRoute(
  router: Router,
  { db, clock }: Context,
  { keys, keyUse, guard }: { keys: KeyReader; keyUse: KeyUse; guard: RequestHandler },
): void {
  router.get('/key', guard, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const { orgId, keyId } = await keys.authenticate(hashedSecret, null);
    const key = await requireKey(db.orm, orgId, keyId);
    const { id, slug, name } = (await findOrganization(db.orm, { id: orgId }))!;
    keyUse.touch(hashedSecret, null);
    res.json({ apiKey: toApiKeyJson(key, clock.now()), organization: { id, slug, name } });
  });
}
