import { eq } from 'drizzle-orm';
import { readHashedSecret } from './bearer-key.js';
import type { KeyReader } from './key-reader.js';
import type { Context } from '../core/http/context.js';
import { defineRoute, json } from '../core/reference/define-route.js';
import { exampleWorld } from '../core/reference/example-world.js';
import { organizations } from '../organizations/table.js';
import { requireKey, toApiKeyJson } from './api-keys.js';
import type { KeyUse } from './key-use.js';
import { keyView } from './routes.js';
import { ownKeySchema } from './schema.js';

interface OwnKeyDeps extends Pick<Context, 'db' | 'clock'> {
  keys: KeyReader;
  keyUse: KeyUse;
}

/** Any valid key asks about itself and its Organization. */
export const ownKeyRoute = defineRoute({
  method: 'get',
  path: '/api/key',
  operationId: 'getOwnApiKey',
  tag: 'API keys',
  summary: 'What am I?',
  description:
    'The metadata of the key that asks, and its Organization. The way for a runtime to check at its start that its key works, which mode it is in and when it ends.',
  credential: 'apiKey',
  scope: null,
  limit: 'bad-keys',
  responses: {
    200: json('The key and its Organization.', ownKeySchema),
  },
  examples: [
    {
      name: 'ownKey',
      summary: 'An active live key',
      request: {},
      answer: { apiKey: keyView('liveKey', 'active'), organization: exampleWorld.organization },
    },
  ],
  handler:
    ({ db, clock, keys, keyUse }: OwnKeyDeps) =>
    async (req, res) => {
      const hashedSecret = readHashedSecret(req);
      const { orgId, keyId } = await keys.authenticate(hashedSecret, null);
      const key = await requireKey(db.orm, orgId, keyId);
      const { id, slug, name } = organizations;
      const [organization] = await db.orm.select({ id, slug, name }).from(organizations).where(eq(id, orgId));
      keyUse.touch(hashedSecret, null);
      res.json({ apiKey: toApiKeyJson(key, clock.now()), organization });
    },
});
