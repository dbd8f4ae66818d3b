import type { Request, Response } from 'express';
import { changeByKey } from '../../accounts/api-keys/authority.js';
import { readHashedSecret } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import type { Tx } from '../../core/db/client.js';
import type { Context } from '../../core/http/context.js';
import { readJsonBody } from '../../core/http/body.js';
import { exact, sendJson, toJson } from '../../core/http/json.js';
import { parseInput, requireFew } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { toExactDecimals } from '../entitlements/exact-number.js';
import { operatorRoute } from '../../accounts/identity/operator/define-route.js';
import { changeAsOperator, readSlug } from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import { whereaboutsOf } from '../../accounts/identity/session/session.js';
import { correctEvents, type AppliedCorrections, type Correction } from './corrections.js';
import { correctedSchema, correctionsSchema, MAX_BODY_BYTES, MAX_CORRECTIONS } from './schema.js';

export const correctionRoutes = [
  defineRoute({
    at: 'POST /api/usage/corrections',
    operationId: 'correctUsage',
    tag: 'Usage',
    credential: 'apiKey',
    scope: 'usage:correct',
    limit: 'usage',
    body: { schema: correctionsSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 200: json('Corrected, durably.', correctedSchema) },
    handler: (deps: CallDeps & Pick<Context, 'db' | 'clock'>) => async (req, res) => {
      const key = await authenticateCall(deps, readHashedSecret(req), 'usage:correct');
      const { orgId, keyId, livemode, serviceKeyId } = key;
      const corrections = await readCorrections(req, res);
      const source = { ...whereaboutsOf(req, res, deps.clock), actor: `api_key:${keyId}` };
      const by = serviceKeyId === null ? 'key' : 'service';
      const work = (tx: Tx) => correctEvents(tx, { orgId, livemode, by, corrections }, source);
      sendCorrected(res, await changeByKey(deps, key, 'usage:correct', work));
    },
  }),
];

export const operatorCorrectionRoutes = [
  operatorRoute({
    at: 'POST /operator/organizations/{slug}/usage/corrections',
    operationId: 'correctCustomerUsage',
    body: correctionsSchema,
    maxBytes: MAX_BODY_BYTES,
    responses: { 200: json('Corrected, durably.', correctedSchema) },
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const corrections = await readCorrections(req, res);
      const corrected = await changeAsOperator(deps, req, res, async (tx, source) => {
        const { id: orgId } = await getOrganization(tx, slug);
        return correctEvents(tx, { orgId, livemode: undefined, by: 'operator', corrections }, source);
      });
      sendCorrected(res, corrected);
    },
  }),
];

async function readCorrections(req: Request, res: Response): Promise<Correction[]> {
  const { value, text } = await readJsonBody(req, res, MAX_BODY_BYTES);
  const sent = (value as { corrections?: unknown } | null)?.corrections;
  requireFew(sent, 'A request can have', MAX_CORRECTIONS, 'corrections');
  const { corrections } = parseInput(correctionsSchema, value);
  const quantities = toExactDecimals(text, 'corrections', 'quantity');
  return corrections.map((one, i) => ({ ...one, quantity: quantities[i]! }));
}

function sendCorrected(res: Response, { results, ...counts }: AppliedCorrections): void {
  const exactResults = results.map((result) => ({
    ...result,
    previousQuantity: exact(result.previousQuantity),
    quantity: exact(result.quantity),
  }));
  sendJson(res, 200, toJson({ ...counts, results: exactResults }));
}
