import Bowser from 'bowser';
import type { Request, Response, Router } from 'express';
import { readPathId } from '../../../core/http/request.js';
import { z } from 'zod';
import { parseInput } from '../../../core/http/validate.js';
import { toAddress } from '../../../core/pages/address.js';
import { postForm, addForm, fieldError, newForm, type FormState } from '../../../core/pages/form.js';
import { renderPage, pageRouter } from '../../../core/pages/layout.js';
import { maySetAlerts } from '../../organizations/table.js';
import { listOrganizationsOf } from '../organizations/queries.js';
import { MAX_PASSWORD, MIN_PASSWORD, passwordProblem } from '../password.js';
import { readFactor, type GivenFactor } from '../second-factor/codes.js';
import { findFactors } from '../second-factor/queries.js';
import { isConfirmedAt } from '../session/authority.js';
import { clearToken, sendToken } from '../session/session-cookie.js';
import { personOf, requirePerson, type ReadSession } from '../session/session.js';
import { findDemoCode, type ListDemoLogins } from '../sign-in/demo-logins.js';
import { HOME, toLocalPath } from '../sign-in/schema.js';
import { readFailedHours } from '../sign-in/failed-queries.js';
import { describeAddress } from '../source.js';
import type { User } from '../users/queries.js';
import {
  audit,
  changeAccount,
  changeName,
  changeNotices,
  changePassword,
  endSession,
  requireCodeIfOn,
  signOutEverywhere,
  type Author,
} from './account.js';
import { ACCOUNT, authorOf, confirmed, issuerProof, renderAccount, type AccountDeps } from './page.js';
import { countSessions, listSessions, updateSession } from '../session/queries.js';
import { confirmBothSchema, filledIn, nameSchema, noticesSchema, passwordSchema } from './schema.js';
import type { Issuer } from '../single-sign-on/issuer.js';
import { passkeyPages, secondFactorPages } from './second-factor-pages.js';
import { accountSingleSignOnPages } from './single-sign-on-pages.js';

export function accountPages(deps: AccountDeps, issuer: Issuer | undefined): Router {
  const router = pageRouter();
  router.use(profilePages(deps));
  router.use(passwordPages(deps));
  router.use(secondFactorPages(deps));
  router.use(passkeyPages(deps));
  router.use(accountSingleSignOnPages(deps, issuer));
  router.use(sessionPages(deps));
  return router;
}

const MAX_ORGANIZATIONS = 100;

const profileNotices = {
  saved: 'Your name is saved.',
  unchanged: 'That is already your name.',
  'notices-saved': 'Your choice is saved.',
};

function profilePages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const { userId } = personOf(res);
    const organizationsOf = await listOrganizationsOf(db.orm, userId, MAX_ORGANIZATIONS + 1);
    const page = { view: 'profile', title: 'Your account', notices: profileNotices };
    await renderAccount(deps, req, res, page, {
      form,
      hasMail: deps.config.mail !== undefined,
      memberships: organizationsOf
        .slice(0, MAX_ORGANIZATIONS)
        .map((membership) => ({ ...membership, hasNotices: maySetAlerts(membership.role) })),
      hasMoreMemberships: organizationsOf.length > MAX_ORGANIZATIONS,
    });
  };

  router.get('/account', (req, res) => show(req, res, newForm({ name: personOf(res).userName })));

  postForm(router, '/account', {
    async act(req, res, fields) {
      const name = parseInput(nameSchema, filledIn(fields)).name.trim();
      if (name === '') throw fieldError('name', 'must not be blank');
      const isChanged = await changeName(deps, authorOf(deps, req, res), name);
      res.redirect(303, toAddress(ACCOUNT, { done: isChanged ? 'saved' : 'unchanged' }));
    },
    show,
  });

  postForm(router, '/account/notices', {
    async act(req, res, fields) {
      const { organization, notices } = parseInput(noticesSchema, fields);
      await changeNotices(deps, authorOf(deps, req, res), organization, notices === 'on');
      res.redirect(303, toAddress(ACCOUNT, { done: 'notices-saved' }));
    },
    show: (req, res, form) => show(req, res, { ...form, values: { name: personOf(res).userName } }),
  });
  return router;
}

const passwordNotices = { changed: 'Your password is changed. All your other sessions have ended.' };

function passwordPages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  addForm(router, '/account/password', {
    async act(req, res, fields) {
      const { newPassword, newPasswordAgain, ...proof } = parseInput(passwordSchema, filledIn(fields));
      const problem = await passwordProblem(newPassword, personOf(res).email);
      if (problem !== undefined) throw fieldError('newPassword', problem);
      if (newPassword !== newPasswordAgain)
        throw fieldError('newPasswordAgain', 'does not match the new password');
      const token = await confirmed(deps, req, res, proof, async (author, person, given) => {
        if (newPassword === proof.currentPassword)
          throw fieldError('newPassword', 'is already your password');
        return changePassword(deps, author, person, { newPassword, given });
      });
      sendToken(req, token);
      res.redirect(303, toAddress(`${ACCOUNT}/password`, { done: 'changed' }));
    },
    async show(req, res, form) {
      const page = { view: 'password', title: 'Your password', notices: passwordNotices };
      const { userId, hasSecondFactor: hasFactor } = personOf(res);
      await renderAccount(deps, req, res, page, {
        form,
        hasFactor,
        ...(await findFactors(db.orm, userId)),
        min: MIN_PASSWORD,
        max: MAX_PASSWORD,
      });
    },
  });
  return router;
}

