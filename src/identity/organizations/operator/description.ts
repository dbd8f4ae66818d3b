import type { RouteDescription } from '../../../core/reference/description.js';
import { exampleWorld } from '../../../core/reference/example-world.js';
import { problemExample } from '../../../core/reference/problem-examples.js';
import { organizationAnswerSchema } from '../../operator/answer-schema.js';
import {
  createdAt,
  cursorOf,
  describeOperatorRoute,
  listParts,
  madeId,
  notFoundExample,
  now,
  putResponses,
} from '../../operator/description-parts.js';
import { organizationSchema } from '../../operator/schema.js';

const acme = { ...exampleWorld.organization, requireSecondFactor: false, createdAt };

export const organizationDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations',
    operationId: 'listOrganizations',
    summary: 'List Organizations',
    description: 'All Organizations, ordered by slug.',
    ...listParts('organizations', organizationAnswerSchema, 'Ordered by `slug`.'),
    good: {},
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of one',
        request: { credential: 'operator', query: { limit: '1' } },
        response: { status: 200, body: { organizations: [acme], nextCursor: cursorOf('acme') } },
      },
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}',
    operationId: 'getOrganization',
    summary: 'Read an Organization',
    description: 'Its id, slug and name, and when it was made.',
    responses: {
      200: { description: 'The Organization.', content: { 'application/json': organizationAnswerSchema } },
    },
    errors: ['not_found'],
    good: { params: { slug: 'acme' } },
    examples: [
      {
        name: 'organization',
        summary: 'Acme',
        request: { credential: 'operator', params: { slug: 'acme' } },
        response: { status: 200, body: acme },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}',
    operationId: 'putOrganization',
    summary: 'Declare an Organization',
    description:
      'Creates the Organization, renames it, or says whether its members need a second factor. The slug never changes, and Organizations are not deleted: their usage and their audit log are records.',
    body: { schema: organizationSchema },
    responses: putResponses(organizationAnswerSchema),
    good: { params: { slug: 'acme' }, body: { name: 'Acme' } },
    examples: [
      {
        name: 'renamed',
        summary: 'Another name',
        request: { credential: 'operator', params: { slug: 'acme' }, body: { name: 'Acme Corporation' } },
        response: { status: 200, body: { ...acme, name: 'Acme Corporation' } },
      },
      {
        name: 'created',
        summary: 'A new Organization',
        request: { credential: 'operator', params: { slug: 'initech' }, body: { name: 'Initech' } },
        response: {
          status: 201,
          body: { id: madeId, slug: 'initech', name: 'Initech', requireSecondFactor: false, createdAt: now },
        },
      },
      problemExample('invalid_request', {
        summary: 'No name',
        detail: '/name is required',
        errors: [{ pointer: '/name', code: 'invalid_request', detail: 'is required' }],
        request: { credential: 'operator', params: { slug: 'initech' }, body: {} },
      }),
    ],
  }),
];
