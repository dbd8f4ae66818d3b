import { eq } from 'drizzle-orm';
import { z } from 'zod';
import type { Context } from '../../core/http/context.js';
import { parseInput } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { sessionOf } from '../identity/session/session.js';
import { organizations } from '../organizations/table.js';
import { readChangeBudget, requireKey, toApiKeyJson, type KeyDeps } from './api-keys.js';
import { readHashedSecret } from './bearer-key.js';
import { decodeCursor, encodeCursor } from '../../core/ids.js';
import type { CallDeps } from './key-use.js';
import { listKeys } from './queries.js';
import { readId, setBudgetHeaders } from './request.js';
import { apiKeyAnswerSchema, apiKeyListSchema, listApiKeysSchema, ownKeySchema } from './schema.js';

const PAGE_SIZE = 100;

export const common = { tag: 'API keys', credential: 'session' } as const;

const list = defineRoute({
  ...common,
  at: 'GET /dashboard/api-keys',
  operationId: 'listApiKeys',
  limit: 'key-changes',
  query: listApiKeysSchema,
  responses: { 200: json('A page of keys.', apiKeyListSchema) },
  handler: (deps: KeyDeps) => async (req, res) => {
    const { orgId } = sessionOf(res);
    const { limit, cursor } = parseInput(listApiKeysSchema, req.query);
    const size = Number(limit ?? PAGE_SIZE);
    const rows = await listKeys(deps.db.orm, orgId, {
      limit: size + 1,
      ...(cursor === undefined ? {} : { afterId: decodeCursor(cursor) }),
    });
    const { page, nextCursor = null } = cutPage(rows, size, ({ id }) => encodeCursor(id));
    const now = deps.clock.now();
    const { keyChangesPerHour } = deps.config.limits;
    setBudgetHeaders(res, await readChangeBudget(deps.db.orm, orgId, now, keyChangesPerHour));
    res.json({ apiKeys: page.map((key) => toApiKeyJson(key, now)), nextCursor });
  },
});

export const idParams = z.object({ id: z.string().meta({ description: 'The id of the key.' }) });

const one = defineRoute({
  ...common,
  at: 'GET /dashboard/api-keys/{id}',
  operationId: 'getApiKey',
  params: idParams,
  responses: { 200: json('The key.', apiKeyAnswerSchema) },
  handler: (deps: KeyDeps) => async (req, res) => {
    const key = await requireKey(deps.db.orm, sessionOf(res).orgId, readId(req));
    res.json({ apiKey: toApiKeyJson(key, deps.clock.now()) });
  },
});

export const apiKeyReadRoutes = [list, one];

export const ownKeyRoute = defineRoute({
  at: 'GET /api/key',
  operationId: 'getOwnApiKey',
  tag: 'API keys',
  credential: 'apiKey',
  scope: null,
  limit: 'bad-keys',
  responses: {
    200: json('The key and its Organization.', ownKeySchema),
  },
  handler: (deps: CallDeps & Pick<Context, 'db' | 'clock'>) => async (req, res) => {
    const { db, clock, keys, keyUse } = deps;
    const hashedSecret = readHashedSecret(req);
    const { orgId, keyId } = await keys.authenticate(hashedSecret, null);
    const key = await requireKey(db.orm, orgId, keyId);
    const { id, slug, name } = organizations;
    const [organization] = await db.orm.select({ id, slug, name }).from(organizations).where(eq(id, orgId));
    keyUse.touch(hashedSecret, null);
    res.json({ apiKey: toApiKeyJson(key, clock.now()), organization });
  },
});
