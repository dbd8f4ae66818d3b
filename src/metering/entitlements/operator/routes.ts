import { readJsonBody } from '../../../core/http/body.js';
import { exact, sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import { json } from '../../../core/reference/define-route.js';
import { problemExample } from '../../../core/reference/problem-examples.js';
import {
  createdAt,
  deletedResponses,
  listParts,
  notFoundExample,
  now,
  operatorRoute,
  putResponses,
} from '../../../accounts/identity/operator/define-route.js';
import {
  changeAsOperator,
  MAX_BODY_BYTES,
  readSlug,
  sendDeleted,
  sendPut,
} from '../../../accounts/identity/operator/http.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';
import { readRange, sendPage, toCursor } from '../../../core/http/page.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { entitlementSchema, grantAnswerSchema } from './schema.js';
import { getGrant, putGrant, withdrawGrant } from '../grants.js';
import { declaredLimitJson, defaultThresholds } from '../limits.js';
import { toExactDecimals, toExactNumber } from '../exact-number.js';
import { listGrants, type Grant } from '../queries.js';

const dates = {
  startsAt: createdAt,
  endsAt: null,
  limits: [],
  thresholds: [50, 80, 100],
  createdAt,
  updatedAt: createdAt,
};
const apiCalls = {
  productSlug: 'api-calls',
  productName: 'API calls',
  kind: 'live',
  effectiveUnitCap: 1000,
  ...dates,
};
const archive = {
  productSlug: 'archive',
  productName: 'Archive',
  kind: 'read_only',
  effectiveUnitCap: null,
  ...dates,
};
const params = { slug: 'acme', productSlug: 'archive' };
const apiCallsParams = { slug: 'acme', productSlug: 'api-calls' };
const reports = { slug: 'acme', productSlug: 'reports' };
const reportsDetail = 'The Organization "acme" has no entitlement to the product "reports".';

export const entitlementRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/entitlements',
    operationId: 'listGrants',
    summary: 'List the entitlements of an Organization',
    description: 'All declared entitlements, in effect or not, ordered by product.',
    ...listParts('entitlements', grantAnswerSchema, 'Ordered by `productSlug`.'),
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of two',
        request: { params: { slug: 'acme' }, query: { limit: '2' } },
        answer: { entitlements: [apiCalls, archive], nextCursor: toCursor('archive') },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
    handler: (deps) => async (req, res) => {
      const range = readRange(req, slugSchema);
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      const rows = await listGrants(deps.db.orm, id, range);
      const parts = { rows, limit: range.limit, keyOf: (row: Grant) => row.productSlug };
      sendPage(res, 'entitlements', { ...parts, present: grantJson });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'getGrant',
    summary: "Read an Organization's entitlement",
    description: 'The declared entitlement, in effect or not.',
    responses: {
      200: json('The entitlement.', grantAnswerSchema),
    },
    examples: [
      { name: 'grant', summary: 'A read-only entitlement', request: { params }, answer: archive },
      notFoundExample(reportsDetail, { params: reports }),
    ],
    handler: (deps) => async (req, res) => {
      const grant = await getGrant(deps.db.orm, readSlug(req), readSlug(req, 'productSlug'));
      sendJson(res, 200, toJson(grantJson(grant)));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'putGrant',
    summary: 'Declare an entitlement',
    description:
      'Grants the Organization the product, or replaces the existing entitlement. It takes effect on the next request, on every instance. Each Organization has one entitlement per product. Its own `unitCap` replaces that of the product, from the next event on. Fields that you leave out are reset, including limits and thresholds.',
    body: entitlementSchema,
    responses: putResponses(grantAnswerSchema),
    good: { params, body: { kind: 'read_only' } },
    examples: [
      {
        name: 'changed',
        summary: 'Live until the end of the quarter',
        request: { params, body: { kind: 'live', endsAt: '2026-04-01T00:00:00+02:00' } },
        answer: { ...archive, kind: 'live', endsAt: '2026-03-31T22:00:00.000Z', updatedAt: now },
      },
      {
        name: 'granted',
        summary: 'From now on',
        request: { params: reports, body: { kind: 'live' } },
        status: 201,
        answer: {
          productSlug: 'reports',
          productName: 'Reports',
          kind: 'live',
          startsAt: now,
          endsAt: null,
          effectiveUnitCap: null,
          limits: [],
          thresholds: [50, 80, 100],
          createdAt: now,
          updatedAt: now,
        },
      },
      {
        name: 'ownCap',
        summary: 'A cap for this Organization only',
        request: {
          params: apiCallsParams,
          body: { kind: 'live', unitCap: 25_000.5 },
        },
        answer: { ...apiCalls, unitCap: 25_000.5, effectiveUnitCap: 25_000.5, updatedAt: now },
      },
      {
        name: 'noCap',
        summary: 'No cap for this Organization, even if the product has one',
        request: {
          params: apiCallsParams,
          body: { kind: 'live', unitCap: null },
        },
        answer: { ...apiCalls, unitCap: null, effectiveUnitCap: null, updatedAt: now },
      },
      {
        name: 'limits',
        summary: 'A blocking limit, a warning limit and custom thresholds',
        request: {
          params: apiCallsParams,
          body: {
            kind: 'live',
            limits: [
              { quantity: 100, window: 'PT5H', enforcement: 'block' },
              { quantity: 500.5, window: 'calendar_week' },
            ],
            thresholds: [75, 90, 100],
          },
        },
        answer: {
          ...apiCalls,
          limits: [
            { quantity: 100, window: 'PT5H', enforcement: 'block' },
            { quantity: 500.5, window: 'calendar_week', enforcement: 'warn' },
          ],
          thresholds: [75, 90, 100],
          updatedAt: now,
        },
      },
      problemExample('invalid_request', {
        summary: 'An end before the start',
        at: '/endsAt',
        detail: 'must be later than the start, 2026-01-05T09:00:00.000Z',
        request: { params, body: { kind: 'live', endsAt: '2026-01-01T00:00:00Z' } },
      }),
      notFoundExample('There is no product "maps".', {
        params: { slug: 'acme', productSlug: 'maps' },
        body: { kind: 'live' },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const productSlug = readSlug(req, 'productSlug');
      const body = await readJsonBody(req, res, MAX_BODY_BYTES);
      const { kind, startsAt, endsAt, unitCap, limits, thresholds } = parseExactly(
        entitlementSchema,
        body.value,
      );
      const input = {
        kind,
        startsAt: startsAt === undefined ? undefined : new Date(startsAt),
        endsAt: endsAt === undefined || endsAt === null ? null : new Date(endsAt),
        unitCap: unitCap == null ? unitCap : toExactNumber('unitCap', body.text),
        limits:
          limits &&
          toExactDecimals(body.text, 'limits', 'quantity').map((quantity, i) => ({
            ...limits[i]!,
            quantity: quantity!,
          })),
        thresholds,
      };
      const put = await changeAsOperator(deps, req, res, (tx, source) =>
        putGrant(tx, slug, productSlug, input, source),
      );
      sendPut(res, put, grantJson);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'deleteGrant',
    summary: 'Withdraw an entitlement',
    description: 'Takes effect on the next request, on every instance. Recorded usage stays.',
    responses: deletedResponses,
    examples: [
      { name: 'withdrawn', summary: 'Withdrawn', request: { params } },
      notFoundExample(reportsDetail, { params: reports }),
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const productSlug = readSlug(req, 'productSlug');
      await changeAsOperator(deps, req, res, (tx, source) => withdrawGrant(tx, slug, productSlug, source));
      sendDeleted(res);
    },
  }),
];

const grantJson = ({
  productId: _id,
  hasOwnCap,
  unitCap,
  effectiveUnitCap,
  limits,
  thresholds,
  ...grant
}: Grant) => {
  const { createdAt, updatedAt, ...declared } = grant;
  return {
    ...declared,
    ...(hasOwnCap ? { unitCap: exact(unitCap) } : {}),
    effectiveUnitCap: exact(effectiveUnitCap),
    limits: (limits ?? []).map(declaredLimitJson),
    thresholds: thresholds ?? defaultThresholds,
    createdAt,
    updatedAt,
  };
};
