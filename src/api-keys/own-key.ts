import { eq } from 'drizzle-orm';
import type { RequestHandler, Router } from 'express';
import { readHashedSecret } from './bearer-key.js';
import type { KeyReader } from './key-reader.js';
import type { Context } from '../core/http/context.js';
import { organizations } from '../organizations/table.js';
import { requireKey } from './api-keys.js';
import { toApiKeyJson } from './key-json.js';
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
    const { id, slug, name } = organizations;
    const [organization] = await db.orm.select({ id, slug, name }).from(organizations).where(eq(id, orgId));
    keyUse.touch(hashedSecret, null);
    res.json({ apiKey: toApiKeyJson(key, clock.now()), organization });
  });
}
