import { eq } from 'drizzle-orm';
import { z } from 'zod';
import type { Context } from '../../core/http/context.js';
import { parseInput } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { defineRoute, json, type Example, type ExampleRequest } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { sessionOf } from '../identity/session/session.js';
import { organizations } from '../organizations/table.js';
import { readChangeBudget, requireKey, toApiKeyJson, type KeyDeps } from './api-keys.js';
import { readHashedSecret, type KeyReader } from './bearer-key.js';
import { decodeCursor, encodeCursor } from '../../core/ids.js';
import type { KeyUse } from './key-use.js';
import { listKeys } from './queries.js';
import { readId, setBudgetHeaders } from './request.js';
import { apiKeyAnswerSchema, apiKeyListSchema, listApiKeysSchema, ownKeySchema } from './schema.js';

const PAGE_SIZE = 100;
const { keys, createdAt, users } = exampleWorld;

export function keyView(name: keyof typeof keys, state: string) {
  const { id, name: label, secret, scopes, expiresAt, revokedAt } = keys[name];
  return {
    id,
    name: label,
    prefix: secret.slice(0, 12),
    scopes,
    livemode: secret.startsWith('org_live_'),
    state,
    lastUsedAt: null,
    expiresAt,
    revokedAt,
    createdAt,
    createdBy: users.owner.id,
    rotatedFromId: null,
  };
}

export const common = { tag: 'API keys', credential: 'session' } as const;

const list = defineRoute({
  ...common,
  method: 'get',
  path: '/dashboard/api-keys',
  operationId: 'listApiKeys',
  summary: 'List API keys',
  description:
    "The Organization's keys in every state, newest first, without secrets. Every member can read them. The headers show how many more keys can be created or rotated in this hour.",
  limit: 'key-changes',
  query: listApiKeysSchema,
  responses: { 200: json('A page of keys.', apiKeyListSchema) },
  good: {},
  examples: [
    {
      name: 'list',
      summary: 'The first page, of two',
      request: { credential: 'memberSession', query: { limit: '2' } },
      answer: {
        apiKeys: [keyView('revokedKey', 'revoked'), keyView('expiredKey', 'expired')],
        nextCursor: 'AZuNmmQAcACAAAAAAAAANQ',
      },
    },
    invalidExample('An invalid cursor', { query: { cursor: '2' } }),
  ],
  handler:
    ({ db, clock, config }: KeyDeps) =>
    async (req, res) => {
      const { orgId } = sessionOf(res);
      const { limit, cursor } = parseInput(listApiKeysSchema, req.query);
      const size = Number(limit ?? PAGE_SIZE);
      const rows = await listKeys(db.orm, orgId, {
        limit: size + 1,
        ...(cursor === undefined ? {} : { afterId: decodeCursor(cursor) }),
      });
      const { page, nextCursor = null } = cutPage(rows, size, ({ id }) => encodeCursor(id));
      const now = clock.now();
      setBudgetHeaders(res, await readChangeBudget(db.orm, orgId, now, config.limits.keyChangesPerHour));
      res.json({ apiKeys: page.map((key) => toApiKeyJson(key, now)), nextCursor });
    },
});

export const idParams = z.object({ id: z.string().meta({ description: 'The id of the key.' }) });

export function notFoundExamples(request: ExampleRequest): Example[] {
  const detail = 'There is no such API key.';
  return [
    problemExample('not_found', {
      summary: 'No such key',
      detail,
      request: { ...request, params: { id: exampleWorld.unknownId } },
    }),
    problemExample('not_found', {
      name: 'keyOfAnother',
      summary: "Another Organization's key",
      detail,
      request: { ...request, params: { id: exampleWorld.otherKeyId } },
    }),
  ];
}

const one = defineRoute({
  ...common,
  method: 'get',
  path: '/dashboard/api-keys/{id}',
  operationId: 'getApiKey',
  summary: 'Read one API key',
  description: 'The metadata of a key in any state, without its secret. Every member can read it.',
  params: idParams,
  responses: { 200: json('The key.', apiKeyAnswerSchema) },
  good: { params: { id: keys.testKey.id } },
  examples: [
    {
      name: 'key',
      summary: 'A test key',
      request: { credential: 'memberSession', params: { id: keys.testKey.id } },
      answer: { apiKey: keyView('testKey', 'active') },
    },
    ...notFoundExamples({}),
  ],
  handler:
    ({ db, clock }: KeyDeps) =>
    async (req, res) => {
      const key = await requireKey(db.orm, sessionOf(res).orgId, readId(req));
      res.json({ apiKey: toApiKeyJson(key, clock.now()) });
    },
});

export const apiKeyReadRoutes = [list, one];

interface OwnKeyDeps extends Pick<Context, 'db' | 'clock'> {
  keys: KeyReader;
  keyUse: KeyUse;
}

export const ownKeyRoute = defineRoute({
  method: 'get',
  path: '/api/key',
  operationId: 'getOwnApiKey',
  python: ['print(gauge.api_key())'],
  tag: 'API keys',
  summary: 'Read the calling key',
  description:
    'The metadata of the calling key, and its Organization. A runtime can use it at startup to check that its key works, its mode and its expiry.',
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
