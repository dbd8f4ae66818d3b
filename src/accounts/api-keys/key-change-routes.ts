import type { Response } from 'express';
import { memberActor } from '../identity/session/authority.js';
import { requireRole } from '../identity/session/session.js';
import { managingRoles } from '../organizations/table.js';
import { hasBody, readJsonBody } from '../../core/http/body.js';
import { parseInput } from '../../core/http/validate.js';
import {
  defineRoute,
  type Example,
  type ExampleRequest,
  generated,
  json,
} from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import {
  createApiKey,
  type KeyDeps,
  type NewKey,
  revokeApiKey,
  rotateApiKey,
  toApiKeyJson,
  ChangesExhausted,
} from './api-keys.js';
import { readId, setBudgetHeaders } from './request.js';
import { common, idParams, keyView, notFoundExamples } from './routes.js';
import {
  apiKeyAnswerSchema,
  createApiKeySchema,
  MAX_BODY_BYTES,
  newApiKeySchema,
  rotateApiKeySchema,
  rotatedApiKeySchema,
} from './schema.js';

const DEFAULT_GRACE_MINUTES = 60;

const mayChange = requireRole(...managingRoles);

const { keys, now } = exampleWorld;

/** Example values that differ on every call. */
const made = {
  id: generated('019c13c7-9a00-7000-8000-4b1d0a6e2f90'),
  prefix: generated('org_live_q7W'),
  createdAt: now,
};
const madeSecret = generated('org_live_q7WzT0c1VvYkH3rM9eXbN5sJ2fLdA8uG');

const memberRefused = (request: ExampleRequest): Example =>
  problemExample('forbidden_role', {
    summary: 'A member may not change keys',
    detail: 'Only owners and admins can do this. Your role in Acme is member.',
    request: { ...request, credential: 'memberSession' },
  });

const limitDetail = generated('An Organization can create or rotate at most 10 API keys an hour.');

const newKey = {
  name: 'billing runtime',
  livemode: true,
  scopes: ['usage:write', 'usage:read', 'entitlements:read'],
  expiresAt: '2027-01-31T13:00:00+01:00',
};

const create = defineRoute({
  ...common,
  method: 'post',
  path: '/dashboard/api-keys',
  operationId: 'createApiKey',
  summary: 'Create an API key',
  description: `
For owners and admins. The secret is returned only in this response; Gauge stores only its SHA-256. The key works at once.

An Organization can create or rotate at most 10 keys within an hour, across all its members and all instances of the service; \`RateLimit\` has the number left. Refused
requests do not count.
`.trim(),
  limit: 'key-changes',
  body: { schema: createApiKeySchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    201: json('The new key and its secret.', newApiKeySchema),
  },
  examples: [
    {
      name: 'created',
      summary: 'A live key that expires in a year',
      request: { body: newKey },
      answer: {
        apiKey: {
          ...keyView('liveKey', 'active'),
          ...newKey,
          ...made,
          expiresAt: '2027-01-31T12:00:00.000Z',
        },
        secret: madeSecret,
      },
    },
    {
      name: 'createdWithDefaults',
      summary: 'The minimum',
      request: { body: { name: 'meter 2', livemode: true } },
      answer: { apiKey: { ...keyView('usageKey', 'active'), ...made, name: 'meter 2' }, secret: madeSecret },
    },
    problemExample('invalid_request', {
      summary: 'An expiry in the past',
      at: '/expiresAt',
      detail: 'must be in the future',
      request: { body: { ...newKey, expiresAt: '2026-01-01T00:00:00Z' } },
    }),
    problemExample('invalid_request', {
      name: 'noMarketAccess',
      summary: 'A market scope without access to markets',
      circumstance: 'no_market_access',
      at: '/scopes/0',
      detail: 'is not available: this Organization has no access to markets',
      request: { body: { ...newKey, scopes: ['trading:read'] } },
    }),
    problemExample('rate_limited', {
      summary: 'More than 10 changes within an hour',
      circumstance: 'limit_used_up',
      before: [{ body: newKey }],
      detail: limitDetail,
      request: { body: newKey },
    }),
    memberRefused({ body: newKey }),
  ],
  handler: (deps: KeyDeps) => [
    mayChange,
    async (req, res) => {
      const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
      const { expiresAt, ...input } = parseInput(createApiKeySchema, value);
      const { key, secret } = await withBudget(res, () =>
        createApiKey(deps, memberActor(req, res), {
          ...input,
          expiresAt: expiresAt ? new Date(expiresAt) : null,
        }),
      );
      res.status(201).json({ apiKey: toApiKeyJson(key, deps.clock.now()), secret });
    },
  ],
});

const rotation = { params: { id: keys.liveKey.id }, body: { graceMinutes: 120 } };
const rotatedLiveKey = {
  ...keyView('liveKey', 'grace'),
  expiresAt: '2026-01-31T14:00:00.000Z',
};

