import type { Request, Response } from 'express';
import { byOperator } from '../../../accounts/identity/session/authority.js';
import { change } from '../../../accounts/audit/audit.js';
import { readJsonBody } from '../../../core/http/body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import { findLimits } from '../queries.js';
import type { Context } from '../../../core/http/context.js';
import { json } from '../../../core/reference/define-route.js';
import { invalidExample, problemExample } from '../../../core/reference/problem-examples.js';
import { readServiceSwitch, readSwitch, changeSwitch, setServiceSwitch, setSwitch } from '../switches.js';
import {
  deletedResponses,
  notFoundExample,
  now,
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
const acme = { params: { slug: 'acme' } };
const unknown = { params: { slug: 'initech' } };
const noOrganization = 'There is no Organization "initech".';

const binds =
  'Each order reads it in the transaction that writes the order, so it takes effect on the next order, on every instance. An order in progress is not reversed.';
const switchBinds =
  'Each order reads it in the transaction that writes the order, and a live order again before it is sent, so it takes effect on the next order sent, on every instance. An order already sent to the venue is not recalled.';

const undeclared = limitsJson(undefined);
const tighter = { maxOrderContracts: 100, maxDailyLoss: '50' };
const tight = { maxOrderContracts: 100, maxDailyLoss: '50.0000' };
const declared = {
  effective: { ...undeclared.effective, ...tight },
  declared: { ...undeclared.declared, ...tight },
  updatedAt: now,
};

const untouched = { state: 'open', reason: null, changedAt: null };
const allOpen = {
  state: 'open',
  service: untouched,
  operator: untouched,
  own: { ...untouched, by: null },
};
const halt = { state: 'halt', reason: 'Unexplained fills, under investigation.' };
const operatorPut = { credential: 'operator' as const, ...acme, body: halt };
const noReason = 'is required unless the state is open';
const noReasonExample = (params: { params?: Record<string, string> }) =>
  problemExample('invalid_request', {
    summary: 'Closed without a reason',
    at: '/reason',
    detail: noReason,
    request: { ...params, body: { state: 'halt' } },
  });

export const tradingControlRoutes = [
  operatorRoute({
    method: 'get',
    path: limitsPath,
    operationId: 'getTradingLimits',
    summary: "Read an Organization's risk limits",
    description:
      'The limits on its orders, separately for paper and live mode. `effective` has the limits that apply: the declared values, or the default where `declared` is `null`.',
    responses: { 200: json('The limits.', limitsAnswerSchema) },
    examples: [
      {
        name: 'defaults',
        summary: 'Nothing was declared',
        request: { ...acme },
        answer: undeclared,
      },
      notFoundExample(noOrganization, unknown),
    ],
    handler: (deps) => async (req, res) => {
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      sendJson(res, 200, toJson(limitsJson(await findLimits(deps.db.orm, id))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: limitsPath,
    operationId: 'putTradingLimits',
    summary: "Declare an Organization's risk limits",
    description: `Replaces all limits; a missing or \`null\` limit is the default. A limit of 0 refuses everything that it limits, and a \`priceCollar\` of 0 every price beyond the best. Orders that only reduce positions are never refused for \`maxOrderCost\`, \`maxPositionContracts\`, \`maxEventLoss\` or \`maxDailyLoss\`. An order beyond a limit gets 422 \`risk_limit\`; its \`detail\` begins with the limit's name. ${binds}`,
    body: limitsSchema,
    responses: putResponses(limitsAnswerSchema),
    examples: [
      {
        name: 'declared',
        summary: 'Two tighter limits, and the defaults for the rest',
        request: { ...acme, body: tighter },
        status: 201,
        answer: declared,
      },
      {
        name: 'again',
        summary: 'The same limits again: nothing changes',
        before: [{ ...acme, body: tighter }],
        request: { ...acme, body: tighter },
        answer: declared,
      },
      invalidExample('An amount that is not text', { ...acme, body: { maxDailyLoss: 50 } }),
      notFoundExample(noOrganization, { ...unknown, body: tighter }),
    ],
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
    summary: "Withdraw an Organization's risk limits",
    description: `Restores the defaults. ${binds}`,
    responses: deletedResponses,
    good: { ...acme },
    examples: [
      { name: 'withdrawn', summary: 'The defaults apply again', request: { params: { slug: 'globex' } } },
      notFoundExample('No limits were declared for the Organization "acme".', acme),
    ],
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
    summary: "Read an Organization's kill switch",
    description:
      "Three switches apply to the orders of an Organization: the service's, the operator's for this Organization, and its own. The strictest applies, in paper and live mode.",
    responses: { 200: json('The switches.', switchAnswerSchema) },
    examples: [
      { name: 'open', summary: 'All are open', request: { ...acme }, answer: allOpen },
      notFoundExample(noOrganization, unknown),
    ],
    handler: (deps) => async (req, res) => {
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      sendJson(res, 200, toJson(await readSwitch(deps.db.orm, id)));
    },
  }),
  operatorRoute({
    method: 'put',
    path: switchPath,
    operationId: 'putTradingSwitch',
    summary: "Set the operator's kill switch of an Organization",
    description: `\`halt\` refuses every order of the Organization with 422 \`risk_limit\`; \`reduce_only\` refuses all orders except sales of held contracts and purchases that close pairs. The Organization can see the state and reason but cannot change this switch; it has its own switch. ${switchBinds}`,
    body: switchSchema,
    responses: { 200: json('The current switches.', switchAnswerSchema) },
    examples: [
      {
        name: 'halted',
        summary: 'Halt all orders',
        request: operatorPut,
        answer: { ...allOpen, state: 'halt', operator: { ...halt, changedAt: now } },
      },
      {
        name: 'opened',
        summary: 'Open again',
        before: [operatorPut],
        request: { ...acme, body: { state: 'open' } },
        answer: { ...allOpen, operator: { state: 'open', reason: null, changedAt: now } },
      },
      noReasonExample(acme),
      notFoundExample(noOrganization, { ...unknown, body: halt }),
    ],
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
    summary: 'Read the kill switch of the whole service',
    description: 'The switch that applies to the orders of every Organization.',
    responses: { 200: json('The switch.', serviceSwitchAnswerSchema) },
    examples: [{ name: 'open', summary: 'Never set', request: {}, answer: untouched }],
    handler: (deps) => async (_req, res) => {
      sendJson(res, 200, toJson(await readServiceSwitch(deps.db.orm)));
    },
  }),
  operatorRoute({
    method: 'put',
    path: servicePath,
    operationId: 'putServiceTradingSwitch',
    summary: 'Set the kill switch of the whole service',
    description: `For every Organization, in paper and live mode: \`halt\` refuses every order; \`reduce_only\` refuses all orders that do not reduce a position. ${switchBinds}`,
    body: switchSchema,
    responses: { 200: json('The current switches.', serviceSwitchAnswerSchema) },
    examples: [
      {
        name: 'halted',
        summary: 'Halt all orders',
        request: { body: halt },
        answer: { ...halt, changedAt: now },
      },
      noReasonExample({}),
    ],
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
