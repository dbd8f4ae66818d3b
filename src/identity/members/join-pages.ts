import type { ErrorRequestHandler, Request, Response, Router } from 'express';
import { byPerson } from '../session/authority.js';
import { change, byProof } from '../../audit/change.js';
import { passwordProblem } from '../password-rules.js';
import { hashPassword } from '../password.js';
import { findUserByEmail } from '../session/queries.js';
import { clearToken, readToken, sendToken } from '../session/session-cookie.js';
import { endToken } from '../sign-in/sign-in.js';
import { requirePerson, type ReadSession } from '../session/session.js';
import type { Context } from '../../core/http/context.js';
import { prefersHtml } from '../../core/http/accepts.js';
import { hangUpSignal } from '../../core/http/hang-up.js';
import { readForm } from '../../core/http/form-body.js';
import { parseInput } from '../../core/http/validate.js';
import {
  fieldError,
  formRoute,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { browserOf, sourceOf } from './http.js';
import { JOIN, toJoinAddress, toSignInAddress } from './join-address.js';
import { forgetOpened, keepOpened, readOpened } from './join-cookie.js';
import { defaultJoinLimits, limitJoins, type JoinLimits } from './join-limits.js';
import { getInvitation, hasAccount, InvitationGone, joinAs, joinWithNewAccount } from './join.js';
import { roleDescriptions } from './roles.js';
import { accountSchema } from './schema.js';

const JOINED = '/dashboard?done=joined';
const frame = 'card' as const;

/** Where an invitation's link leads: for people who belong to no Organization yet, and often have no account. */
export function joinPages(
  deps: Pick<Context, 'db' | 'clock' | 'limitStores'>,
  readSession: ReadSession,
  limits: Partial<JoinLimits> = {},
): Router {
  const { db, clock } = deps;
  const { wrongLinks, newAccounts } = limitJoins(deps.limitStores, { ...defaultJoinLimits, ...limits });
  const router = pageRouter();
  const now = () => new Date(clock.now());

  /** The pages hold the link's secret: nothing on the way may keep or compress them. */
  router.use(JOIN, (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store, no-transform');
    next();
  });

  router.get(JOIN, wrongLinks, async (req, res) => {
    const token = readOpened(req);
    if (token === undefined) {
      await showLinkForm(req, res, newForm());
      return;
    }
    const person = await readSession(req);
    if (!person) {
      await showAccountForm(req, res, newForm({ invitation: token }));
      return;
    }
    res.locals.person = person;
    const invitation = await getInvitation(db.orm, token, person.userId, now());
    const { isMember, orgName } = invitation;
    const view = isMember ? 'members/join-member' : 'members/join';
    const title = isMember ? 'You are a member already' : `Join ${orgName}`;
    const data = { invitation, description: roleDescriptions[invitation.role], token };
    await renderPage(deps, req, res, { view, title, frame }, data);
  });

  router.post(
    `${JOIN}/open`,
    wrongLinks,
    formRoute({
      act(req, res, fields) {
        const [, token] = /(?:^|#)([\w-]{64})$/.exec(textField(fields, 'invitation')?.trim() ?? '') ?? [];
        if (token === undefined) throw new InvitationGone();
        keepOpened(req, res, token);
        res.redirect(303, JOIN);
        return Promise.resolve();
      },
      show: showLinkForm,
    }),
  );

  router.post(JOIN, wrongLinks, async (req, res) => {
    const token = textField((await readForm(req, res)) as FormFields, 'invitation');
    const person = await readSession(req);
    if (!person) {
      res.redirect(303, toSignInAddress(token));
      return;
    }
    res.locals.person = person;
    const source = sourceOf(req, res, clock, person.userId);
    const hasJoined = await change(deps, byPerson(res), (tx) => joinAs(tx, person, token, source));
    if (hasJoined) forgetOpened(req, res);
    res.redirect(303, hasJoined ? JOINED : toJoinAddress(token));
  });

  router.post(
    `${JOIN}/account`,
    wrongLinks,
    newAccounts,
    formRoute({
      async act(req, res, fields) {
        const { invitation: token, name, password } = parseInput(accountSchema, fields);
        const { email } = await getInvitation(db.orm, token, undefined, now());
        const problem = await passwordProblem(password, email);
        if (problem !== undefined) throw fieldError('password', problem);
        // Hashing takes long, so it happens before anything is locked, and not for an address that needs none.
        if (await findUserByEmail(db.orm, email)) throw hasAccount();
        const account = {
          name: name.trim(),
          passwordHash: await hashPassword(password, hangUpSignal(res)),
          browser: browserOf(req),
        };
        const { actor: _, ...source } = sourceOf(req, res, clock, '');
        const session = await change(deps, byProof, (tx) => joinWithNewAccount(tx, token, account, source));
        sendToken(req, session);
        forgetOpened(req, res);
        res.redirect(303, JOINED);
      },
      show: showAccountForm,
    }),
  );

  function showLinkForm(req: Request, res: Response, form: FormState): Promise<void> {
    const page = { view: 'members/join-open', title: 'Open your invitation', frame };
    return renderPage(deps, req, res, page, { form });
  }

  async function showAccountForm(req: Request, res: Response, form: FormState): Promise<void> {
    const { invitation: token } = form.values;
    const invitation = await getInvitation(db.orm, token, undefined, now());
    const page = { view: 'members/join-account', title: `Join ${invitation.orgName}`, frame };
    await renderPage(deps, req, res, page, {
      invitation,
      description: roleDescriptions[invitation.role],
      isNew: (await findUserByEmail(db.orm, invitation.email)) === undefined,
      signInAddress: toSignInAddress(token),
      form,
    });
  }

  router.post(`${JOIN}/sign-out`, async (req, res) => {
    const address = toJoinAddress(textField((await readForm(req, res)) as FormFields, 'invitation'));
    const session = readToken(req);
    const { actor: _, ...where } = sourceOf(req, res, clock, '');
    if (session !== undefined) await change(deps, byProof, (tx) => endToken(tx, session, where));
    clearToken(req);
    res.redirect(303, address);
  });

  // Whoever has left their last Organization belongs nowhere, so this page cannot ask for one.
  router.get('/dashboard/left', requirePerson(readSession), (req, res) =>
    renderPage(deps, req, res, { view: 'members/left', title: 'You have left', frame }, {}),
  );

  router.use(JOIN, showGone(deps));
  return router;
}

/** One page for every link that opens nothing. */
function showGone(deps: Pick<Context, 'db' | 'clock'>): ErrorRequestHandler {
  return async (thrown, req, res, next) => {
    if (!(thrown instanceof InvitationGone) || res.headersSent || !prefersHtml(req)) {
      next(thrown);
      return;
    }
    res.locals.error = thrown;
    forgetOpened(req, res);
    res.status(404);
    const page = { view: 'members/join-gone', title: 'This invitation does not work', frame };
    await renderPage(deps, req, res, page, {});
  };
}
