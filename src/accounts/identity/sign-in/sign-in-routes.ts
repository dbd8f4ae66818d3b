import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { prefersJson } from '../../../core/http/request.js';
import { MAX_FORM_BYTES, readForm } from '../../../core/http/body.js';
import { parseInput } from '../../../core/http/validate.js';
import { defineRoute, type ExampleRequest } from '../../../core/reference/define-route.js';
import { exampleWorld } from '../../reference/example-world.js';
import { invalidExample, problemExample } from '../../../core/reference/problem-examples.js';
import { toAddress } from '../../../core/pages/address.js';
import { byProof, change, type ChangeDeps } from '../../audit/audit.js';
import { HOME, signInSchema, toLocalPath, type SignIn } from './schema.js';
import { clearToken, sendToken } from '../session/session-cookie.js';
import { arrivalOf, type ReadSession } from '../session/session.js';
import { markGuess, setSignIn, type limitSignIns, type Devices } from './sign-in-limits.js';
import { countWrongPassword, endFormer, normalizeEmail, signIn } from './sign-in.js';

const reasons: Record<string, string> = {
  expired: 'That sign-in has expired or was ended. Please start again.',
  kept: 'You are no longer signed in, and nothing was changed. Sign in again: the form comes back with what you typed.',
  exhausted: 'Too many codes were wrong. Please start again with your password.',
};

/** A refusal that the sign-in page shows, whatever its error code. */
export class CannotSignIn extends AppError {}

export type RenderForm = (
  req: Request,
  res: Response,
  view: { email: string; next: string; problem: string | undefined; reason: string | undefined },
) => Promise<void>;

interface SignInDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  readSession: ReadSession;
  renderForm: RenderForm;
  limiters: ReturnType<typeof limitSignIns>;
  devices: Devices;
}

const formType = 'application/x-www-form-urlencoded';
const { email } = exampleWorld.users.owner;

const form = defineRoute({
  method: 'get',
  path: '/login',
  operationId: 'getSignInForm',
  tag: 'Signing in',
  summary: 'The sign-in form',
  description: 'A page that works without JavaScript. Anyone already signed in is redirected.',
  credential: 'none',
  query: z.object({
    next: z
      .string()
      .optional()
      .meta({ description: 'Where to continue after signing in: a path of this service.' }),
  }),
  responses: {
    200: { description: 'The form.', content: { 'text/html': null } },
    303: { description: 'Already signed in.', headers: ['Location'] },
  },
  usesDatabase: true,
  good: { credential: 'ownerSession' },
  examples: [
    { name: 'form', summary: 'The form', request: {}, answer: '<form method="post" action="/login"' },
    {
      name: 'signedIn',
      summary: 'Already signed in',
      request: { credential: 'ownerSession', query: { next: '/dashboard/api-keys?limit=10' } },
      status: 303,
      answerHeaders: { location: '/dashboard/api-keys?limit=10' },
    },
  ],
  handler:
    ({ readSession, renderForm }: SignInDeps) =>
    async (req, res) => {
      const next = toLocalPath(req.query.next, HOME);
      const session = await readSession(req);
      // The dashboard needs an Organization. A person without one stays here and can sign in as somebody else.
      if (session && (session.orgId !== null || next !== HOME)) {
        res.redirect(303, next);
        return;
      }
      res.locals.person = session;
      await renderForm(req, res, { email: '', next, problem: undefined, reason: reasonOf(req) });
    },
});

const rightBody = { email, password: exampleWorld.password };
const securedBody = { email: exampleWorld.users.secured.email, password: exampleWorld.password };
const wrongBody = { email, password: 'not the password' };
const asJson = { accept: 'application/json' };
const right: ExampleRequest = { headers: asJson, body: rightBody };
const wrong: ExampleRequest = { headers: asJson, body: wrongBody };
const wrongPassword = 'The e-mail address or the password is wrong.';
const codeIsDue =
  'The password is right, and a second factor is required. Within 10 minutes, post the code as the form field `code` to /login/code with the cookie of this response.';

