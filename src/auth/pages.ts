import { Router, type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express';
import type { Context } from '../context.js';
import { AppError, type ErrorCode } from '../errors.js';
import { prefersJson } from '../http/accepts.js';
import { readForm } from '../http/form-body.js';
import { setProblemHeaders, statusByCode, toAppError } from '../http/problem.js';
import { parseInput } from '../http/validate.js';
import { renderPage } from '../pages/layout.js';
import { toLocalPath } from './local-path.js';
import { deleteSession } from './queries.js';
import { signInSchema } from './schema.js';
import type { ReadSession } from './session.js';
import { clearToken, hashToken, readToken, sendToken } from './session-cookie.js';
import { credentialsOf, limitSignIns, type SignInLimits } from './sign-in-limits.js';
import { signIn } from './sign-in.js';

/** Where a person goes who was not going anywhere. */
export const HOME = '/dashboard';

/** `/login` and `/logout`: forms that work without a script. */
export function signInPages(
  { db, clock, limitStores }: Pick<Context, 'db' | 'clock' | 'limitStores'>,
  readSession: ReadSession,
  limits: SignInLimits,
): Router {
  const { perAddress, perAccount, slowDown } = limitSignIns(limitStores, limits);
  const router = Router();
  const renderForm: RenderForm = (req, res, view) =>
    renderPage({ db, clock }, req, res, { view: 'login', title: 'Sign in', frame: 'card' }, view);

  router.get('/login', async (req, res) => {
    const next = toLocalPath(req.query.next, HOME);
    const session = await readSession(req);
    // Without an Organization there is nowhere to go, only to come back as somebody else.
    if (session && session.orgId !== null) res.redirect(303, next);
    else await renderForm(req, res, { email: '', next, problem: undefined });
  });

  router.post('/login', perAddress, readCredentials, perAccount, slowDown, async (req, res) => {
    const credentials = credentialsOf(res);
    const token = await signIn({ db, clock }, credentials, {
      formerToken: readToken(req),
      ip: req.ip ?? '',
      userAgent: req.get('user-agent') ?? '',
    });
    if (token === undefined)
      throw new AppError('not_signed_in', 'The e-mail address or the password is wrong.');
    sendToken(req, token);
    res.redirect(303, toLocalPath(credentials.next, HOME));
  });
  router.use('/login', answerWithForm(renderForm));

  router.post('/logout', async (req, res) => {
    const token = readToken(req);
    if (token !== undefined) await deleteSession(db.orm, hashToken(token));
    clearToken(req);
    res.redirect(303, '/login');
  });

  return router;
}

const readCredentials: RequestHandler = async (req, res, next) => {
  res.locals.credentials = parseInput(signInSchema, await readForm(req, res));
  next();
};

/** What a person can put right in the form itself. */
const formCodes = new Set<ErrorCode>(['invalid_request', 'not_signed_in', 'rate_limited']);

function answerWithForm(renderForm: RenderForm): ErrorRequestHandler {
  return async (thrown, req, res, next) => {
    const error = toAppError(thrown);
    if (!formCodes.has(error.code) || prefersJson(req) || res.headersSent) {
      next(thrown);
      return;
    }
    res.locals.error = error;
    setProblemHeaders(res, error);
    res.status(statusByCode[error.code]);
    await renderForm(req, res, { ...readTyped(req), problem: error.message });
  };
}

/** What the person typed, as far as it is worth typing again. */
function readTyped(req: Request): { email: string; next: string } {
  const { email, next } = (req.body ?? {}) as { email?: unknown; next?: unknown };
  return { email: typeof email === 'string' ? email.slice(0, 320) : '', next: toLocalPath(next, HOME) };
}

type RenderForm = (
  req: Request,
  res: Response,
  view: { email: string; next: string; problem: string | undefined },
) => Promise<void>;
