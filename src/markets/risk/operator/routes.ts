import type { Request, Response } from 'express';
import { byOperator } from '../../../accounts/identity/session/authority.js';
import { change } from '../../../accounts/audit/audit.js';
import { readJsonBody } from '../../../core/http/body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import { findLimits } from '../queries.js';
import type { Context } from '../../../core/http/context.js';
import { json } from '../../../core/reference/define-route.js';
import { readServiceSwitch, readSwitch, changeSwitch, setServiceSwitch, setSwitch } from '../switches.js';
import {
  deletedResponses,
  operatorRoute,
  putResponses,
} from '../../../accounts/identity/operator/define-route.js';
import {
  MAX_BODY_BYTES,
  readSlug,
  sendDeleted,
  sendPut,
  sourceOf,
} from '../../../accounts/identity/operator/http.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../../accounts/identity/organizations/organizations.js';
import { limitsJson, putLimits, readDeclared, withdrawLimits } from './limits.js';
import {
  limitsAnswerSchema,
  limitsSchema,
  serviceSwitchAnswerSchema,
  switchAnswerSchema,
  switchSchema,
} from './schema.js';

type SwitchDeps = Context & Parameters<typeof changeSwitch>[0];

const limitsPath = '/operator/organizations/{slug}/trading/limits';
const switchPath = '/operator/organizations/{slug}/trading/switch';
const servicePath = '/operator/trading/switch';

export const tradingControlRoutes = [
  operatorRoute({
    method: 'get',
    path: limitsPath,
    operationId: 'getTradingLimits',
    responses: { 200: json('The limits.', limitsAnswerSchema) },
    handler: (deps) => async (req, res) => {
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      sendJson(res, 200, toJson(limitsJson(await findLimits(deps.db.orm, id))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: limitsPath,
    operationId: 'putTradingLimits',
    body: limitsSchema,
    responses: putResponses(limitsAnswerSchema),
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
      const declared = readDeclared(parseExactly(limitsSchema, value));
      const source = sourceOf(req, res, deps.clock);
      sendPut(
        res,
        await change(deps, byOperator(res), (tx) => putLimits(tx, slug, declared, source)),
        limitsJson,
      );
    },
  }),
  operatorRoute({
    method: 'delete',
    path: limitsPath,
    operationId: 'deleteTradingLimits',
    responses: deletedResponses,
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const source = sourceOf(req, res, deps.clock);
      await change(deps, byOperator(res), (tx) => withdrawLimits(tx, slug, source));
      sendDeleted(res);
    },
  }),
  operatorRoute({
    method: 'get',
    path: switchPath,
    operationId: 'getTradingSwitch',
    responses: { 200: json('The switches.', switchAnswerSchema) },
    handler: (deps) => async (req, res) => {
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      sendJson(res, 200, toJson(await readSwitch(deps.db.orm, id)));
    },
  }),
  operatorRoute({
    method: 'put',
    path: switchPath,
    operationId: 'putTradingSwitch',
    body: switchSchema,
    responses: { 200: json('The current switches.', switchAnswerSchema) },
    handler: (deps: SwitchDeps) => async (req, res) => {
      const slug = readSlug(req);
      const input = await readSwitchInput(req, res);
      const source = sourceOf(req, res, deps.clock);
      const view = await changeSwitch(deps, byOperator(res), async (tx) => {
        const { id } = await getLockedOrganization(tx, slug);
        await setSwitch(tx, id, 'operator', input, source);
        return readSwitch(tx, id);
      });
      sendJson(res, 200, toJson(view));
    },
  }),
  operatorRoute({
    method: 'get',
    path: servicePath,
    operationId: 'getServiceTradingSwitch',
    responses: { 200: json('The switch.', serviceSwitchAnswerSchema) },
    handler: (deps) => async (_req, res) => {
      sendJson(res, 200, toJson(await readServiceSwitch(deps.db.orm)));
    },
  }),
  operatorRoute({
    method: 'put',
    path: servicePath,
    operationId: 'putServiceTradingSwitch',
    body: switchSchema,
    responses: { 200: json('The current switches.', serviceSwitchAnswerSchema) },
    handler: (deps: SwitchDeps) => async (req, res) => {
      const input = await readSwitchInput(req, res);
      const source = sourceOf(req, res, deps.clock);
      const part = await changeSwitch(deps, byOperator(res), (tx) => setServiceSwitch(tx, input, source));
      sendJson(res, 200, toJson(part));
    },
  }),
];

async function readSwitchInput(req: Request, res: Response) {
  const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
  const { state, reason } = parseExactly(switchSchema, value);
  return { state, reason: reason ?? null };
}
