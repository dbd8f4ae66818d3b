import { and, eq, sql } from 'drizzle-orm';
import { Router, type RequestHandler } from 'express';
import { readHashedSecret } from '../auth/bearer-key.js';
import type { KeyReader } from '../auth/key-reader.js';
import type { Context } from '../context.js';
import { organizations } from '../organizations/table.js';
import type { KeyUse } from './key-use.js';
import { apiKeys } from './table.js';
import { toApiKeyView } from './view.js';

/** `GET /api/key`: any valid key asks about itself and its Organization. */
export function ownKeyRoutes(
  { db, clock }: Context,
  { keys, keyUse, guard }: { keys: KeyReader; keyUse: KeyUse; guard: RequestHandler },
): Router {
  const router = Router();
  router.get('/key', guard, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const { orgId, keyId } = await keys.authenticate(hashedSecret, null);
    const successor = sql<boolean>`exists (select 1 from api_keys s where s.org_id = ${apiKeys.orgId} and s.rotated_from_id = ${apiKeys.id})`;
    const [row] = await db.orm
      .select({
        key: apiKeys,
        hasSuccessor: successor,
        organization: { id: organizations.id, slug: organizations.slug, name: organizations.name },
      })
      .from(apiKeys)
      .innerJoin(organizations, eq(organizations.id, apiKeys.orgId))
      .where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, keyId)));
    keyUse.touch(hashedSecret);
    res.json({
      apiKey: toApiKeyView(row!.key, row!.hasSuccessor, clock.now()),
      organization: row!.organization,
    });
  });
  return router;
}
