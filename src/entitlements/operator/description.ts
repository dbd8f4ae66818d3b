import type { RouteDescription } from '../../core/reference/description.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { grantAnswerSchema } from '../../identity/operator/answer-schema.js';
import {
  createdAt,
  cursorOf,
  deletedResponses,
  describeOperatorRoute,
  listParts,
  notFoundExample,
  now,
  putResponses,
} from '../../identity/operator/description-parts.js';
import { entitlementSchema } from '../../identity/operator/schema.js';

const dates = { startsAt: createdAt, endsAt: null, createdAt, updatedAt: createdAt };
const apiCalls = { productSlug: 'api-calls', productName: 'API calls', kind: 'live', ...dates };
const archive = { productSlug: 'archive', productName: 'Archive', kind: 'read_only', ...dates };
const params = { slug: 'acme', productSlug: 'archive' };
const reports = { slug: 'acme', productSlug: 'reports' };
const reportsDetail = 'The Organization "acme" has no entitlement to the product "reports".';

export const grantDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/entitlements',
    operationId: 'listGrants',
    summary: 'List the entitlements of an Organization',
    description: 'All that were declared, whether or not they are in effect now, ordered by product.',
    ...listParts('entitlements', grantAnswerSchema, 'Ordered by `productSlug`.'),
    errors: ['not_found'],
    good: { params: { slug: 'acme' } },
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of two',
        request: { credential: 'operator', params: { slug: 'acme' }, query: { limit: '2' } },
        response: {
          status: 200,
          body: { entitlements: [apiCalls, archive], nextCursor: cursorOf('archive') },
        },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'getGrant',
    summary: 'Read an entitlement of an Organization',
    description: 'As it was declared, whether or not it is in effect now.',
    responses: {
      200: { description: 'The entitlement.', content: { 'application/json': grantAnswerSchema } },
    },
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'grant',
        summary: 'A read-only entitlement',
        request: { credential: 'operator', params },
        response: { status: 200, body: archive },
      },
      notFoundExample(reportsDetail, { params: reports }),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'putGrant',
    summary: 'Declare an entitlement',
    description:
      'Entitles the Organization to the product, or makes the entitlement as declared. It binds the next request, on every instance. There is one entitlement for each Organization and product.',
    body: { schema: entitlementSchema },
    responses: putResponses(grantAnswerSchema),
    errors: ['not_found'],
    good: { params, body: { kind: 'read_only' } },
    examples: [
      {
        name: 'changed',
        summary: 'Live until the end of the quarter',
        request: {
          credential: 'operator',
          params,
          body: { kind: 'live', endsAt: '2026-04-01T00:00:00+02:00' },
        },
        response: {
          status: 200,
          body: { ...archive, kind: 'live', endsAt: '2026-03-31T22:00:00.000Z', updatedAt: now },
        },
      },
      {
        name: 'granted',
        summary: 'From now on',
        request: { credential: 'operator', params: reports, body: { kind: 'live' } },
        response: {
          status: 201,
          body: {
            productSlug: 'reports',
            productName: 'Reports',
            kind: 'live',
            startsAt: now,
            endsAt: null,
            createdAt: now,
            updatedAt: now,
          },
        },
      },
      problemExample('invalid_request', {
        summary: 'An end before the start',
        detail: '/endsAt must be later than the start, 2026-01-05T09:00:00.000Z',
        errors: [
          {
            pointer: '/endsAt',
            code: 'invalid_request',
            detail: 'must be later than the start, 2026-01-05T09:00:00.000Z',
          },
        ],
        request: { credential: 'operator', params, body: { kind: 'live', endsAt: '2026-01-01T00:00:00Z' } },
      }),
      notFoundExample('There is no product "maps".', {
        params: { slug: 'acme', productSlug: 'maps' },
        body: { kind: 'live' },
      }),
    ],
  }),
  describeOperatorRoute({
    method: 'delete',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'deleteGrant',
    summary: 'Withdraw an entitlement',
    description: 'Binds the next request, on every instance. What was used stays recorded.',
    responses: deletedResponses,
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'withdrawn',
        summary: 'Withdrawn',
        request: { credential: 'operator', params },
        response: { status: 204 },
      },
      notFoundExample(reportsDetail, { params: reports }),
    ],
  }),
];