const submit = defineRoute({
  method: 'post',
  path: '/login',
  operationId: 'signIn',
  tag: 'Signing in',
  summary: 'Sign in',
  description: `
Starts a session and ends the browser's earlier one. The response to an unknown address and to a wrong password is the same and takes the same time. A session ends 30 days
after the sign-in, or after 7 days without a request.

After 3 failures for an account from any address, responses are delayed by up to 16 s. A browser in which the account has signed in before (signed cookie \`gauge_device\`) has its own
count. After 10 failures for an account from one network, or 50 from an address, within 15 minutes, further sign-ins from there get 429. Successes do not count.

A person with a second factor does not get a session yet. Browsers are redirected to \`/login/code\`; with \`Accept: application/json\`, the response is a 401 that asks for the code. Its cookie
is valid for 10 minutes and 5 codes. Post the form field \`code\` with it to \`/login/code\`: a code of the authenticator app or a recovery code. Each code is accepted once.
That response is the same as here. After 10 wrong codes for an account within 15 minutes, counted over all pages that ask for one, codes get 429.

With \`Accept: application/json\`, a failure is a problem document; otherwise it is the form with a message.
`.trim(),
  credential: 'none',
  limit: 'sign-ins',
  body: { schema: signInSchema, mediaType: formType, maxBytes: MAX_FORM_BYTES },
  responses: {
    303: {
      description: 'Signed in, with the session in the cookie; or redirected to the second factor.',
      headers: ['Location', 'Set-Cookie'],
    },
    400: { description: 'The form again, with the mistakes.', content: { 'text/html': null } },
    401: {
      description: 'The form again. With a cookie: a second factor is required.',
      content: { 'text/html': null },
      headers: ['Set-Cookie'],
    },
    429: { description: 'The form again.', content: { 'text/html': null } },
  },
  errors: ['cross_site_request'],
  usesDatabase: true,
  examples: [
    {
      name: 'signedIn',
      summary: 'The right password',
      request: right,
      answerHeaders: { location: '/dashboard' },
    },
    {
      name: 'formAgain',
      summary: 'A wrong password, from a browser',
      request: { body: wrongBody },
      status: 401,
      answer: wrongPassword,
    },
    problemExample('not_signed_in', {
      summary: 'A wrong password, or an unknown address',
      detail: wrongPassword,
      request: wrong,
    }),
    {
      name: 'codeDue',
      summary: 'The right password of a User with a second factor, from a browser',
      request: { body: securedBody },
      answerHeaders: { location: '/login/code?next=%2Fdashboard' },
    },
    problemExample('not_signed_in', {
      name: 'codeDueAsProblem',
      summary: 'The right password of a User with a second factor, from a program',
      detail: codeIsDue,
      request: { ...right, body: securedBody },
    }),
    invalidExample('No password', { ...right, body: { email } }),
    problemExample('rate_limited', {
      summary: 'After too many failures',
      circumstance: 'limit_used_up',
      before: [wrong],
      detail: 'Too many failed sign-ins. Try again in a few minutes.',
      request: wrong,
    }),
    problemExample('body_too_large', {
      summary: 'More than 16 KiB',
      detail: `A form can have at most ${MAX_FORM_BYTES.toLocaleString('en')} bytes.`,
      request: { ...right, paddedToBytes: MAX_FORM_BYTES + 1 },
    }),
    problemExample('unsupported_media_type', {
      summary: 'A body that is not a form',
      detail: 'Send the form with `Content-Type: application/x-www-form-urlencoded`.',
      request: { ...right, headers: { ...asJson, 'content-type': 'application/json' } },
    }),
  ],
  handler: (deps: SignInDeps) => [
    readCredentials(deps.devices),
    ...deps.limiters.passwords,
    async (req, res) => {
      const credentials = res.locals.credentials as SignIn;
      const next = toLocalPath(credentials.next, HOME);
      const signedIn = await signIn(deps, credentials, arrivalOf(req, res, deps.clock));
      if (!signedIn) {
        countWhenAnswered(deps, res, credentials.email);
        throw new AppError('not_signed_in', wrongPassword);
      }
      sendToken(req, signedIn.token);
      markGuess(res, true);
      if (!signedIn.isCodeDue) {
        deps.devices.remember(req, res, normalizeEmail(credentials.email));
        res.redirect(303, next);
      } else if (prefersJson(req)) throw new AppError('not_signed_in', codeIsDue);
      else res.redirect(303, toAddress('/login/code', { next }));
    },
  ],
});

const signOut = defineRoute({
  method: 'post',
  path: '/logout',
  operationId: 'signOut',
  tag: 'Signing in',
  summary: 'Sign out',
  description:
    'Ends the session at once, including copies of its cookie, or a sign-in that waits for its second factor. Without a session, nothing happens and the response is the same.',
  credential: 'session',
  responses: { 303: { description: 'Signed out.', headers: ['Location', 'Set-Cookie'] } },
  isCredentialOptional: true,
  errors: ['cross_site_request'],
  examples: [
    {
      name: 'signedOut',
      summary: 'Signed out',
      request: {},
      answerHeaders: { location: '/login?done=signed-out' },
    },
  ],
  handler: (deps: SignInDeps) => async (req, res) => {
    await signOutHere(deps, req, res);
    res.redirect(303, toAddress('/login', { done: 'signed-out' }));
  },
});

export const signInRoutes = [form, submit, signOut];

export async function signOutHere(deps: ChangeDeps, req: Request, res: Response): Promise<void> {
  const arrival = arrivalOf(req, res, deps.clock);
  if (arrival.formerToken !== undefined) await change(deps, byProof, (tx) => endFormer(tx, arrival));
  clearToken(req);
}

const readCredentials =
  (devices: Devices): RequestHandler =>
  async (req, res, next) => {
    const credentials = parseInput(signInSchema, await readForm(req, res));
    res.locals.credentials = credentials;
    setSignIn(req, res, devices, credentials.email);
    next();
  };

function countWhenAnswered(deps: SignInDeps, res: Response, email: string): void {
  res.once('close', () => {
    countWrongPassword(deps, email).catch((error: unknown) =>
      deps.log.warn({ err: error }, 'a failed sign-in could not be counted'),
    );
  });
}

const reasonOf = ({ query }: Request): string | undefined =>
  typeof query.again === 'string' && Object.hasOwn(reasons, query.again) ? reasons[query.again] : undefined;
