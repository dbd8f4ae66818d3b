import type { Request, Response } from 'express';
import { z } from 'zod';
import { readHashedSecret } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import {
  createdAt,
  madeId,
  notFoundExample,
  now,
  operatorRoute,
} from '../../accounts/identity/operator/define-route.js';
import {
  changeAsOperator,
  MAX_BODY_BYTES,
  readInput,
  readSlug,
  sendPut,
} from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import type { Orm } from '../../core/db/client.js';
import { readJsonBody } from '../../core/http/body.js';
import type { Context } from '../../core/http/context.js';
import { exact, parseNumbersAsText, sendJson, toJson } from '../../core/http/json.js';
import { parseQuery } from '../../core/http/page.js';
import { parseExactly, parseInput } from '../../core/http/validate.js';
import { defineRoute, json, type ExampleRequest } from '../../core/reference/define-route.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { toPrice } from '../entitlements/price.js';
import { exampleWorld } from '../reference/example-world.js';
import { readCredits, readEntries, type CreditGrant, type Credits } from './credits.js';
import { countGrant, forgiveOverdraft, MAX_OPEN, putGrant, termsJson, voidGrant } from './grants.js';
import type { AccountId, EntryRow } from './queries.js';
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
const acme = { slug: 'acme' };
const bought = { slug: 'acme', grantKey: 'order-1201' };
const order = exampleWorld.creditGrant;
const body = { amount: 500, expiresAt: '2026-12-31T23:30:00Z', reason: 'Invoice 1201' };
const monthly = { ...bought, grantKey: 'plan-2026-02' };
const plan = {
  amount: 0.25,
  priority: 10,
  productSlugs: ['api-calls'],
  rollover: { percent: 50, for: 'P30D' },
  reason: 'Included in the plan',
};

const existing = {
  id: order.id,
  grantKey: order.grantKey,
  amount: 100,
  priority: 50,
  startsAt: createdAt,
  expiresAt: null,
  productSlugs: null,
  rollover: null,
  livemode: true,
  reason: 'Invoice 1042',
  createdAt,
  voidedAt: null,
  voidReason: null,
  burned: 40,
  remaining: 60,
  status: 'open',
};
const granted = {
  ...existing,
  id: madeId,
  grantKey: bought.grantKey,
  amount: 500,
  startsAt: now,
  expiresAt: '2027-01-01T00:00:00.000Z',
  reason: body.reason,
  createdAt: now,
  burned: 0,
  remaining: 500,
};
const spent = {
  ...existing,
  id: order.spentId,
  grantKey: order.spentKey,
  amount: 10,
  reason: 'Welcome',
  burned: 10,
  remaining: 0,
  status: 'spent',
};
const credits = { balance: 60, held: 0, overdrafts: [], grants: [existing, spent] };
const entry = {
  at: createdAt,
  hour: createdAt,
  kind: 'burn',
  productSlug: 'api-calls',
  grantKey: order.grantKey,
  amount: 40,
};
const trialEntry = { ...entry, grantKey: order.spentKey, amount: 10 };
const unknownKind = (request: ExampleRequest) =>
  problemExample('invalid_request', {
    summary: 'An unknown kind',
    detail:
      'The query parameter kind must be "burn" or "return" or "expire" or "roll" or "void" or "repay" or "forgive".',
    request: { ...request, query: { kind: 'spend' } },
  });

type ReadingDeps = CallDeps & Pick<Context, 'db' | 'clock'>;
const common = { tag: 'Usage', credential: 'apiKey', scope: 'usage:read', limit: 'usage' } as const;

const readGrantKey = (req: Request): string =>
  parseInput(z.object({ grantKey: grantKeySchema }), req.params).grantKey;

const readAccountId = async (orm: Orm, slug: string, livemode: boolean): Promise<AccountId> => ({
  orgId: (await getOrganization(orm, slug)).id,
  livemode,
});

const entriesDescription = `
Every change of the credits, newest first. Rows are only added: \`burn\` and \`return\` add up to what usage cost, and the balance follows from them. The entries of a burn are kept per hour of usage, so
several events can share one. Entries of archived months are summed up per day.
`.trim();

