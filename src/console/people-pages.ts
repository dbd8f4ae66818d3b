import type { Request, Response, Router } from 'express';
import { NIL } from 'uuid';
import { z } from 'zod';
import { beginSecretPage } from '../core/http/headers.js';
import { originOf, readPathId } from '../core/http/request.js';
import { parseInput } from '../core/http/validate.js';
import { cutPage, toCursor } from '../core/http/page.js';
import { toAddress, toPager } from '../core/pages/address.js';
import {
  addForm,
  newForm,
  textField,
  type FormFields,
  type FormState,
  parseQueryForm,
  readQuery,
} from '../core/pages/form.js';
import { pageRouter } from '../core/pages/layout.js';
import { listOpenInvitations } from '../accounts/identity/members/invitation-queries.js';
import {
  inviteAsOperator,
  MAX_OPEN_INVITATIONS,
  revokeInvitation,
  toInvitationLink,
  type NewInvitation,
} from '../accounts/identity/members/invitations.js';
import {
  putMember,
  removeMemberByEmail,
  requireMember,
  roleDescriptions,
} from '../accounts/identity/members/members.js';
import { hasOtherOwner, listMembers } from '../accounts/identity/members/queries.js';
import {
  invitationDays,
  invitationSchema,
  listSchema,
  roleSchema,
} from '../accounts/identity/members/schema.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { requireConfirmation } from '../accounts/identity/session/operator.js';
import { personOf } from '../accounts/identity/session/session.js';
import { failedSince, findFailedSignIns } from '../accounts/identity/sign-in/failed-queries.js';
import { normalizeEmail } from '../accounts/identity/sign-in/sign-in.js';
import { readPeopleFacts } from '../accounts/identity/users/queries.js';
import type { Organization } from '../accounts/identity/organizations/queries.js';
import { roles, type Role } from '../accounts/organizations/table.js';
import { addressOf, decodeKey, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';

const notices = {
  removed: 'The person was removed. Their access has ended.',
  revoked: 'The invitation was revoked. Its link no longer works.',
  'role-changed': 'The role was changed. It takes effect on the next request.',
};

export const inviteSchema = invitationSchema.omit({ id: true });

export const withEmail = (fields: FormFields): FormFields => ({
  ...fields,
  email: normalizeEmail(textField(fields, 'email') ?? ''),
});

/** The only page with the link, unless it was mailed. */
export async function showInvitation(
  deps: ConsoleDeps,
  req: Request,
  res: Response,
  customer: Organization,
  { token, ...invitation }: { email: string; role: Role; isNewCustomer?: boolean } & NewInvitation,
): Promise<void> {
  const link = token && toInvitationLink(originOf(req), token);
  beginSecretPage(res);
  const page = { view: 'accounts/members/invited', tab: 'people', title: 'Invitation created' };
  const description = roleDescriptions[invitation.role];
  await renderCustomer(deps, req, res, page, customer, { ...invitation, description, link });
}
const cursorSchema = z.object({ cursor: listSchema.shape.cursor });

export function customerPeoplePages(deps: ConsoleDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  router.get('/customers/:slug/people', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const { cursor } = parseQueryForm(cursorSchema, readQuery(req));
    const rows = await listMembers(db.orm, customer.id, { after: decodeKey(cursor), limit: PAGE_SIZE });
    const { page, nextCursor } = cutPage(rows, PAGE_SIZE, ({ email }) => toCursor(email));
    const ids = page.map(({ userId }) => userId);
    const failed = await findFailedSignIns(db.orm, ids, failedSince(clock.now()));
    const facts = await readPeopleFacts(db.orm, ids, clock.now());
    const members = page.map((member) => ({
      ...member,
      ...facts.get(member.userId),
      failed: failed.get(member.userId),
    }));
    const now = new Date(clock.now());
    const view = { view: 'console/people', tab: 'people', title: 'People', notices };
    await renderCustomer(deps, req, res, view, customer, {
      members,
      invitations: await listOpenInvitations(db.orm, customer.id, now, MAX_OPEN_INVITATIONS),
      pager: toPager(`${addressOf(customer.slug)}/people`, {}, { cursor, nextCursor }),
    });
  });

  addInvitations(router, deps);
  addMember(router, deps);
  return router;
}

