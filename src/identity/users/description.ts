import type { RouteDescription } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { userAnswerSchema } from '../operator/answer-schema.js';
import {
  createdAt,
  cursorOf,
  deletedResponses,
  describeOperatorRoute,
  listParts,
  madeId,
  notFoundExample,
  now,
  putResponses,
} from '../operator/description-parts.js';
import { userSchema } from '../operator/schema.js';

const { role: _role, ...owner } = exampleWorld.users.owner;
const { role: _memberRole, ...member } = exampleWorld.users.member;
const { secured } = exampleWorld.users;
const olivia = { ...owner, createdAt };
const max = { ...member, createdAt };
const params = { email: owner.email };
const stranger = { params: { email: 'zoe@acme.example' } };
const strangerDetail = 'There is no user "zoe@acme.example".';
const declared = { name: owner.name, password: exampleWorld.password };

export const userDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: '/operator/users',
    operationId: 'listUsers',
    summary: 'List Users',
    description: 'Everybody who may sign in, ordered by address. Never a password.',
    ...listParts('users', userAnswerSchema, 'Ordered by `email`.'),
    good: {},
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of one',
        request: { credential: 'operator', query: { limit: '1' } },
        response: { status: 200, body: { users: [max], nextCursor: cursorOf(max.email) } },
      },
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: '/operator/users/{email}',
    operationId: 'getUser',
    summary: 'Read a User',
    description: 'A person who may sign in. Never the password.',
    responses: { 200: { description: 'The User.', content: { 'application/json': userAnswerSchema } } },
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'user',
        summary: 'Olivia',
        request: { credential: 'operator', params },
        response: { status: 200, body: olivia },
      },
      notFoundExample(strangerDetail, stranger),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: '/operator/users/{email}',
    operationId: 'putUser',
    summary: 'Declare a User',
    description:
      'Creates the User or makes them as declared. The address never changes. Another password than the present one ends every session of the User at once; the same password changes nothing.',
    body: { schema: userSchema },
    responses: putResponses(userAnswerSchema),
    good: { params, body: declared },
    examples: [
      {
        name: 'unchanged',
        summary: 'As it was: nothing changes, no session ends',
        request: { credential: 'operator', params, body: declared },
        response: { status: 200, body: olivia },
      },
      {
        name: 'created',
        summary: 'A new User',
        request: {
          credential: 'operator',
          ...stranger,
          body: { name: 'Zoë Zander', password: 'a long enough password' },
        },
        response: {
          status: 201,
          body: { id: madeId, email: 'zoe@acme.example', name: 'Zoë Zander', createdAt: now },
        },
      },
      problemExample('invalid_request', {
        summary: 'A password that is too short',
        detail: '/password must be 12 to 256 characters without control characters',
        errors: [
          {
            pointer: '/password',
            code: 'invalid_request',
            detail: 'must be 12 to 256 characters without control characters',
          },
        ],
        request: { credential: 'operator', ...stranger, body: { name: 'Zoë Zander', password: 'short' } },
      }),
    ],
  }),
  describeOperatorRoute({
    method: 'delete',
    path: '/operator/users/{email}',
    operationId: 'deleteUser',
    summary: 'Remove a User',
    description:
      'Removes the User with their memberships and sessions, at once. Keys belong to Organizations: those that the User made keep working, and `createdBy` becomes `null`.',
    responses: deletedResponses,
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'removed',
        summary: 'Removed',
        request: { credential: 'operator', params },
        response: { status: 204 },
      },
      notFoundExample(strangerDetail, stranger),
    ],
  }),
  describeOperatorRoute({
    method: 'delete',
    path: '/operator/users/{email}/sessions',
    operationId: 'deleteUserSessions',
    summary: 'Sign a User out everywhere',
    description: 'Ends every session of the User with the next request. 404 where there is none to end.',
    responses: { 204: { description: 'No session is left.' } },
    errors: ['not_found'],
    good: { params: { email: max.email } },
    examples: [
      {
        name: 'signedOut',
        summary: 'Signed out',
        request: { credential: 'operator', params: { email: max.email } },
        response: { status: 204 },
      },
      notFoundExample(strangerDetail, stranger),
    ],
  }),
  describeOperatorRoute({
    method: 'delete',
    path: '/operator/users/{email}/second-factor',
    operationId: 'deleteUserSecondFactor',
    summary: "Remove a User's second factor",
    description:
      'For whoever lost both their authenticator app and their recovery codes: be sure that it is they who ask. The password alone opens the account from then on, and every session of the User ends with the next request. 404 where there is no second factor.',
    responses: { 204: { description: 'There is no second factor.' } },
    errors: ['not_found'],
    good: { params: { email: secured.email } },
    examples: [
      {
        name: 'removed',
        summary: 'Removed',
        request: { credential: 'operator', params: { email: secured.email } },
        response: { status: 204 },
      },
      notFoundExample(strangerDetail, stranger),
      problemExample('not_found', {
        name: 'noSecondFactor',
        summary: 'A User without a second factor',
        detail: `The user "${owner.email}" has no second factor.`,
        request: { credential: 'operator', params },
      }),
    ],
  }),
];
