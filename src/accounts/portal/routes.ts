import type { Request, Response } from 'express';
import { readJsonBody, hasBody } from '../../core/http/body.js';
import type { Context } from '../../core/http/context.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { originOf } from '../../core/http/request.js';
import { parseExactly } from '../../core/http/validate.js';
import { defineRoute, json, type RouteDescription } from '../../core/reference/define-route.js';
import { preferKeyError, readHashedSecret } from '../api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../api-keys/key-use.js';
import { change, byService } from '../audit/audit.js';
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
  path: '/service/organizations/{slug}/portal-sessions',
  limit: 'service',
  scope: 'portal:create',
} satisfies Partial<RouteDescription>;

export const portalRoutes = [
  defineRoute({
    ...description,
    method: 'post',
    operationId: 'createPortalSession',
    responses,
    body: { schema: portalSessionInputSchema, maxBytes: MAX_BODY_BYTES, isOptional: true },
    handler: (deps: PortalDeps) => async (req, res) => {
      const authenticate = () => authenticateCall(deps, readHashedSecret(req), 'portal:create');
      const input = await preferKeyError(authenticate, () => readInput(req, res));
      const { organization, ...source } = await readAuthor(deps, req, res, authenticate);
      if (input.member !== undefined) await authenticateCall(deps, readHashedSecret(req), 'portal:keys');
      const made = await change(deps, byService, (tx) =>
        createPortalSession(tx, organization, input, source),
      );
      sendJson(res, 201, toJson(toAnswer(req, made)));
    },
  }),
  defineRoute({
    ...description,
    method: 'delete',
    operationId: 'endPortalSessions',
    responses: deletedResponses,
    handler: (deps: PortalDeps) => async (req, res) => {
      const authenticate = () => authenticateCall(deps, readHashedSecret(req), 'portal:create');
      const { organization, ...source } = await readAuthor(deps, req, res, authenticate);
      await change(deps, byService, (tx) => endPortalSessions(tx, organization, source));
      sendDeleted(res);
    },
  }),
];

async function readInput(req: Request, res: Response) {
  const { value } = hasBody(req) ? await readJsonBody(req, res, MAX_BODY_BYTES) : { value: {} };
  return parseExactly(portalSessionInputSchema, value);
}

async function readAuthor(
  { clock }: PortalDeps,
  req: Request,
  res: Response,
  authenticate: () => ReturnType<typeof authenticateCall>,
) {
  const { organization, serviceKeyId } = await authenticate();
  return {
    ...whereaboutsOf(req, res, clock),
    organization,
    serviceKeyId,
    actor: `service_key:${serviceKeyId}`,
  };
}

const PATH = '/operator/organizations/{slug}/portal-sessions';

export const operatorPortalRoutes = [
  operatorRoute({
    method: 'post',
    path: PATH,
    operationId: 'createCustomerPortalSession',
    body: portalSessionInputSchema,
    isBodyOptional: true,
    errors: ['not_found'],
    responses,
    async answer({ params: { slug }, input, change, req }) {
      const made = await change((tx, source) =>
        createPortalSession(tx, slug, input, { ...source, serviceKeyId: null }),
      );
      return toAnswer(req, made);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: PATH,
    operationId: 'endCustomerPortalSessions',
    errors: ['not_found'],
    responses: deletedResponses,
    async answer({ params: { slug }, change }) {
      await change((tx, source) => endPortalSessions(tx, slug, source));
    },
  }),
];
