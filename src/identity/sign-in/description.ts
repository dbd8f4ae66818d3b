import { z } from 'zod';
import type { ExampleRequest, RouteDescription } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import {
  problemExample,
  serviceProblemExamples,
  serviceProblems,
} from '../../core/reference/problem-examples.js';
import { signInSchema } from './schema.js';

const formType = 'application/x-www-form-urlencoded';
const { email } = exampleWorld.users.owner;

const form: RouteDescription = {
  method: 'get',
  path: '/login',
  operationId: 'getSignInForm',
  tag: 'Signing in',
  summary: 'The form to sign in',
  description: 'A page that works without scripts. Who is signed in already is sent on.',
  security: 'none',
  query: z.object({
    next: z
      .string()
      .optional()
      .meta({ description: 'Where to go on after signing in: a path of this service.' }),
  }),
  responses: {
    200: { description: 'The form.', content: { 'text/html': null } },
    303: { description: 'Signed in already.', headers: ['Location'] },
  },
  errors: serviceProblems,
  examples: [
    {
      name: 'form',
      summary: 'The form',
      request: { credential: 'none' },
      response: { status: 200, body: '<form method="post" action="/login"' },
    },
    {
      name: 'signedIn',
      summary: 'Signed in already',
      request: { credential: 'ownerSession', query: { next: '/dashboard/api-keys?limit=10' } },
      response: { status: 303, headers: { location: '/dashboard/api-keys?limit=10' } },
    },
    ...serviceProblemExamples({ credential: 'ownerSession' }),
  ],
};

const rightBody = { email, password: exampleWorld.password };
const securedBody = { email: exampleWorld.users.secured.email, password: exampleWorld.password };
const wrongBody = { email, password: 'not the password' };
/** Programs get a problem, browsers the form again. */
const asJson = { accept: 'application/json' };
const right: ExampleRequest = { credential: 'none', headers: asJson, body: rightBody };
const wrong: ExampleRequest = { credential: 'none', headers: asJson, body: wrongBody };
const wrongDetail = 'The e-mail address or the password is wrong.';

const signIn: RouteDescription = {
  method: 'post',
  path: '/login',
  operationId: 'signIn',
  tag: 'Signing in',
  summary: 'Sign in',
  description: `
Starts a session and ends the one that the browser had. The answer is the same, and takes as long, for an unknown address and for a wrong password. A session lasts 30 days
from the sign-in, and 7 days without a request.

After 3 failures of an account, from wherever they come, the answers slow down, up to 16 s; a browser in which the account has signed in before (the signed cookie \`gauge_device\`) has a count of its
own. After 10 failures of an account from one network, or 50 from an address, within 15 minutes sign-ins from there are refused with 429. Successes do not count.

Whoever has turned on a second factor gets no session yet: browsers are sent on to \`/login/code\`, and with \`Accept: application/json\` the answer is a 401 that says so. The cookie
of either is good for 10 minutes and 5 codes: post the form field \`code\` with it to \`/login/code\`, a code of the authenticator app or a recovery code, each of which is accepted once.
The answer is then as from here, and after 10 wrong codes of an account within 15 minutes codes are refused with 429.

With \`Accept: application/json\` a failure is a problem document, otherwise the form with a message.
`.trim(),
  security: 'none',
  isLimited: true,
  body: { schema: signInSchema, mediaType: formType },
  responses: {
    303: {
      description: 'Signed in: the cookie holds the session. Or on the way to the second factor.',
      headers: ['Location', 'Set-Cookie'],
    },
    400: { description: 'The form again, with what does not fit.', content: { 'text/html': null } },
    401: {
      description: 'The form again. With a cookie: the second factor is due.',
      content: { 'text/html': null },
      headers: ['Set-Cookie'],
    },
    429: { description: 'The form again.', content: { 'text/html': null } },
  },
  errors: [
    'invalid_request',
    'not_signed_in',
    'cross_site_request',
    'body_too_large',
    'unsupported_media_type',
    'rate_limited',
    ...serviceProblems,
  ],
  examples: [
    {
      name: 'signedIn',
      summary: 'The right password',
      request: right,
      response: { status: 303, headers: { location: '/dashboard' } },
    },
    {
      name: 'formAgain',
      summary: 'A wrong password, from a browser',
      request: { credential: 'none', body: wrongBody },
      response: { status: 401, body: wrongDetail },
    },
    problemExample('not_signed_in', {
      summary: 'A wrong password, or an unknown address',
      detail: wrongDetail,
      request: wrong,
    }),
    {
      name: 'codeDue',
      summary: 'The right password of somebody with a second factor, from a browser',
      request: { credential: 'none', body: securedBody },
      response: { status: 303, headers: { location: '/login/code?next=%2Fdashboard' } },
    },
    problemExample('not_signed_in', {
      name: 'codeDueAsProblem',
      summary: 'The right password of somebody with a second factor, from a program',
      detail:
        'The password is right, and the second factor is due: within 10 minutes, post its code as the form field `code` to /login/code with the cookie of this answer.',
      request: { ...right, body: securedBody },
    }),
    problemExample('invalid_request', {
      summary: 'No password',
      detail: '/password is required',
      errors: [{ pointer: '/password', code: 'invalid_request', detail: 'is required' }],
      request: { ...right, body: { email } },
    }),
    problemExample('rate_limited', {
      summary: 'After too many failures',
      circumstance: 'limit_used_up',
      before: [wrong],
      detail: 'Too many sign-ins have failed. Try again in some minutes.',
      request: wrong,
    }),
    problemExample('cross_site_request', {
      summary: 'Sent from another site',
      detail: 'Changes are accepted from this site’s own pages only.',
      request: { ...right, headers: { ...asJson, 'sec-fetch-site': 'cross-site' } },
    }),
    problemExample('body_too_large', {
      summary: 'More than 16 KiB',
      detail: 'A form holds at most 16,384 bytes.',
      request: { ...right, paddedToBytes: 16_385 },
    }),
    problemExample('unsupported_media_type', {
      summary: 'Not a form',
      detail: 'Send the form with `Content-Type: application/x-www-form-urlencoded`.',
      request: { ...right, headers: { ...asJson, 'content-type': 'application/json' } },
    }),
    ...serviceProblemExamples(right),
  ],
};

const signOut: RouteDescription = {
  method: 'post',
  path: '/logout',
  operationId: 'signOut',
  tag: 'Signing in',
  summary: 'Sign out',
  description:
    'Ends the session at once, wherever its cookie may have been copied to, or a sign-in that waits for its second factor. Without a session, nothing happens; the answer is the same.',
  security: 'session',
  responses: { 303: { description: 'Signed out.', headers: ['Location', 'Set-Cookie'] } },
  errors: ['cross_site_request', ...serviceProblems],
  examples: [
    {
      name: 'signedOut',
      summary: 'Signed out',
      request: { credential: 'ownerSession' },
      response: { status: 303, headers: { location: '/login?done=signed-out' } },
    },
    problemExample('cross_site_request', {
      summary: 'Sent from another site',
      detail: 'Changes are accepted from this site’s own pages only.',
      request: { credential: 'ownerSession', headers: { 'sec-fetch-site': 'cross-site' } },
    }),
    ...serviceProblemExamples({ credential: 'ownerSession' }),
  ],
};

export const signInDescriptions: RouteDescription[] = [form, signIn, signOut];
