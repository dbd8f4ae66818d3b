import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { beginSecretPage } from '../core/http/headers.js';
import { originOf, readPathId } from '../core/http/request.js';
import { parseInput } from '../core/http/validate.js';
import { cutPage, toCursor } from '../core/http/page.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { addForm, fieldError, parseQueryForm, readQuery, tryQuery } from '../core/pages/form.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { createLink, type NewLink } from '../accounts/identity/links/links.js';
import { listSchema } from '../accounts/identity/members/schema.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { emailSchema } from '../accounts/identity/operator/schema.js';
import {
  getOperator,
  inviteOperator,
  listOperators,
  removeOperator,
} from '../accounts/identity/operators/operators.js';
import { requireConfirmation } from '../accounts/identity/session/operator.js';
import { personOf } from '../accounts/identity/session/session.js';
import { failedSince, findFailedSignIns } from '../accounts/identity/sign-in/failed-queries.js';
import { findSearchEnd, listUsers, readPeopleFacts } from '../accounts/identity/users/queries.js';
import { CONSOLE, decodeKey, PAGE_SIZE, PEOPLE, type ConsoleDeps } from './page.js';
import { withEmail } from './people-pages.js';
import { readPerson } from './person-pages.js';

const OPERATORS = `${CONSOLE}/operators`;
/** There are few, so all fit on one page. */
const MAX_OPERATORS = 200;

const inviteSchema = z.strictObject({ email: emailSchema });
const linkSchema = z.strictObject({
  kind: z.enum(['password_reset', 'second_factor_reset'], 'must be one of the options'),
});

export function operatorPages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  addOperators(router, deps);
  addRemoval(router, deps);
  addPeople(router, deps);
  addLinks(router, deps);
  return router;
}

async function showLink(
  deps: ConsoleDeps,
  req: Request,
  res: Response,
  { path, expiresAt }: NewLink,
  { section, email, effect }: { section: string; email: string; effect: string },
): Promise<void> {
  beginSecretPage(res);
  const page = { view: 'console/link', title: 'One-time link', section };
  await renderPage(deps, req, res, page, { link: originOf(req) + path, expiresAt, email, effect });
}

function addOperators(router: Router, deps: ConsoleDeps): void {
  const notices = {
    removed: 'Operator removed. They lose access to the console, starting with the next request.',
  };

  router.get('/operators', async (req, res) => {
    const operators = await listOperators(deps.db.orm, MAX_OPERATORS);
    const page = { view: 'console/operators', title: 'Operators', section: 'operators', notices };
    await renderPage(deps, req, res, page, { operators, ownId: personOf(res).userId });
  });

  addForm(router, '/operators/invite', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { email } = parseInput(inviteSchema, withEmail(fields));
      const made = await changeAsOperator(deps, req, res, (tx, source) =>
        inviteOperator(tx, email, personOf(res).userId, source),
      );
      const effect = 'makes its holder an operator, who can view and change everything here';
      await showLink(deps, req, res, made, { section: 'operators', email, effect });
    },
    show(req, res, form) {
      const page = { view: 'console/invite-operator', title: 'Invite an operator', section: 'operators' };
      return renderPage(deps, req, res, page, { form });
    },
  });
}

function addRemoval(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/operators/:userId/remove', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res) {
      const userId = readPathId(req, 'userId', 'operator');
      await changeAsOperator(deps, req, res, (tx, source) => removeOperator(tx, userId, source));
      const isOwn = userId === personOf(res).userId;
      res.redirect(303, isOwn ? '/dashboard' : toAddress(OPERATORS, { done: 'removed' }));
    },
    async show(req, res, form) {
      const operator = await getOperator(deps.db.orm, readPathId(req, 'userId', 'operator'));
      const page = { view: 'console/remove-operator', title: 'Remove an operator', section: 'operators' };
      await renderPage(deps, req, res, page, { form, operator });
    },
  });
}

const peopleSchema = listSchema.extend({
  signal: z.literal('sign-ins', 'must be one of the options').optional(),
});

function addPeople(router: Router, deps: ConsoleDeps): void {
  const { clock } = deps;
  const { orm } = deps.db;

  router.get('/people', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { search, signal, cursor } = parseQueryForm(peopleSchema, query);
      const range = { after: decodeKey(cursor), limit: PAGE_SIZE };
      const since = failedSince(clock.now());
      const until = search === undefined ? undefined : await findSearchEnd(orm, range.after);
      const filter = { search: search?.trim(), until, failedSince: signal && since };
      const rows = await listUsers(orm, range, filter);
      const { page, nextCursor = until && toCursor(until) } = cutPage(rows, PAGE_SIZE, ({ email }) =>
        toCursor(email),
      );
      const ids = page.map(({ id }) => id);
      const failed = await findFailedSignIns(orm, ids, since);
      const facts = await readPeopleFacts(orm, ids, clock.now());
      const people = page.map(({ id, email, name }) => ({
        ...facts.get(id)!,
        id,
        email,
        name,
        failed: failed.get(id),
      }));
      return { people, pager: toPager(PEOPLE, { search, signal }, { cursor, nextCursor }) };
    });
    const notices = { deleted: 'The account is deleted.' };
    const page = { view: 'console/find-people', title: 'People', section: 'people', notices };
    await renderPage(deps, req, res, page, { form, ...result });
  });
}

function addLinks(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/people/:userId/link', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { kind } = parseInput(linkSchema, fields);
      const { email, ...made } = await changeAsOperator(deps, req, res, async (tx, source) => {
        const person = await readPerson(tx, req);
        if (kind === 'second_factor_reset' && !person.hasFactor)
          throw fieldError('kind', 'needs a second factor, and this person has none');
        const createdBy = personOf(res).userId;
        return { email: person.email, ...(await createLink(tx, { kind, person, createdBy }, source)) };
      });
      const effect =
        kind === 'password_reset'
          ? 'lets its holder choose a new password for this account'
          : 'lets anyone who also knows the password turn the second factor of this account off';
      await showLink(deps, req, res, made, { section: 'people', email, effect });
    },
    async show(req, res, form) {
      const found = await readPerson(deps.db.orm, req);
      const page = { view: 'console/new-link', title: 'One-time link', section: 'people' };
      const values = { kind: 'password_reset', ...readQuery(req), ...form.values };
      await renderPage(deps, req, res, page, { form: { ...form, values }, found });
    },
  });
}
