import type { ErrorRequestHandler, Request, Response, Router } from 'express';
import { byPerson } from '../session/authority.js';
import { change, byProof } from '../../audit/audit.js';
import { passwordProblem, hashPassword } from '../password.js';
import { sendToken } from '../session/session-cookie.js';
import { createLimit } from '../sign-in/sign-in-limits.js';
import { signOutHere } from '../sign-in/sign-in-routes.js';
import { arrivalOf, requirePerson, personSource, type ReadSession } from '../session/session.js';
import type { Context } from '../../../core/http/context.js';
import { prefersHtml } from '../../../core/http/request.js';
import { readForm } from '../../../core/http/body.js';
import { addressOf } from '../../../core/http/rate-limit.js';
import { parseInput } from '../../../core/http/validate.js';
import {
  postForm,
  fieldError,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../../core/pages/form.js';
import { toAddress } from '../../../core/pages/address.js';
import { renderPage, pageRouter } from '../../../core/pages/layout.js';
import { keepSecret, openedLink, wrongLinkOptions } from '../links/link-pages.js';
import { findUser } from '../users/queries.js';
import { isTokenShaped, JOIN, toJoinAddress, toSignInAddress } from './invitations.js';
import {
  getInvitation,
  hasAccount,
  InvitationGone,
  InvitationVoid,
  joinAs,
  joinWithNewAccount,
} from './join.js';
import { roleDescriptions } from './members.js';
import { accountSchema } from './schema.js';

const JOINED = '/dashboard?done=joined';

const frame = 'card' as const;

const opened = openedLink('gauge_invitation', isTokenShaped);

export const readOpenedInvitation = (req: Request): string | undefined => opened.read(req);

type JoinDeps = Pick<Context, 'db' | 'clock' | 'config'>;

/** Per IP address within 15 minutes. A new account costs a password hash. */
export type JoinLimits = Record<'wrongLinks' | 'newAccounts', number>;

export function joinPages(
  deps: JoinDeps & Pick<Context, 'limitStores'>,
  readSession: ReadSession,
  limits: Partial<JoinLimits> = {},
): Router {
  const { limitStores: stores } = deps;
  const wrongLinks = createLimit(stores, 'join-links', tooManyLinks, {
    ...wrongLinkOptions,
    limit: limits.wrongLinks ?? wrongLinkOptions.limit,
  });
  const newAccounts = createLimit(stores, 'join-accounts', tooManyAccounts, {
    windowMs: wrongLinkOptions.windowMs,
    limit: limits.newAccounts ?? 20,
    keyGenerator: addressOf,
  });
  const router = pageRouter();
  router.use(JOIN, keepSecret);

  router.get(JOIN, wrongLinks, showJoin(deps, readSession));

  postForm(router, `${JOIN}/open`, {
    before: [wrongLinks],
    act(req, res, fields) {
      const [, token] = /(?:^|#)([\w-]{64})$/.exec(textField(fields, 'invitation')?.trim() ?? '') ?? [];
      if (token === undefined) throw new InvitationGone();
      opened.keep(req, res, token);
      res.redirect(303, JOIN);
      return Promise.resolve();
    },
    show: (req, res, form) => showLinkForm(deps, req, res, form),
  });

  router.post(JOIN, wrongLinks, async (req, res) => {
    const token = textField((await readForm(req, res)) as FormFields, 'invitation');
    const person = await readSession(req);
    if (!person) {
      res.redirect(303, toSignInAddress(token));
      return;
    }
    res.locals.person = person;
    const source = personSource(req, res, deps.clock);
    const hasJoined = await change(deps, byPerson(res), (tx) => joinAs(tx, person, token, source));
    if (hasJoined) opened.forget(req, res);
    res.redirect(303, hasJoined ? JOINED : toJoinAddress(token));
  });

  postForm(router, `${JOIN}/account`, {
    before: [wrongLinks, newAccounts],
    act: createAccount(deps),
    show: (req, res, form) => showAccountForm(deps, req, res, form),
  });

  addLeavingPages(router, deps, readSession);
  router.use(JOIN, showGone(deps));
  return router;
}

const showJoin =
  (deps: JoinDeps, readSession: ReadSession) =>
  async (req: Request, res: Response): Promise<void> => {
    const token = opened.read(req);
    if (token === undefined) return showLinkForm(deps, req, res, newForm());
    const person = await readSession(req);
    if (!person) return showAccountForm(deps, req, res, newForm({ invitation: token }));
    res.locals.person = person;
    const invitation = await getInvitation(deps.db.orm, token, person.userId, new Date(deps.clock.now()));
    const { isMember, orgName } = invitation;
    const view = isMember ? 'accounts/members/join-member' : 'accounts/members/join';
    const title = isMember ? 'You are already a member' : `Join ${orgName}`;
    const data = { invitation, description: roleDescriptions[invitation.role], token };
    await renderPage(deps, req, res, { view, title, frame }, data);
  };

function showLinkForm(deps: JoinDeps, req: Request, res: Response, form: FormState): Promise<void> {
  const page = { view: 'accounts/members/join-open', title: 'Open your invitation', frame };
  return renderPage(deps, req, res, page, { form });
}

async function showAccountForm(deps: JoinDeps, req: Request, res: Response, form: FormState): Promise<void> {
  const { invitation: token } = form.values;
  const invitation = await getInvitation(deps.db.orm, token, undefined, new Date(deps.clock.now()));
  const page = { view: 'accounts/members/join-account', title: `Join ${invitation.orgName}`, frame };
  await renderPage(deps, req, res, page, {
    invitation,
    description: roleDescriptions[invitation.role],
    isNew: (await findUser(deps.db.orm, { email: invitation.email })) === undefined,
    signInAddress: toSignInAddress(token),
    singleSignOn: deps.config.singleSignOn && {
      name: deps.config.singleSignOn.name,
      href: toAddress('/login/single-sign-on', { next: JOIN }),
    },
    form,
  });
}

const createAccount =
  (deps: JoinDeps) =>
  async (req: Request, res: Response, fields: FormFields): Promise<void> => {
    const { db, clock } = deps;
    const { invitation: token, name, password } = parseInput(accountSchema, fields);
    const { email } = await getInvitation(db.orm, token, undefined, new Date(clock.now()));
    const problem = await passwordProblem(password, email);
    if (problem !== undefined) throw fieldError('password', problem);
    if (await findUser(db.orm, { email })) throw hasAccount();
    const arrival = arrivalOf(req, res, clock);
    const account = { name: name.trim(), passwordHash: await hashPassword(password, arrival.gone) };
    const session = await change(deps, byProof, (tx) => joinWithNewAccount(tx, token, account, arrival));
    sendToken(req, session);
    opened.forget(req, res);
    res.redirect(303, JOINED);
  };

function addLeavingPages(router: Router, deps: JoinDeps, readSession: ReadSession): void {
  router.post(`${JOIN}/sign-out`, async (req, res) => {
    const address = toJoinAddress(textField((await readForm(req, res)) as FormFields, 'invitation'));
    await signOutHere(deps, req, res);
    res.redirect(303, address);
  });

  // The visitor no longer has a membership.
  router.get('/dashboard/left', requirePerson(readSession), (req, res) =>
    renderPage(deps, req, res, { view: 'accounts/members/left', title: 'You have left', frame }, {}),
  );
}

function showGone(deps: JoinDeps): ErrorRequestHandler {
  return async (thrown, req, res, next) => {
    const isVoid = thrown instanceof InvitationVoid;
    if (!(isVoid || thrown instanceof InvitationGone) || res.headersSent || !prefersHtml(req)) {
      next(thrown);
      return;
    }
    res.locals.error = thrown;
    if (isVoid) {
      res.status(403);
      const page = {
        view: 'accounts/members/join-void',
        title: 'This invitation does not work at the moment',
        frame,
      };
      await renderPage(deps, req, res, page, { orgName: thrown.orgName });
      return;
    }
    opened.forget(req, res);
    res.status(404);
    const page = { view: 'accounts/members/join-gone', title: 'This invitation does not work', frame };
    await renderPage(deps, req, res, page, {});
  };
}

const tooManyLinks = 'Too many invitations from your address did not work. Try again later.';
const tooManyAccounts = 'Too many accounts were created from your address. Try again later.';
