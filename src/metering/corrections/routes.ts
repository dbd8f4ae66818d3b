import type { Request, Response } from 'express';
import { keyAuthority } from '../../accounts/api-keys/authority.js';
import { readHashedSecret } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { change } from '../../accounts/audit/audit.js';
import type { Context } from '../../core/http/context.js';
import { readJsonBody } from '../../core/http/body.js';
import { exact, sendJson, toJson } from '../../core/http/json.js';
import { parseInput, requireFew } from '../../core/http/validate.js';
import { defineRoute, json, repeated } from '../../core/reference/define-route.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { toExactDecimals } from '../entitlements/exact-number.js';
import { notFoundExample, operatorRoute } from '../../accounts/identity/operator/define-route.js';
import { changeAsOperator, readSlug } from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import { whereaboutsOf } from '../../accounts/identity/session/session.js';
import { lockOrganizationId } from '../../accounts/organizations/table.js';
import {
  correctEvents,
  MAX_AGE_DAYS,
  MAX_TIMES,
  mayNotCorrect,
  type Corrected,
  type Correction,
} from './corrections.js';
import { correctedSchema, correctionsSchema, MAX_BODY_BYTES, MAX_CORRECTIONS } from './schema.js';

type CorrectionDeps = CallDeps & Pick<Context, 'db' | 'clock'>;

const correction = {
  idempotencyKey: 'first',
  quantity: 40,
  reason: 'The runtime sent one zero too many',
  correctionKey: 'ticket-1201',
};
const body = { corrections: [correction] };
const withChanges = (changed: object) => ({ corrections: [{ ...correction, ...changed }] });
const result = { idempotencyKey: 'first', previousQuantity: 400, quantity: 40 };

const rules = `
**A correction does not change the recorded event.** A repeat of the event's idempotency key is still compared with the event as sent. The correction changes the counted quantity in the event's own
hour and month, in the same commit: totals, caps, limits, reports and exports include it when the response arrives. The number of events stays the same, even with a quantity of 0.

**All or nothing.** If any correction breaks a rule, none is made; \`errors\` lists all of them. Several corrections of one event in a request are applied in order.

**Retries.** A repeated \`correctionKey\` is counted as \`deduped\` and changes nothing; with another event, quantity or reason it is \`idempotency_conflict\` (409). Without a response, or after a
5xx, send the request again unchanged.

Events of archived months get \`event_not_found\`, like keys that were never recorded. Each request that changes something writes one entry to the audit log.
`.trim();

const lead = 'Nothing was corrected.';

const examplesOf = (params?: { slug: string }) => {
  const path = params ? { params } : {};
  return [
    {
      name: 'corrected',
      summary: 'An event that counted too much',
      request: { ...path, body },
      answer: { applied: 1, deduped: 0, results: [result] },
    },
    {
      name: 'voided',
      summary: 'An event that should not have been recorded',
      request: {
        ...path,
        body: withChanges({ quantity: 0, reason: 'A load test', correctionKey: 'ticket-1202' }),
      },
      answer: { applied: 1, deduped: 0, results: [{ ...result, quantity: 0 }] },
    },
    {
      name: 'repeated',
      summary: 'The same request again',
      before: [{ ...path, body }],
      request: { ...path, body },
      answer: { applied: 0, deduped: 1, results: [result] },
    },
    problemExample('event_not_found', {
      summary: 'An event that was not recorded',
      at: '/corrections/0/idempotencyKey',
      index: 0,
      lead,
      detail: 'No event req-7f3a was recorded.',
      request: { ...path, body: withChanges({ idempotencyKey: 'req-7f3a' }) },
    }),
    problemExample('idempotency_conflict', {
      summary: 'The key of another correction',
      at: '/corrections/0/correctionKey',
      index: 0,
      lead,
      detail: 'The correction key ticket-1201 was used for another correction.',
      before: [{ ...path, body }],
      request: { ...path, body: withChanges({ quantity: 30 }) },
    }),
    problemExample('quantity_out_of_range', {
      summary: 'More than an event can count',
      at: '/corrections/0/quantity',
      index: 0,
      lead,
      detail: 'An event of the product api-calls can count at most 1000000000000000.',
      request: { ...path, body: withChanges({ quantity: 1e18 }) },
    }),
    invalidExample('No reason', { ...path, body: withChanges({ reason: '' }) }),
    problemExample('batch_too_large', {
      summary: `${MAX_CORRECTIONS + 1} corrections (one is shown)`,
      detail: `A request can have at most ${MAX_CORRECTIONS} corrections. This one has ${MAX_CORRECTIONS + 1}.`,
      request: { ...path, body: { corrections: repeated(MAX_CORRECTIONS + 1, () => correction) } },
    }),
  ];
};

