import { byOperator } from '../../../accounts/identity/session/authority.js';
import { findLimits } from '../queries.js';
import type { Context } from '../../../core/http/context.js';
import { json } from '../../../core/reference/define-route.js';
import { readServiceSwitch, readSwitch, changeSwitch, setServiceSwitch, setSwitch } from '../switches.js';
import {
  deletedResponses,
  operatorRoute,
  putResponses,
} from '../../../accounts/identity/operator/define-route.js';
import { answerPut, sourceOf } from '../../../accounts/identity/operator/http.js';
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
    at: `GET ${limitsPath}`,
    operationId: 'getTradingLimits',
    responses: { 200: json('The limits.', limitsAnswerSchema) },
    async answer({ params }, deps) {
      const { id } = await getOrganization(deps.db.orm, params.slug);
      return limitsJson(await findLimits(deps.db.orm, id));
    },
  }),
  operatorRoute({
    at: `PUT ${limitsPath}`,
    operationId: 'putTradingLimits',
    body: limitsSchema,
    responses: putResponses(limitsAnswerSchema),
    async answer({ params: { slug }, input, change, res }) {
      const put = await change((tx, source) => putLimits(tx, slug, readDeclared(input), source));
      return answerPut(res, put, limitsJson);
    },
  }),
  operatorRoute({
    at: `DELETE ${limitsPath}`,
    operationId: 'deleteTradingLimits',
    responses: deletedResponses,
    answer: ({ params, change }) => change((tx, source) => withdrawLimits(tx, params.slug, source)),
  }),
  operatorRoute({
    at: `GET ${switchPath}`,
    operationId: 'getTradingSwitch',
    responses: { 200: json('The switches.', switchAnswerSchema) },
    async answer({ params }, deps) {
      const { id } = await getOrganization(deps.db.orm, params.slug);
      return readSwitch(deps.db.orm, id);
    },
  }),
  operatorRoute({
    at: `PUT ${switchPath}`,
    operationId: 'putTradingSwitch',
    body: switchSchema,
    responses: { 200: json('The current switches.', switchAnswerSchema) },
    answer({ params, input: { state, reason = null }, req, res }, deps: SwitchDeps) {
      const source = sourceOf(req, res, deps.clock);
      return changeSwitch(deps, byOperator(res), async (tx) => {
        const { id } = await getLockedOrganization(tx, params.slug);
        await setSwitch(tx, id, 'operator', { state, reason }, source);
        return readSwitch(tx, id);
      });
    },
  }),
  operatorRoute({
    at: `GET ${servicePath}`,
    operationId: 'getServiceTradingSwitch',
    responses: { 200: json('The switch.', serviceSwitchAnswerSchema) },
    answer: (_call, deps) => readServiceSwitch(deps.db.orm),
  }),
  operatorRoute({
    at: `PUT ${servicePath}`,
    operationId: 'putServiceTradingSwitch',
    body: switchSchema,
    responses: { 200: json('The current switches.', serviceSwitchAnswerSchema) },
    answer({ input: { state, reason = null }, req, res }, deps: SwitchDeps) {
      const source = sourceOf(req, res, deps.clock);
      return changeSwitch(deps, byOperator(res), (tx) => setServiceSwitch(tx, { state, reason }, source));
    },
  }),
];