const rotate = defineRoute({
  ...common,
  method: 'post',
  path: '/dashboard/api-keys/{id}/rotate',
  operationId: 'rotateApiKey',
  summary: 'Rotate an API key',
  description: `
For owners and admins. Creates a new key with the name, scopes, mode and expiry of the old key. The old key has the state \`grace\` and stays valid for \`graceMinutes\`, or until its own
expiry if that comes first. \`graceMinutes: 0\` expires it with this request. The body is optional.

Counts towards the 10 keys an hour of the Organization. A key can be rotated once; after that, rotate its successor.
`.trim(),
  limit: 'key-changes',
  params: idParams,
  body: { schema: rotateApiKeySchema, isOptional: true, maxBytes: MAX_BODY_BYTES },
  responses: {
    201: json('The new key, its secret, and the old key.', rotatedApiKeySchema),
  },
  examples: [
    {
      name: 'rotated',
      summary: 'A grace period of two hours',
      request: { ...rotation },
      answer: {
        apiKey: { ...keyView('liveKey', 'active'), ...made, rotatedFromId: keys.liveKey.id },
        secret: madeSecret,
        previous: rotatedLiveKey,
      },
    },
    {
      name: 'rotatedWithDefaults',
      summary: 'A grace period of an hour',
      request: { params: rotation.params },
      answer: {
        apiKey: { ...keyView('liveKey', 'active'), ...made, rotatedFromId: keys.liveKey.id },
        secret: madeSecret,
        previous: { ...rotatedLiveKey, expiresAt: '2026-01-31T13:00:00.000Z' },
      },
    },
    invalidExample('A grace period of more than a week', { ...rotation, body: { graceMinutes: 10_081 } }),
    problemExample('key_not_active', {
      summary: 'A revoked key',
      detail: 'This API key is revoked. Create a new one.',
      request: { ...rotation, params: { id: keys.revokedKey.id } },
    }),
    problemExample('key_already_rotated', {
      summary: 'The second time',
      before: [{ ...rotation }],
      detail: 'This API key was already rotated. Rotate its successor.',
      request: { ...rotation },
    }),
    problemExample('rate_limited', {
      summary: 'More than 10 changes within an hour',
      circumstance: 'limit_used_up',
      before: [{ ...rotation }],
      detail: limitDetail,
      request: { ...rotation, params: { id: keys.testKey.id } },
    }),
    ...notFoundExamples({ body: rotation.body }),
    memberRefused(rotation),
  ],
  handler: (deps: KeyDeps) => [
    mayChange,
    async (req, res) => {
      const id = readId(req);
      const body = hasBody(req) ? (await readJsonBody(req, res, MAX_BODY_BYTES)).value : {};
      const { graceMinutes = DEFAULT_GRACE_MINUTES } = parseInput(rotateApiKeySchema, body);
      const { key, secret, previous } = await withBudget(res, () =>
        rotateApiKey(deps, memberActor(req, res), id, graceMinutes),
      );
      const now = deps.clock.now();
      res.status(201).json({
        apiKey: toApiKeyJson(key, now),
        secret,
        previous: toApiKeyJson(previous, now),
      });
    },
  ],
});

const revocation = { params: { id: keys.liveKey.id } };

const revoke = defineRoute({
  ...common,
  method: 'delete',
  path: '/dashboard/api-keys/{id}',
  operationId: 'revokeApiKey',
  summary: 'Revoke an API key',
  description:
    'For owners and admins. The key, active or in grace, stops working at the next request on every instance. This cannot be undone. Revoking a revoked key changes nothing: the response is the same and no audit row is written.',
  params: idParams,
  responses: {
    200: json('The revoked key.', apiKeyAnswerSchema),
  },
  examples: [
    {
      name: 'revoked',
      summary: 'Revoked now',
      request: { ...revocation },
      answer: { apiKey: { ...keyView('liveKey', 'revoked'), revokedAt: now } },
    },
    {
      name: 'revokedBefore',
      summary: 'Already revoked: nothing changes',
      request: { params: { id: keys.revokedKey.id } },
      answer: { apiKey: keyView('revokedKey', 'revoked') },
    },
    ...notFoundExamples({}),
    memberRefused(revocation),
  ],
  handler: (deps: KeyDeps) => [
    mayChange,
    async (req, res) => {
      const key = await revokeApiKey(deps, memberActor(req, res), readId(req));
      res.json({ apiKey: toApiKeyJson(key, deps.clock.now()) });
    },
  ],
});

export const keyChangeRoutes = [create, rotate, revoke];

/** Adds the budget headers to the response, whether the change succeeds or is refused. */
async function withBudget<T extends NewKey>(res: Response, change: () => Promise<T>): Promise<T> {
  try {
    const made = await change();
    setBudgetHeaders(res, made.budget);
    return made;
  } catch (error) {
    if (error instanceof ChangesExhausted) setBudgetHeaders(res, error.budget);
    throw error;
  }
}