export const correctionRoutes = [
  defineRoute({
    method: 'post',
    path: '/api/usage/corrections',
    operationId: 'correctUsage',
    python: ['print(gauge.correct({corrections}))'],
    tag: 'Usage',
    credential: 'apiKey',
    scope: 'usage:correct',
    limit: 'usage',
    summary: 'Correct usage events',
    description: `
Corrects the quantities of 1 to ${MAX_CORRECTIONS} events of the Organization in the key's mode. The operator of the service must let the Organization correct (\`mayCorrect\`); otherwise the answer is 403 \`entitlement_required\`. An event can be corrected for ${MAX_AGE_DAYS} days after its receipt
(\`timestamp_out_of_range\` afterwards) and ${MAX_TIMES.toLocaleString('en')} times (\`invalid_request\`). The operator of the service, and owners and admins on the event's page, can correct it at any time.

${rules}
`.trim(),
    body: { schema: correctionsSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 200: json('Corrected, durably.', correctedSchema) },
    examples: [
      ...examplesOf(),
      problemExample('timestamp_out_of_range', {
        summary: 'An event received too long ago',
        circumstance: 'old_event',
        at: '/corrections/0/idempotencyKey',
        index: 0,
        lead,
        detail: `The event first was received more than ${MAX_AGE_DAYS} days ago. Only the operator of this service can correct it now, or an owner or admin on the event's page.`,
        request: { body },
      }),
      problemExample('entitlement_required', {
        summary: 'An Organization that may not correct',
        circumstance: 'no_corrections',
        detail: mayNotCorrect().message,
        request: { body },
      }),
    ],
    handler: (deps: CorrectionDeps) => async (req, res) => {
      const hashedSecret = readHashedSecret(req);
      const { orgId, keyId, livemode } = await authenticateCall(deps, hashedSecret, 'usage:correct');
      const corrections = await readCorrections(req, res);
      const source = { ...whereaboutsOf(req, res, deps.clock), actor: `api_key:${keyId}` };
      // Locks the Organization before the key's row, in the same order as member changes that revoke keys.
      const by = {
        ...keyAuthority(orgId, keyId, 'usage:correct'),
        lock: (tx: Parameters<typeof lockOrganizationId>[0]) => lockOrganizationId(tx, orgId),
      };
      const request = { orgId, livemode, by: 'key', corrections } as const;
      sendCorrected(res, await change(deps, by, (tx) => correctEvents(tx, request, source)));
    },
  }),
];

export const operatorCorrectionRoutes = [
  operatorRoute({
    method: 'post',
    path: '/operator/organizations/{slug}/usage/corrections',
    operationId: 'correctCustomerUsage',
    summary: "Correct an Organization's usage events",
    description: `
Corrects the quantities of 1 to ${MAX_CORRECTIONS} events, live or test and of any age.

${rules}
`.trim(),
    body: correctionsSchema,
    maxBytes: MAX_BODY_BYTES,
    responses: { 200: json('Corrected, durably.', correctedSchema) },
    examples: [
      ...examplesOf({ slug: 'acme' }),
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' }, body }),
    ],
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

function sendCorrected(res: Response, { results, ...counts }: Corrected): void {
  sendJson(
    res,
    200,
    toJson({
      ...counts,
      results: results.map((result) => ({
        ...result,
        previousQuantity: exact(result.previousQuantity),
        quantity: exact(result.quantity),
      })),
    }),
  );
}