export const creditRoutes = [
  defineRoute({
    ...common,
    method: 'get',
    path: '/api/credits',
    operationId: 'readCredits',
    summary: 'Read the credits',
    description:
      "The Organization's credits in the key's mode, as of now: expired grants are in no balance, and events that got a 202 are included.",
    responses: { 200: json('The credits.', creditsSchema) },
    examples: [{ name: 'credits', summary: 'An open grant, and a spent one', request: {}, answer: credits }],
    handler: (deps: ReadingDeps) => async (req, res) => {
      const id = await authenticateCall(deps, readHashedSecret(req), common.scope);
      sendCredits(res, await readCredits(deps.db.orm, id, new Date(deps.clock.now())));
    },
  }),
  defineRoute({
    ...common,
    method: 'get',
    path: '/api/credits/entries',
    operationId: 'listCreditEntries',
    summary: 'List the ledger of credits',
    description: entriesDescription,
    query: entriesQuerySchema,
    responses: { 200: json('One page.', entriesSchema) },
    examples: [
      {
        name: 'entries',
        summary: 'All entries',
        request: {},
        answer: { entries: [entry, trialEntry], nextCursor: null },
      },
      {
        name: 'expired',
        summary: 'What expired in January',
        request: { query: { kind: 'expire', from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00Z' } },
        answer: { entries: [], nextCursor: null },
      },
      unknownKind({}),
    ],
    handler: (deps: ReadingDeps) => async (req, res) => {
      const id = await authenticateCall(deps, readHashedSecret(req), common.scope);
      sendEntries(res, await readEntries(deps.db.orm, id, parseQuery(entriesQuerySchema, req.query)));
    },
  }),
];

export const operatorCreditRoutes = [
  operatorRoute({
    method: 'put',
    path: `${path}/grants/{grantKey}`,
    operationId: 'putCreditGrant',
    summary: 'Grant credits',
    description: `
Grants credits to the Organization, once for each key. A grant is never edited: the same body again changes nothing (200), and another body is \`idempotency_conflict\`. For a grant each month, put the month in its key.

Usage burns the grant with the lowest \`priority\` first, then the one that expires soonest, then the oldest. A new grant first pays the overdrafts of the products that it applies to.
`.trim(),
    body: grantSchema,
    responses: {
      200: json('Granted before by the same request.', grantAnswerSchema),
      201: json('Granted.', grantAnswerSchema),
    },
    examples: [
      {
        name: 'granted',
        summary: 'Bought credits, until the end of the year',
        request: { params: bought, body },
        status: 201,
        answer: { grant: granted },
      },
      {
        name: 'repeated',
        summary: 'The same request again',
        before: [{ params: bought, body }],
        request: { params: bought, body },
        status: 200,
        answer: { grant: granted },
      },
      {
        name: 'rollover',
        summary: 'A monthly grant for one product; half of what is left rolls over for 30 days',
        request: {
          params: monthly,
          body: { ...plan, expiresAt: '2026-03-01T00:00:00Z' },
        },
        status: 201,
        answer: {
          grant: {
            ...granted,
            ...plan,
            grantKey: monthly.grantKey,
            expiresAt: '2026-03-01T00:00:00.000Z',
            remaining: plan.amount,
          },
        },
      },
      problemExample('idempotency_conflict', {
        summary: 'The key of another grant',
        detail: 'The credit grant order-1201 was made with another body. A grant is never edited.',
        before: [{ params: bought, body }],
        request: { params: bought, body: { ...body, amount: 600 } },
      }),
      problemExample('too_many_grants', {
        summary: 'One grant too many',
        before: Array.from({ length: MAX_OPEN - 1 }, (_, n) => ({
          params: { ...acme, grantKey: `order-${n}` },
          body,
        })),
        detail: `The Organization has ${MAX_OPEN} grants that are open or scheduled.`,
        request: { params: bought, body },
      }),
      problemExample('unknown_product', {
        summary: 'A product that does not exist',
        at: '/productSlugs/0',
        index: 0,
        detail: 'There is no product "maps".',
        lead: 'Nothing was granted.',
        request: { params: bought, body: { ...body, productSlugs: ['maps'] } },
      }),
      problemExample('invalid_request', {
        summary: 'An end in the past',
        at: '/expiresAt',
        detail: `must be later than the start, ${now}`,
        request: { params: bought, body: { ...body, expiresAt: '2026-01-01T00:00:00Z' } },
      }),
      notFoundExample('There is no Organization "initech".', {
        params: { ...bought, slug: 'initech' },
        body,
      }),
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const grantKey = readGrantKey(req);
      const { value, text } = await readJsonBody(req, res, MAX_BODY_BYTES);
      const { livemode, ...sent } = parseExactly(grantSchema, value);
      const { amount } = parseNumbersAsText(text) as { amount: string };
      const input = { ...sent, amount: toPrice(amount, 'amount') };
      const put = await changeAsOperator(deps, req, res, async (tx, source) => {
        const id = await readAccountId(tx, slug, livemode);
        return putGrant(tx, id, grantKey, input, source);
      });
      countGrant(deps.metrics, put);
      sendPut(res, put, presentGrant);
    },
  }),
  operatorRoute({
    method: 'post',
    path: `${path}/grants/{grantKey}/void`,
    operationId: 'voidCreditGrant',
    summary: 'Void a credit grant',
    description:
      'Forfeits what is left of the grant, from now on. What it paid stays paid. Voiding it again changes nothing.',
    body: creditReasonSchema,
    responses: { 200: json('Voided.', grantAnswerSchema) },
    examples: [
      {
        name: 'voided',
        summary: 'A grant that was not paid for',
        request: {
          params: { ...acme, grantKey: order.grantKey },
          body: { reason: 'Invoice cancelled' },
        },
        answer: {
          grant: {
            ...existing,
            remaining: 0,
            status: 'voided',
            voidedAt: now,
            voidReason: 'Invoice cancelled',
          },
        },
      },
      problemExample('grant_closed', {
        summary: 'A grant with nothing left',
        detail: `The credit grant ${order.spentKey} is spent.`,
        request: { params: { ...acme, grantKey: order.spentKey }, body: { reason: 'Too late' } },
      }),
      notFoundExample('There is no credit grant order-1.', {
        params: { ...acme, grantKey: 'order-1' },
        body: { reason: 'Unknown' },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const grantKey = readGrantKey(req);
      const { reason, livemode } = await readInput(req, res, creditReasonSchema);
      const grant = await changeAsOperator(deps, req, res, async (tx, source) => {
        const id = await readAccountId(tx, slug, livemode);
        return voidGrant(tx, id, grantKey, reason, source);
      });
      sendJson(res, 200, toJson(presentGrant(grant)));
    },
  }),
  operatorRoute({
    method: 'post',
    path: `${path}/overdrafts/{productSlug}/forgive`,
    operationId: 'forgiveOverdraft',
    summary: 'Forgive an overdraft',
    description: 'Forgives the overdraft of a product, so that the next grant does not pay it.',
    body: creditReasonSchema,
    responses: { 200: json('Forgiven, or there was none.', forgivenSchema) },
    examples: [
      {
        name: 'none',
        summary: 'A product without an overdraft: nothing changes',
        request: { params: { ...acme, productSlug: 'storage' }, body: { reason: 'Our own mistake' } },
        answer: { productSlug: 'storage', forgiven: 0 },
      },
      notFoundExample('There is no product "maps".', {
        params: { ...acme, productSlug: 'maps' },
        body: { reason: 'Unknown' },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const productSlug = readSlug(req, 'productSlug');
      const { reason, livemode } = await readInput(req, res, creditReasonSchema);
      const forgiven = await changeAsOperator(deps, req, res, async (tx, source) => {
        const id = await readAccountId(tx, slug, livemode);
        return forgiveOverdraft(tx, id, productSlug, reason, source);
      });
      sendJson(res, 200, toJson({ productSlug, forgiven: exact(forgiven) }));
    },
  }),
  operatorRoute({
    method: 'get',
    path,
    operationId: 'readCustomerCredits',
    summary: 'Read the credits of an Organization',
    description: 'As of now: expired grants are in no balance, and events that got a 202 are included.',
    query: customerQuerySchema,
    responses: { 200: json('The credits.', creditsSchema) },
    good: { params: acme },
    examples: [
      {
        name: 'credits',
        summary: 'An open grant, and a spent one',
        request: { params: acme },
        answer: credits,
      },
      {
        name: 'testMode',
        summary: 'Test credits, when there are none',
        request: { params: acme, query: { livemode: 'false' } },
        answer: { balance: 0, held: 0, overdrafts: [], grants: [] },
      },
      problemExample('invalid_request', {
        summary: 'An unknown mode',
        detail: 'The query parameter livemode must be true or false.',
        request: { params: acme, query: { livemode: 'yes' } },
      }),
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
    handler: (deps) => async (req, res) => {
      const { livemode } = parseQuery(customerQuerySchema, req.query);
      const id = await readAccountId(deps.db.orm, readSlug(req), livemode === 'true');
      sendCredits(res, await readCredits(deps.db.orm, id, new Date(deps.clock.now())));
    },
  }),
  operatorRoute({
    method: 'get',
    path: `${path}/entries`,
    operationId: 'listCustomerCreditEntries',
    summary: "List an Organization's ledger of credits",
    description: entriesDescription,
    query: customerEntriesQuerySchema,
    responses: { 200: json('One page.', entriesSchema) },
    good: { params: acme },
    examples: [
      {
        name: 'entries',
        summary: 'The entries of a product',
        request: { params: acme, query: { productSlug: 'api-calls' } },
        answer: { entries: [entry, trialEntry], nextCursor: null },
      },
      unknownKind({ params: acme }),
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
    handler: (deps) => async (req, res) => {
      const { livemode, ...query } = parseQuery(customerEntriesQuerySchema, req.query);
      const id = await readAccountId(deps.db.orm, readSlug(req), livemode === 'true');
      sendEntries(res, await readEntries(deps.db.orm, id, query));
    },
  }),
];

function sendCredits(res: Response, { balance, held, overdrafts, grants }: Credits): void {
  const body = {
    balance: exact(balance),
    held: exact(held),
    overdrafts: overdrafts.map(({ productSlug, quantity }) => ({ productSlug, quantity: exact(quantity) })),
    grants: grants.map(grantJson),
  };
  sendJson(res, 200, toJson(body));
}

function sendEntries(res: Response, { entries, nextCursor }: Awaited<ReturnType<typeof readEntries>>): void {
  const present = ({ at, hour, kind, productSlug, grantKey, amount }: EntryRow) => ({
    at: new Date(at).toISOString(),
    hour: new Date(hour).toISOString(),
    kind,
    productSlug,
    grantKey,
    amount: exact(amount),
  });
  sendJson(res, 200, toJson({ entries: entries.map(present), nextCursor }));
}

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
