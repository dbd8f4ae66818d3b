import type { RouteDescription } from '../../../core/reference/description.js';
import { exampleWorld } from '../../../core/reference/example-world.js';
import { chainedAuditEntrySchema } from '../../../identity/operator/answer-schema.js';
import {
  describeOperatorRoute,
  listParts,
  notFoundExample,
} from '../../../identity/operator/description-parts.js';

const { operator, organization, source } = exampleWorld.audit;

export const auditLogDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: '/operator/audit-log',
    operationId: 'listOperatorLog',
    summary: "List the operator's changes",
    description:
      'What belongs to no Organization, newest first: changes of products and Users, signing in and what people do to their accounts, operator tokens that were refused. Each was written in the transaction of its change, and is chained to the one before: `npm run audit:verify` finds what was changed since.',
    ...listParts('auditLog', chainedAuditEntrySchema, 'Newest first.'),
    good: {},
    examples: [
      {
        name: 'log',
        summary: 'One entry',
        request: { credential: 'operator' },
        response: { status: 200, body: { auditLog: [{ ...operator, ...source }], nextCursor: null } },
      },
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/audit-log',
    operationId: 'listAuditLog',
    summary: 'List the changes inside an Organization',
    description:
      'Changes of the Organization, its members, entitlements and keys, newest first: what, by whom, from where. Each was written in the transaction of its change, and is chained to the one before: `npm run audit:verify` finds what was changed since.',
    ...listParts('auditLog', chainedAuditEntrySchema, 'Newest first.'),
    errors: ['not_found'],
    good: { params: { slug: 'acme' } },
    examples: [
      {
        name: 'log',
        summary: 'One entry',
        request: { credential: 'operator', params: { slug: 'acme' } },
        response: { status: 200, body: { auditLog: [{ ...organization, ...source }], nextCursor: null } },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
  }),
];
