import type { Request, Router } from 'express';
import { z } from 'zod';
import type { Orm, Tx } from '../core/db/client.js';
import { AppError } from '../core/errors.js';
import { readPathId } from '../core/http/request.js';
import { nameField, parseInput } from '../core/http/validate.js';
import { toAddress } from '../core/pages/address.js';
import { addForm } from '../core/pages/form.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { filledIn } from '../accounts/identity/account/schema.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { hasOperator } from '../accounts/identity/operators/operators.js';
import { listOrganizationsOf } from '../accounts/identity/organizations/queries.js';
import { hasSecondFactor } from '../accounts/identity/second-factor/queries.js';
import { toSessionView } from '../accounts/identity/account/pages.js';
import { listSessions } from '../accounts/identity/session/queries.js';
import { requireConfirmation } from '../accounts/identity/session/operator.js';
import { readFailedHours } from '../accounts/identity/sign-in/failed-queries.js';
import { findLinkTime } from '../accounts/identity/single-sign-on/queries.js';
import { unlink } from '../accounts/identity/single-sign-on/single-sign-on.js';
import type { Source } from '../accounts/identity/source.js';
import { mailAccountNotice } from '../accounts/identity/users/notices.js';
import { findUser, readPeopleFacts } from '../accounts/identity/users/queries.js';
import { endSessions, putUser, removeSecondFactor, removeUser } from '../accounts/identity/users/users.js';
import { PEOPLE, type ConsoleDeps } from './page.js';

const MAX_ORGANIZATIONS = 100;
const MAX_SESSIONS = 5;

const nameSchema = z.strictObject({ name: nameField });

const notices = {
  renamed: 'The name is saved.',
  'sign-out': 'Signed out everywhere. All their sessions have ended.',
  'second-factor': 'Second factor removed. Their password alone now opens the account.',
  'single-sign-on': 'Single sign-on unlinked. Their next one links the account again.',
};

/** Each has its own confirmation page. */
const actions = {
  'sign-out': {
    title: 'Sign out everywhere',
    effects: ['Every session of this person ends on its next request.', 'They sign in again as before.'],
    work: endSessions,
  },
  'second-factor': {
    title: 'Remove the second factor',
    effects: [
      'The authenticator app, the passkeys and the recovery codes of this person no longer work.',
      'Their password alone then opens the account. First make sure that the request really comes from them.',
      'All their sessions end on the next request.',
    ],
    work: async (tx: Tx, email: string, source: Source, deps: ConsoleDeps) => {
      await removeSecondFactor(tx, email, source);
      await mailAccountNotice(tx, deps, email, 'secondFactor', source, true);
    },
  },
  'single-sign-on': {
    title: 'Unlink single sign-on',
    effects: [
      'The next single sign-on with their verified address links the account again, even to another account of the issuer.',
      'Their sessions stay.',
    ],
    work: unlink,
  },
  delete: {
    title: 'Delete the account',
    effects: [
      'The account, its memberships and its sessions are deleted, effective on the next request. This cannot be undone.',
      'One-time links that they created, or that were created for them, stop working.',
      'API keys that they created belong to the Organizations and keep working.',
      'Organizations where they are the only owner are left without an owner.',
    ],
    work: removeUser,
  },
} as const;
type Action = keyof typeof actions;

export async function readPerson(orm: Orm, req: Request) {
  const found = await findUser(orm, { id: readPathId(req, 'userId', 'person') });
  if (!found) throw new AppError('not_found', 'There is no such person.');
  const { passwordHash: _hash, ...person } = found;
  const hasFactor = await hasSecondFactor(orm, person.id);
  return { ...person, hasFactor, isLinked: (await findLinkTime(orm, person.id)) !== undefined };
}

export function personPages(deps: ConsoleDeps): Router {
  const { clock } = deps;
  const { orm } = deps.db;
  const router = pageRouter();

  addForm(router, '/people/:userId', {
    async act(req, res, fields) {
      const { id } = await readPerson(orm, req);
      const name = parseInput(nameSchema, filledIn(fields)).name.trim();
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const { email, passwordHash } = (await findUser(tx, { id }))!;
        await putUser(tx, email, { name, seenHash: passwordHash, passwordHash }, source);
      });
      res.redirect(303, toAddress(`${PEOPLE}/${id}`, { done: 'renamed' }));
    },
    async show(req, res, form) {
      const person = await readPerson(orm, req);
      const memberships = await listOrganizationsOf(orm, person.id, MAX_ORGANIZATIONS);
      const now = new Date(clock.now());
      const failed = await readFailedHours(orm, person.id, now);
      const sessions = await listSessions(orm, person.id, '', now, MAX_SESSIONS);
      const facts = await readPeopleFacts(orm, [person.id], now.getTime());
      const page = { view: 'console/person', title: person.name, section: 'people', notices };
      const values = { name: person.name, ...form.values };
      await renderPage(deps, req, res, page, {
        form: { ...form, values },
        found: person,
        memberships,
        ...failed,
        ...facts.get(person.id),
        sessions: sessions.map(toSessionView),
      });
    },
  });

  for (const action of Object.keys(actions) as Action[]) addAction(router, deps, action);
  return router;
}

function addAction(router: Router, deps: ConsoleDeps, action: Action): void {
  const { title, effects, work } = actions[action];

  addForm(router, `/people/:userId/${action}`, {
    before: [requireConfirmation(deps.clock)],
    async act(req, res) {
      const { id, email } = await readPerson(deps.db.orm, req);
      await changeAsOperator(deps, req, res, async (tx, source) => {
        await work(tx, email, source, deps);
        if (!(await hasOperator(tx)))
          throw new AppError('invalid_request', 'This is the only operator. Invite another one first.');
      });
      const done = action === 'delete' ? { done: 'deleted' } : { done: action };
      res.redirect(303, toAddress(action === 'delete' ? PEOPLE : `${PEOPLE}/${id}`, done));
    },
    async show(req, res, form) {
      const found = await readPerson(deps.db.orm, req);
      const page = { view: 'console/person-action', title, section: 'people' };
      await renderPage(deps, req, res, page, { form, found, action, effects });
    },
  });
}
