import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { prefersJson } from '../../../core/http/request.js';
import { MAX_FORM_BYTES, readForm } from '../../../core/http/body.js';
import { parseInput } from '../../../core/http/validate.js';
import { defineRoute } from '../../../core/reference/define-route.js';
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

const form = defineRoute({
  at: 'GET /login',
  operationId: 'getSignInForm',
  tag: 'Signing in',
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
  handler: (deps: SignInDeps) => async (req, res) => {
    const next = toLocalPath(req.query.next, HOME);
    const session = await deps.readSession(req);
    // A person without an Organization stays here and can sign in as somebody else.
    if (session && (session.orgId !== null || next !== HOME)) {
      res.redirect(303, next);
      return;
    }
    res.locals.person = session;
    await deps.renderForm(req, res, { email: '', next, problem: undefined, reason: reasonOf(req) });
  },
});

const wrongPassword = 'The e-mail address or the password is wrong.';
const codeIsDue =
  'The password is right, and a second factor is required. Within 10 minutes, post the code as the form field `code` to /login/code with the cookie of this response.';

const submit = defineRoute({
  at: 'POST /login',
  operationId: 'signIn',
  tag: 'Signing in',
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
  at: 'POST /logout',
  operationId: 'signOut',
  tag: 'Signing in',
  credential: 'session',
  responses: { 303: { description: 'Signed out.', headers: ['Location', 'Set-Cookie'] } },
  isCredentialOptional: true,
  errors: ['cross_site_request'],
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
