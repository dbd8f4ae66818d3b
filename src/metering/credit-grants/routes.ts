import type { Request } from 'express';
import { z } from 'zod';
import { readHashedSecret } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { operatorRoute } from '../../accounts/identity/operator/define-route.js';
import { answerPut } from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import type { Orm } from '../../core/db/client.js';
import type { Context } from '../../core/http/context.js';
import { exact, parseNumbersAsText, sendJson, toJson } from '../../core/http/json.js';
import { parseQuery } from '../../core/http/page.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { toPrice } from '../entitlements/price.js';
import { readCredits, readEntries, type CreditGrant, type Credits } from './credits.js';
import { countGrant, forgiveOverdraft, putGrant, termsJson, voidGrant } from './grants.js';
import type { AccountId } from './queries.js';
import {
  creditReasonSchema,
  creditsSchema,
  entriesQuerySchema,
  entriesSchema,
  customerEntriesQuerySchema,
  customerQuerySchema,
  forgivenSchema,
  grantAnswerSchema,
  grantKeySchema,
  grantSchema,
} from './schema.js';

const path = '/operator/organizations/{slug}/credits' as const;

type ReadingDeps = CallDeps & Pick<Context, 'db' | 'clock'>;
const common = { tag: 'Usage', credential: 'apiKey', scope: 'usage:read', limit: 'usage' } as const;

const readGrantKey = (req: Request): string =>
  parseInput(z.object({ grantKey: grantKeySchema }), req.params).grantKey;

const readAccountId = async (orm: Orm, slug: string, livemode: boolean): Promise<AccountId> => ({
  orgId: (await getOrganization(orm, slug)).id,
  livemode,
});

export const creditRoutes = [
  defineRoute({
    ...common,
    at: 'GET /api/credits',
    operationId: 'readCredits',
    responses: { 200: json('The credits.', creditsSchema) },
    handler: (deps: ReadingDeps) => async (req, res) => {
      const id = await authenticateCall(deps, readHashedSecret(req), common.scope);
      const credits = await readCredits(deps.db.orm, id, new Date(deps.clock.now()));
      sendJson(res, 200, toJson(creditsJson(credits)));
    },
  }),
  defineRoute({
    ...common,
    at: 'GET /api/credits/entries',
    operationId: 'listCreditEntries',
    query: entriesQuerySchema,
    responses: { 200: json('One page.', entriesSchema) },
    handler: (deps: ReadingDeps) => async (req, res) => {
      const id = await authenticateCall(deps, readHashedSecret(req), common.scope);
      const entries = await readEntries(deps.db.orm, id, parseQuery(entriesQuerySchema, req.query));
      sendJson(res, 200, toJson(entriesJson(entries)));
    },
  }),
];

export const operatorCreditRoutes = [
  operatorRoute({
    at: `PUT ${path}/grants/{grantKey}`,
    operationId: 'putCreditGrant',
    body: grantSchema,
    responses: {
      200: json('Granted before by the same request.', grantAnswerSchema),
      201: json('Granted.', grantAnswerSchema),
    },
    async answer({ params, input: { livemode, ...sent }, text, change, req, res }, deps) {
      const grantKey = readGrantKey(req);
      const { amount } = parseNumbersAsText(text) as { amount: string };
      const input = { ...sent, amount: toPrice(amount, 'amount') };
      const put = await change(async (tx, source) =>
        putGrant(tx, await readAccountId(tx, params.slug, livemode), grantKey, input, source),
      );
      countGrant(deps.metrics, put);
      return answerPut(res, put, presentGrant);
    },
  }),
  operatorRoute({
    at: `POST ${path}/grants/{grantKey}/void`,
    operationId: 'voidCreditGrant',
    body: creditReasonSchema,
    responses: { 200: json('Voided.', grantAnswerSchema) },
    async answer({ params, input: { reason, livemode }, change, req }) {
      const grantKey = readGrantKey(req);
      const grant = await change(async (tx, source) =>
        voidGrant(tx, await readAccountId(tx, params.slug, livemode), grantKey, reason, source),
      );
      return presentGrant(grant);
    },
  }),
  operatorRoute({
    at: `POST ${path}/overdrafts/{productSlug}/forgive`,
    operationId: 'forgiveOverdraft',
    body: creditReasonSchema,
    responses: { 200: json('Forgiven, or there was none.', forgivenSchema) },
    async answer({ params: { slug, productSlug }, input: { reason, livemode }, change }) {
      const forgiven = await change(async (tx, source) =>
        forgiveOverdraft(tx, await readAccountId(tx, slug, livemode), productSlug, reason, source),
      );
      return { productSlug, forgiven: exact(forgiven) };
    },
  }),
  operatorRoute({
    at: `GET ${path}`,
    operationId: 'readCustomerCredits',
    query: customerQuerySchema,
    responses: { 200: json('The credits.', creditsSchema) },
    async answer({ params: { slug }, req }, { db, clock }) {
      const { livemode } = parseQuery(customerQuerySchema, req.query);
      const id = await readAccountId(db.orm, slug, livemode === 'true');
      return creditsJson(await readCredits(db.orm, id, new Date(clock.now())));
    },
  }),
  operatorRoute({
    at: `GET ${path}/entries`,
    operationId: 'listCustomerCreditEntries',
    query: customerEntriesQuerySchema,
    responses: { 200: json('One page.', entriesSchema) },
    async answer({ params: { slug }, req }, { db }) {
      const { livemode, ...query } = parseQuery(customerEntriesQuerySchema, req.query);
      const id = await readAccountId(db.orm, slug, livemode === 'true');
      return entriesJson(await readEntries(db.orm, id, query));
    },
  }),
];

const creditsJson = ({ balance, held, overdrafts, grants }: Credits) => ({
  balance: exact(balance),
  held: exact(held),
  overdrafts: overdrafts.map(({ productSlug, quantity }) => ({ productSlug, quantity: exact(quantity) })),
  grants: grants.map(grantJson),
});

const entriesJson = ({ entries, nextCursor }: Awaited<ReturnType<typeof readEntries>>) => ({
  entries: entries.map(({ at, hour, kind, productSlug, grantKey, amount }) => ({
    at: new Date(at).toISOString(),
    hour: new Date(hour).toISOString(),
    kind,
    productSlug,
    grantKey,
    amount: exact(amount),
  })),
  nextCursor,
});

const presentGrant = (grant: CreditGrant) => ({ grant: grantJson(grant) });

const grantJson = (grant: CreditGrant) => ({
  id: grant.id,
  ...termsJson(grant),
  reason: grant.reason,
  createdAt: grant.createdAt,
  voidedAt: grant.voidedAt,
  voidReason: grant.voidReason,
  burned: exact(grant.burned),
  remaining: exact(grant.remaining),
  status: grant.status,
});