function addInvitations(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/customers/:slug/invite', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const customer = await readCustomer(deps, req);
      const { days, ...input } = parseInput(inviteSchema, withEmail(fields));
      const invited = { ...input, days: Number(days) };
      const invitation = await changeAsOperator(deps, req, res, (tx, source) =>
        inviteAsOperator(tx, customer.id, invited, personOf(res).userId, source, deps.config.mail),
      );
      await showInvitation(deps, req, res, customer, { ...input, ...invitation });
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const hasOwner = await hasOtherOwner(deps.db.orm, customer.id, NIL);
      const { email, role = hasOwner ? 'member' : 'owner' } = readQuery(req);
      const values = { email, role, days: '7', ...form.values };
      const page = { view: 'accounts/members/invite', tab: 'people', title: 'Invite a member' };
      await renderCustomer(deps, req, res, page, customer, {
        form: { ...form, values },
        roleChoices: roles,
        roleDescriptions,
        dayChoices: invitationDays,
        hasMail: deps.config.mail !== undefined,
      });
    },
  });

  router.post('/customers/:slug/invitations/:id/revoke', async (req, res) => {
    const { id: orgId, slug } = await readCustomer(deps, req);
    const id = readPathId(req, 'id', 'invitation');
    await changeAsOperator(deps, req, res, (tx, source) => revokeInvitation(tx, orgId, id, source, true));
    res.redirect(303, toAddress(`${addressOf(slug)}/people`, { done: 'revoked' }));
  });
}

function addMember(router: Router, deps: ConsoleDeps): void {
  const { db } = deps;
  const readMember = async (req: Request) => {
    const customer = await readCustomer(deps, req);
    return {
      customer,
      member: await requireMember(db.orm, customer.id, readPathId(req, 'userId', 'member')),
    };
  };

  const show = async (req: Request, res: Response, form: FormState) => {
    const { customer, member } = await readMember(req);
    const isLastOwner = member.role === 'owner' && !(await hasOtherOwner(db.orm, customer.id, member.userId));
    const page = { view: 'console/member', tab: 'people', title: member.name };
    const values = { role: member.role, ...form.values };
    const choices = { roleChoices: roles, roleDescriptions };
    await renderCustomer(deps, req, res, page, customer, {
      ...choices,
      member,
      isLastOwner,
      form: { ...form, values },
    });
  };

  router.get('/customers/:slug/people/:userId', (req, res) => show(req, res, newForm()));

  addForm(router, '/customers/:slug/people/:userId/role', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { customer, member } = await readMember(req);
      const { role } = parseInput(roleSchema.pick({ role: true }), fields);
      await changeAsOperator(deps, req, res, (tx, source) =>
        putMember(tx, customer.slug, member.email, { role }, source),
      );
      res.redirect(303, toAddress(`${addressOf(customer.slug)}/people`, { done: 'role-changed' }));
    },
    show,
  });

  addForm(router, '/customers/:slug/people/:userId/remove', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res) {
      const { customer, member } = await readMember(req);
      await changeAsOperator(deps, req, res, (tx, source) =>
        removeMemberByEmail(tx, customer.slug, member.email, source),
      );
      res.redirect(303, toAddress(`${addressOf(customer.slug)}/people`, { done: 'removed' }));
    },
    async show(req, res, form) {
      const { customer, member } = await readMember(req);
      const page = { view: 'console/remove-member', tab: 'people', title: 'Remove' };
      await renderCustomer(deps, req, res, page, customer, { form, member });
    },
  });
}
