import type { RouteDescription } from '../../../core/reference/description.js';
import { exampleWorld } from '../../../core/reference/example-world.js';
import { problemExample } from '../../../core/reference/problem-examples.js';
import { memberAnswerSchema } from '../../operator/answer-schema.js';
import {
  createdAt,
  cursorOf,
  deletedResponses,
  describeOperatorRoute,
  listParts,
  notFoundExample,
  now,
  putResponses,
} from '../../operator/description-parts.js';
import { memberSchema } from '../../operator/schema.js';

const { users } = exampleWorld;
const view = (name: keyof typeof users) => {
  const { id, ...rest } = users[name];
  return { userId: id, ...rest, createdAt };
};
const max = view('member');
const params = { slug: 'acme', email: max.email };
const outsider = { slug: 'acme', email: users.newcomer.email };
const outsiderDetail = `The user "${users.newcomer.email}" is not a member of the Organization "acme".`;

export const memberDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/members',
    operationId: 'listMembers',
    summary: 'List members',
    description: 'The members of an Organization with their roles, ordered by address.',
    ...listParts('members', memberAnswerSchema, 'Ordered by `email`.'),
    errors: ['not_found'],
    good: { params: { slug: 'acme' } },
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of one',
        request: { credential: 'operator', params: { slug: 'acme' }, query: { limit: '1' } },
        response: { status: 200, body: { members: [max], nextCursor: cursorOf(max.email) } },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'getMember',
    summary: 'Read a membership',
    description: 'The role of a User in an Organization.',
    responses: {
      200: { description: 'The membership.', content: { 'application/json': memberAnswerSchema } },
    },
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'member',
        summary: 'Max',
        request: { credential: 'operator', params },
        response: { status: 200, body: max },
      },
      notFoundExample(outsiderDetail, { params: outsider }),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'putMember',
    summary: 'Declare a membership',
    description:
      'Makes a User a member of the Organization in that role. It binds their next request. The User and the Organization must be there.',
    body: { schema: memberSchema },
    responses: putResponses(memberAnswerSchema),
    errors: ['not_found'],
    good: { params, body: { role: 'member' } },
    examples: [
      {
        name: 'promoted',
        summary: 'Another role',
        request: { credential: 'operator', params, body: { role: 'admin' } },
        response: { status: 200, body: { ...max, role: 'admin' } },
      },
      {
        name: 'added',
        summary: 'A new member',
        request: { credential: 'operator', params: outsider, body: { role: 'billing' } },
        response: { status: 201, body: { ...view('newcomer'), role: 'billing', createdAt: now } },
      },
      notFoundExample('There is no user "zoe@acme.example".', {
        params: { slug: 'acme', email: 'zoe@acme.example' },
        body: { role: 'member' },
      }),
      problemExample('invalid_request', {
        summary: 'A role that there is not',
        detail: '/role Invalid option: expected one of "owner"|"admin"|"member"|"billing"',
        errors: [
          {
            pointer: '/role',
            code: 'invalid_request',
            detail: 'Invalid option: expected one of "owner"|"admin"|"member"|"billing"',
          },
        ],
        request: { credential: 'operator', params, body: { role: 'boss' } },
      }),
    ],
  }),
  describeOperatorRoute({
    method: 'delete',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'deleteMember',
    summary: 'End a membership',
    description:
      "Ends a membership with the User's next request, the last owner's too. The keys of the Organization stay as they are.",
    responses: deletedResponses,
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'ended',
        summary: 'Ended',
        request: { credential: 'operator', params },
        response: { status: 204 },
      },
      notFoundExample(outsiderDetail, { params: outsider }),
    ],
  }),
];
