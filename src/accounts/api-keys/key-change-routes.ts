import type { Response } from 'express';
import { memberActor } from '../identity/session/authority.js';
import { requireRole } from '../identity/session/session.js';
import { managingRoles } from '../organizations/table.js';
import { hasBody, readJsonBody } from '../../core/http/body.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
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
import { common, idParams } from './routes.js';
import {
  apiKeyAnswerSchema,
  createApiKeySchema,
  DEFAULT_GRACE_MINUTES,
  MAX_BODY_BYTES,
  newApiKeySchema,
  rotateApiKeySchema,
  rotatedApiKeySchema,
} from './schema.js';

const mayChange = requireRole(...managingRoles);

const create = defineRoute({
  ...common,
  at: 'POST /dashboard/api-keys',
  operationId: 'createApiKey',
  limit: 'key-changes',
  body: { schema: createApiKeySchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    201: json('The new key and its secret.', newApiKeySchema),
  },
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

const rotate = defineRoute({
  ...common,
  at: 'POST /dashboard/api-keys/{id}/rotate',
  operationId: 'rotateApiKey',
  limit: 'key-changes',
  params: idParams,
  body: { schema: rotateApiKeySchema, isOptional: true, maxBytes: MAX_BODY_BYTES },
  responses: {
    201: json('The new key, its secret, and the old key.', rotatedApiKeySchema),
  },
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

const revoke = defineRoute({
  ...common,
  at: 'DELETE /dashboard/api-keys/{id}',
  operationId: 'revokeApiKey',
  params: idParams,
  responses: {
    200: json('The revoked key.', apiKeyAnswerSchema),
  },
  handler: (deps: KeyDeps) => [
    mayChange,
    async (req, res) => {
      const key = await revokeApiKey(deps, memberActor(req, res), readId(req));
      res.json({ apiKey: toApiKeyJson(key, deps.clock.now()) });
    },
  ],
});

export const keyChangeRoutes = [create, rotate, revoke];

/** Sets the headers whether the change succeeds or is refused. */
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
