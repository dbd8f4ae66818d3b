import type { RouteDescription } from '../openapi/description.js';
import { exampleWorld } from '../openapi/example-world.js';
import {
  apiKeyProblemExamples,
  apiKeyProblems,
  serviceProblemExamples,
  serviceProblems,
} from '../openapi/problem-examples.js';
import { ownKeySchema } from './answer-schema.js';

const { keys, organization, createdAt, users } = exampleWorld;

const liveKey = {
  id: keys.liveKey.id,
  name: keys.liveKey.name,
  prefix: keys.liveKey.secret.slice(0, 12),
  scopes: keys.liveKey.scopes,
  livemode: true,
  state: 'active',
  lastUsedAt: null,
  expiresAt: null,
  revokedAt: null,
  createdAt,
  createdBy: users.owner.id,
  rotatedFromId: null,
};

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
  responses: {
    200: { description: 'The key and its Organization.', content: { 'application/json': ownKeySchema } },
  },
  errors: [...apiKeyProblems(null), ...serviceProblems],
  examples: [
    {
      name: 'ownKey',
      summary: 'An active live key',
      request: { credential: 'liveKey' },
      response: { status: 200, body: { apiKey: liveKey, organization } },
    },
    ...apiKeyProblemExamples({}, null),
    ...serviceProblemExamples({ credential: 'liveKey' }),
  ],
};

export const apiKeyDescriptions: RouteDescription[] = [ownKey];