/** `Firefox on Windows`, or the first word of an unknown user agent. */
export const toSessionView = <T extends { ip: string; userAgent: string }>({
  ip,
  userAgent,
  ...session
}: T) => ({
  ...session,
  browser: describeBrowser(userAgent),
  address: describeAddress(ip),
});

export function describeBrowser(userAgent: string): string {
  if (userAgent === '') return 'Unknown browser';
  const { browser, os } = Bowser.parse(userAgent);
  const name = browser.name || userAgent.split(/[\s/(;]/)[0]!.slice(0, 40) || 'Unknown browser';
  return os.name ? `${name} on ${os.name}` : name;
}

const MAX_SESSIONS = 100;

const SESSIONS = `${ACCOUNT}/sessions`;

function sessionPages(deps: AccountDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const { userId, sessionId } = personOf(res);
    const now = new Date(clock.now());
    const rows = await listSessions(db.orm, userId, sessionId, now, MAX_SESSIONS);
    const total = rows.length < MAX_SESSIONS ? rows.length : await countSessions(db.orm, userId, now);
    const page = { view: 'sessions', title: 'Your sessions', notices: { ended: 'The session has ended.' } };
    await renderAccount(deps, req, res, page, {
      form,
      total,
      ...(await readFailedHours(db.orm, userId, now)),
      sessions: rows.map(toSessionView),
    });
  };

  router.get('/account/sessions', (req, res) => show(req, res, newForm()));

  postForm(router, '/account/sessions/:id/end', {
    async act(req, res) {
      const author = authorOf(deps, req, res);
      const ended = await endSession(deps, author, readPathId(req, 'id', 'session'));
      if (ended !== author.sessionId) {
        res.redirect(303, toAddress(SESSIONS, { done: 'ended' }));
        return;
      }
      clearToken(req);
      res.redirect(303, toAddress('/login', { done: 'signed-out' }));
    },
    show,
  });

  postForm(router, '/account/sign-out-everywhere', {
    async act(req, res) {
      await signOutEverywhere(deps, authorOf(deps, req, res));
      clearToken(req);
      res.redirect(303, toAddress('/login', { done: 'signed-out-everywhere' }));
    },
    show,
  });
  return router;
}

const confirmSchema = confirmBothSchema.extend({ next: z.string().optional() });

const confirmNotices = {
  asked:
    'You were signed in, but the single sign-on did not say that it asked you again. Use your password here.',
};

export function confirmPages(deps: AccountDeps, readSession: ReadSession, listDemoLogins: ListDemoLogins) {
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const next = toLocalPath(req.query.next ?? form.values.next, HOME);
    const { email, hasSecondFactor: hasFactor, userId } = personOf(res);
    const demoLogin = listDemoLogins().find((login) => login.email === email);
    const proof = issuerProof(deps, res, next);
    const page = {
      view: 'accounts/account/confirm',
      title: 'Confirm it’s you',
      frame: 'card',
      notices: confirmNotices,
    } as const;
    await renderPage(deps, req, res, page, {
      form,
      next,
      leave: next.startsWith('/console') ? '/console' : HOME,
      hasFactor,
      demo: demoLogin && { ...demoLogin, code: await findDemoCode(deps, [demoLogin], { email, userId }) },
      ...(await findFactors(deps.db.orm, userId)),
      proof: proof && { ...proof, isConfirmed: false },
    });
  };

  router.get('/confirm', requirePerson(readSession), async (req, res) => {
    const isDone = req.query.done === 'asked' && isConfirmedAt(personOf(res), new Date(deps.clock.now()));
    if (isDone) res.redirect(303, toLocalPath(req.query.next, HOME));
    else await show(req, res, newForm());
  });

  postForm(router, '/confirm', {
    before: [requirePerson(readSession)],
    async act(req, res, fields) {
      const { next, ...input } = parseInput(confirmSchema, filledIn(fields));
      await confirmed(deps, req, res, input, (author, person, given) => confirm(deps, author, person, given));
      res.redirect(303, toLocalPath(next, HOME));
    },
    show,
  });
  return router;
}

async function confirm(deps: AccountDeps, author: Author, person: User, given: GivenFactor): Promise<void> {
  const code = await readFactor(deps.db.orm, { ...author, now: author.at }, given);
  await changeAccount(deps, author, person, async (tx) => {
    await requireCodeIfOn(tx, deps.secrets, author, code);
    await updateSession(tx, author.sessionId, { confirmedAt: author.at });
    await audit(tx, author, 'user.confirmed');
  });
}
