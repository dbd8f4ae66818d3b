import type { RouteDescription } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import {
  bodyProblemExamples,
  bodyProblems,
  problemExample,
  serviceProblemExamples,
  serviceProblems,
  sessionProblemExamples,
  sessionProblems,
} from '../../core/reference/problem-examples.js';
import { chooseOrganizationSchema, MAX_BODY_BYTES, sessionSchema } from './schema.js';

const { organization, users } = exampleWorld;
const { role, ...user } = users.owner;
const session = { user, organization, role, organizations: [{ ...organization, role }] };

const read: RouteDescription = {
  method: 'get',
  path: '/dashboard/session',
  operationId: 'getSession',
  tag: 'Signing in',
  summary: 'Who is signed in?',
  description:
    'The person, the Organization they look at and their role in it as of now, and all Organizations they belong to.',
  security: 'session',
  responses: { 200: { description: 'The session.', content: { 'application/json': sessionSchema } } },
  errors: [...sessionProblems(false), ...serviceProblems],
  examples: [
    {
      name: 'session',
      summary: 'An owner',
      request: { credential: 'ownerSession' },
      response: { status: 200, body: session },
    },
    ...sessionProblemExamples({}, false),
    ...serviceProblemExamples({ credential: 'ownerSession' }),
  ],
};

const body = { organization: 'acme' };

const choose: RouteDescription = {
  method: 'post',
  path: '/dashboard/organization',
  operationId: 'chooseOrganization',
  tag: 'Signing in',
  summary: 'Choose the Organization to look at',
  description:
    'For people who belong to several. Every later request of this session is about the chosen one. As a form (`application/x-www-form-urlencoded`) it answers 303 to the dashboard.',
  security: 'session',
  body: { schema: chooseOrganizationSchema },
  responses: {
    200: { description: 'The session as it is now.', content: { 'application/json': sessionSchema } },
    303: { description: 'To a form: chosen.', headers: ['Location'] },
  },
  errors: ['invalid_request', ...bodyProblems, ...sessionProblems(true), 'not_found', ...serviceProblems],
  examples: [
    {
      name: 'chosen',
      summary: 'Chosen',
      request: { credential: 'ownerSession', body },
      response: { status: 200, body: session },
    },
    {
      name: 'chosenByForm',
      summary: 'Chosen with a form',
      request: {
        credential: 'ownerSession',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        rawBody: 'organization=acme',
      },
      response: { status: 303, headers: { location: '/dashboard' } },
    },
    problemExample('invalid_request', {
      summary: 'No slug',
      detail: '/organization is required',
      errors: [{ pointer: '/organization', code: 'invalid_request', detail: 'is required' }],
      request: { credential: 'ownerSession', body: {} },
    }),
    problemExample('not_found', {
      summary: 'An Organization that the person does not belong to',
      detail: 'You belong to no such Organization.',
      request: { credential: 'ownerSession', body: { organization: 'globex' } },
    }),
    ...bodyProblemExamples({ credential: 'ownerSession', body }, MAX_BODY_BYTES),
    ...sessionProblemExamples({ body }, true),
    ...serviceProblemExamples({ credential: 'ownerSession', body }),
  ],
};

export const sessionDescriptions: RouteDescription[] = [read, choose];
