import type { Request, Response } from 'express';
import { readJsonBody, hasBody } from '../../core/http/body.js';
import type { Tx } from '../../core/db/client.js';
import type { Context } from '../../core/http/context.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { originOf } from '../../core/http/request.js';
import { parseExactly } from '../../core/http/validate.js';
import { defineRoute, json, type RouteDescription } from '../../core/reference/define-route.js';
import { preferKeyError, readHashedSecret } from '../api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../api-keys/key-use.js';
import { changeByKey } from '../api-keys/authority.js';
import { deletedResponses, operatorRoute } from '../identity/operator/define-route.js';
import { MAX_BODY_BYTES, sendDeleted } from '../identity/operator/http.js';
import { whereaboutsOf } from '../identity/session/session.js';
import { ofOrganization } from '../service-keys/routes.js';
import { createPortalSession, endPortalSessions, type NewPortalSession } from './portal.js';
import { portalSessionInputSchema, portalSessionSchema } from './schema.js';

type PortalDeps = CallDeps & Pick<Context, 'db' | 'clock'>;

const responses = { 201: json('The link.', portalSessionSchema) };

const toAnswer = (req: Request<object>, { path, expiresAt }: NewPortalSession) => ({
  url: originOf(req) + path,
  expiresAt,
});

const description = {
  ...ofOrganization,
  limit: 'service',
  scope: 'portal:create',
} satisfies Partial<RouteDescription>;

export const portalRoutes = [
  defineRoute({
    ...description,
    at: 'POST /service/organizations/{slug}/portal-sessions',
    operationId: 'createPortalSession',
    responses,
    body: { schema: portalSessionInputSchema, maxBytes: MAX_BODY_BYTES, isOptional: true },
    handler: (deps: PortalDeps) => async (req, res) => {
      const authenticate = () => authenticateVendor(deps, req, res);
      const input = await preferKeyError(authenticate, () => readInput(req, res));
      const { slug, source, serviceKeyId, change } = await authenticate();
      if (input.member !== undefined) await deps.keys.authenticate(readHashedSecret(req), 'portal:keys');
      const made = await change((tx) => createPortalSession(tx, slug, input, source, { serviceKeyId }));
      sendJson(res, 201, toJson(toAnswer(req, made)));
    },
  }),
  defineRoute({
    ...description,
    at: 'DELETE /service/organizations/{slug}/portal-sessions',
    operationId: 'endPortalSessions',
    responses: deletedResponses,
    handler: (deps: PortalDeps) => async (req, res) => {
      const { slug, source, change } = await authenticateVendor(deps, req, res);
      await change((tx) => endPortalSessions(tx, slug, source));
      sendDeleted(res);
    },
  }),
];

async function readInput(req: Request, res: Response) {
  const { value } = hasBody(req) ? await readJsonBody(req, res, MAX_BODY_BYTES) : { value: {} };
  return parseExactly(portalSessionInputSchema, value);
}

async function authenticateVendor(deps: PortalDeps, request: Request<object>, res: Response) {
  const req = request as Request;
  const { scope } = description;
  const key = await authenticateCall(deps, readHashedSecret(req), scope);
  const { serviceKeyId } = key;
  const source = { ...whereaboutsOf(req, res, deps.clock), actor: `service_key:${serviceKeyId}` };
  return {
    slug: String(req.params.slug),
    source,
    serviceKeyId,
    change: <T>(work: (tx: Tx) => Promise<T>) => changeByKey(deps, key, scope, work),
  };
}

const PATH = '/operator/organizations/{slug}/portal-sessions';

export const operatorPortalRoutes = [
  operatorRoute({
    at: `POST ${PATH}`,
    operationId: 'createCustomerPortalSession',
    body: portalSessionInputSchema,
    isBodyOptional: true,
    errors: ['not_found'],
    responses,
    async answer({ params: { slug }, input, change, req }) {
      return toAnswer(req, await change((tx, source) => createPortalSession(tx, slug, input, source)));
    },
  }),
  operatorRoute({
    at: `DELETE ${PATH}`,
    operationId: 'endCustomerPortalSessions',
    errors: ['not_found'],
    responses: deletedResponses,
    async answer({ params: { slug }, change }) {
      await change((tx, source) => endPortalSessions(tx, slug, source));
    },
  }),
];
