import { z } from 'zod';
import {
  generated,
  type Example,
  type ExampleRequest,
  type RouteDescription,
} from '../core/reference/description.js';
import { exampleWorld } from '../core/reference/example-world.js';
import {
  apiKeyProblemExamples,
  apiKeyProblems,
  bodyProblemExamples,
  bodyProblems,
  problemExample,
  serviceProblemExamples,
  serviceProblems,
  sessionProblemExamples,
  sessionProblems,
} from '../core/reference/problem-examples.js';
import {
  apiKeyAnswerSchema,
  apiKeyListSchema,
  createApiKeySchema,
  listApiKeysSchema,
  MAX_BODY_BYTES,
  newApiKeySchema,
  ownKeySchema,
  rotateApiKeySchema,
  rotatedApiKeySchema,
} from './schema.js';

const { keys, organization, createdAt, users, now } = exampleWorld;

/** A key of the example world as answers show it. */
function keyView(name: keyof typeof keys, state: string) {
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

/** What is made in an example: its id and secret differ from call to call. */
const made = {
  id: generated('019c13c7-9a00-7000-8000-4b1d0a6e2f90'),
  prefix: generated('org_live_q7W'),
  createdAt: now,
};
const madeSecret = generated('org_live_q7WzT0c1VvYkH3rM9eXbN5sJ2fLdA8uG');

const ownKey: RouteDescription = {
  method: 'get',
  path: '/api/key',
  operationId: 'getOwnApiKey',
  tag: 'API keys',
  summary: 'What am I?',
  description:
    'The metadata of the key that asks, and its Organization. The way for a runtime to check at its start that its key works, which mode it is in and when it ends.',
  security: 'apiKey',
  scope: null,
  isLimited: true,
  responses: {
    200: { description: 'The key and its Organization.', content: { 'application/json': ownKeySchema } },
  },
  errors: [...apiKeyProblems(null), ...serviceProblems],
  examples: [
    {
      name: 'ownKey',
      summary: 'An active live key',
      request: { credential: 'liveKey' },
      response: { status: 200, body: { apiKey: keyView('liveKey', 'active'), organization } },
    },
    ...apiKeyProblemExamples({}, null),
    ...serviceProblemExamples({ credential: 'liveKey' }),
  ],
};

const common = { tag: 'API keys', security: 'session' } as const;

const list: RouteDescription = {
  ...common,
  method: 'get',
  path: '/dashboard/api-keys',
  operationId: 'listApiKeys',
  summary: 'List API keys',
  description:
    "The Organization's keys in every state, newest first; every member may read them. Never a secret. The headers say how many keys may still be made or rotated within the hour.",
  isLimited: true,
  query: listApiKeysSchema,
  responses: { 200: { description: 'A page of keys.', content: { 'application/json': apiKeyListSchema } } },
  errors: ['invalid_request', ...sessionProblems(false), ...serviceProblems],
  examples: [
    {
      name: 'list',
      summary: 'The first page, of two',
      request: { credential: 'memberSession', query: { limit: '2' } },
      response: {
        status: 200,
        body: {
          apiKeys: [keyView('revokedKey', 'revoked'), keyView('expiredKey', 'expired')],
          nextCursor: 'AZuNmmQAcACAAAAAAAAANQ',
        },
      },
    },
    problemExample('invalid_request', {
      summary: 'A cursor that no list gave out',
      detail: '/cursor must be a nextCursor of an earlier answer',
      errors: [
        { pointer: '/cursor', code: 'invalid_request', detail: 'must be a nextCursor of an earlier answer' },
      ],
      request: { credential: 'ownerSession', query: { cursor: '2' } },
    }),
    ...sessionProblemExamples({}, false),
    ...serviceProblemExamples({ credential: 'ownerSession' }),
  ],
};

const idParams = z.object({ id: z.string().meta({ description: 'The id of the key.' }) });

function notFoundExamples(request: Omit<ExampleRequest, 'credential'>): Example[] {
  const detail = 'There is no such API key.';
  return [
    problemExample('not_found', {
      summary: 'No such key',
      detail,
      request: { ...request, credential: 'ownerSession', params: { id: exampleWorld.unknownId } },
    }),
    problemExample('not_found', {
      name: 'keyOfAnother',
      summary: "Another Organization's key does not exist here",
      detail,
      request: { ...request, credential: 'ownerSession', params: { id: exampleWorld.otherKeyId } },
    }),
  ];
}

/** What every change of keys answers to whom it refuses. */
function changeProblemExamples(request: Omit<ExampleRequest, 'credential'>): Example[] {
  return [
    ...sessionProblemExamples(request, true),
    problemExample('forbidden_role', {
      summary: 'A member may not change keys',
      detail: 'You are member of Acme; this needs the role owner or admin.',
      request: { ...request, credential: 'memberSession' },
    }),
    ...serviceProblemExamples({ ...request, credential: 'ownerSession' }),
  ];
}

const limitDetail = generated('An Organization makes or rotates at most 10 API keys an hour.');

const one: RouteDescription = {
  ...common,
  method: 'get',
  path: '/dashboard/api-keys/{id}',
  operationId: 'getApiKey',
  summary: 'Read one API key',
  description: 'The metadata of a key, in whatever state it is; every member may read it. Never the secret.',
  params: idParams,
  responses: { 200: { description: 'The key.', content: { 'application/json': apiKeyAnswerSchema } } },
  errors: [...sessionProblems(false), 'not_found', ...serviceProblems],
  examples: [
    {
      name: 'key',
      summary: 'A test key',
      request: { credential: 'memberSession', params: { id: keys.testKey.id } },
      response: { status: 200, body: { apiKey: keyView('testKey', 'active') } },
    },
    ...notFoundExamples({}),
    ...sessionProblemExamples({ params: { id: keys.testKey.id } }, false),
    ...serviceProblemExamples({ credential: 'ownerSession', params: { id: keys.testKey.id } }),
  ],
};

const newKey = {
  name: 'billing runtime',
  livemode: true,
  scopes: ['usage:write', 'entitlements:read'],
  expiresAt: '2027-01-31T13:00:00+01:00',
};

const create: RouteDescription = {
  ...common,
  method: 'post',
  path: '/dashboard/api-keys',
  operationId: 'createApiKey',
  summary: 'Create an API key',
  description: `
For owners and admins. The secret is in this answer and in no other one; only its SHA-256 is stored. The key works from the next request on.

An Organization makes or rotates at most 10 keys within an hour, over all its people and all instances of the service; \`RateLimit\` says how many are left. A
refused request does not count.
`.trim(),
  isLimited: true,
  body: { schema: createApiKeySchema },
  responses: {
    201: { description: 'The new key and its secret.', content: { 'application/json': newApiKeySchema } },
  },
  errors: ['invalid_request', ...bodyProblems, ...sessionProblems(true), ...serviceProblems],
  examples: [
    {
      name: 'created',
      summary: 'A live key that ends in a year',
      request: { credential: 'ownerSession', body: newKey },
      response: {
        status: 201,
        body: {
          apiKey: {
            ...keyView('liveKey', 'active'),
            ...newKey,
            ...made,
            expiresAt: '2027-01-31T12:00:00.000Z',
          },
          secret: madeSecret,
        },
      },
    },
    {
      name: 'createdWithDefaults',
      summary: 'As little as is needed',
      request: { credential: 'ownerSession', body: { name: 'meter 2', livemode: true } },
      response: {
        status: 201,
        body: {
          apiKey: { ...keyView('usageKey', 'active'), ...made, name: 'meter 2' },
          secret: madeSecret,
        },
      },
    },
    problemExample('invalid_request', {
      summary: 'An expiry in the past',
      detail: '/expiresAt must lie in the future',
      errors: [{ pointer: '/expiresAt', code: 'invalid_request', detail: 'must lie in the future' }],
      request: { credential: 'ownerSession', body: { ...newKey, expiresAt: '2026-01-01T00:00:00Z' } },
    }),
    problemExample('rate_limited', {
      summary: 'More than 10 changes within an hour',
      circumstance: 'limit_used_up',
      before: [{ credential: 'ownerSession', body: newKey }],
      detail: limitDetail,
      request: { credential: 'ownerSession', body: newKey },
    }),
    ...bodyProblemExamples({ credential: 'ownerSession', body: newKey }, MAX_BODY_BYTES),
    ...changeProblemExamples({ body: newKey }),
  ],
};

const rotation = { params: { id: keys.liveKey.id }, body: { graceMinutes: 120 } };
const rotatedLiveKey = {
  ...keyView('liveKey', 'grace'),
  expiresAt: '2026-01-31T14:00:00.000Z',
};

const rotate: RouteDescription = {
  ...common,
  method: 'post',
  path: '/dashboard/api-keys/{id}/rotate',
  operationId: 'rotateApiKey',
  summary: 'Rotate an API key',
  description: `
For owners and admins. Makes a new key with the name, scopes, mode and expiry of the old one. The old key stays valid for \`graceMinutes\`, or until its own
expiry if that comes first; its state is \`grace\` until then, and \`graceMinutes: 0\` ends it with this request. The body may be left out.

Counts towards the 10 keys an hour of the Organization. A key is rotated once; after that, rotate its successor.
`.trim(),
  isLimited: true,
  params: idParams,
  body: { schema: rotateApiKeySchema, isOptional: true },
  responses: {
    201: {
      description: 'The new key, its secret, and the old key.',
      content: { 'application/json': rotatedApiKeySchema },
    },
  },
  errors: [
    'invalid_request',
    ...bodyProblems,
    ...sessionProblems(true),
    'not_found',
    'key_not_active',
    'key_already_rotated',
    ...serviceProblems,
  ],
  examples: [
    {
      name: 'rotated',
      summary: 'Two hours of grace',
      request: { credential: 'ownerSession', ...rotation },
      response: {
        status: 201,
        body: {
          apiKey: { ...keyView('liveKey', 'active'), ...made, rotatedFromId: keys.liveKey.id },
          secret: madeSecret,
          previous: rotatedLiveKey,
        },
      },
    },
    {
      name: 'rotatedWithDefaults',
      summary: 'An hour of grace',
      request: { credential: 'ownerSession', params: rotation.params },
      response: {
        status: 201,
        body: {
          apiKey: { ...keyView('liveKey', 'active'), ...made, rotatedFromId: keys.liveKey.id },
          secret: madeSecret,
          previous: { ...rotatedLiveKey, expiresAt: '2026-01-31T13:00:00.000Z' },
        },
      },
    },
    problemExample('invalid_request', {
      summary: 'More than a week of grace',
      detail: '/graceMinutes Too big: expected number to be <=10080',
      errors: [
        {
          pointer: '/graceMinutes',
          code: 'invalid_request',
          detail: 'Too big: expected number to be <=10080',
        },
      ],
      request: { credential: 'ownerSession', ...rotation, body: { graceMinutes: 10_081 } },
    }),
    problemExample('key_not_active', {
      summary: 'A revoked key',
      detail: 'This API key is revoked; create a new one.',
      request: { credential: 'ownerSession', ...rotation, params: { id: keys.revokedKey.id } },
    }),
    problemExample('key_already_rotated', {
      summary: 'The second time',
      before: [{ credential: 'ownerSession', ...rotation }],
      detail: 'This API key has been rotated; rotate its successor.',
      request: { credential: 'ownerSession', ...rotation },
    }),
    problemExample('rate_limited', {
      summary: 'More than 10 changes within an hour',
      circumstance: 'limit_used_up',
      before: [{ credential: 'ownerSession', ...rotation }],
      detail: limitDetail,
      request: { credential: 'ownerSession', ...rotation, params: { id: keys.testKey.id } },
    }),
    ...notFoundExamples({ body: rotation.body }),
    ...bodyProblemExamples({ credential: 'ownerSession', ...rotation }, MAX_BODY_BYTES),
    ...changeProblemExamples(rotation),
  ],
};

const revocation = { params: { id: keys.liveKey.id } };

const revoke: RouteDescription = {
  ...common,
  method: 'delete',
  path: '/dashboard/api-keys/{id}',
  operationId: 'revokeApiKey',
  summary: 'Revoke an API key',
  description:
    'For owners and admins. The key stops working with the next request, on every instance, in grace or not; that cannot be undone. A key that is revoked already stays as it is: the answer is the same and no audit row is written.',
  params: idParams,
  responses: {
    200: { description: 'The revoked key.', content: { 'application/json': apiKeyAnswerSchema } },
  },
  errors: [...sessionProblems(true), 'not_found', ...serviceProblems],
  examples: [
    {
      name: 'revoked',
      summary: 'Revoked now',
      request: { credential: 'ownerSession', ...revocation },
      response: {
        status: 200,
        body: { apiKey: { ...keyView('liveKey', 'revoked'), revokedAt: now } },
      },
    },
    {
      name: 'revokedBefore',
      summary: 'Revoked before: nothing changes',
      request: { credential: 'ownerSession', params: { id: keys.revokedKey.id } },
      response: { status: 200, body: { apiKey: keyView('revokedKey', 'revoked') } },
    },
    ...notFoundExamples({}),
    ...changeProblemExamples(revocation),
  ],
};

export const apiKeyDescriptions: RouteDescription[] = [ownKey, list, create, one, rotate, revoke];
