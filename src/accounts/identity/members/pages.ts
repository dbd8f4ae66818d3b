import type { Request, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { changeAsMember } from '../session/authority.js';
import { requireRole, sessionOf } from '../session/session.js';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { originOf, readPathId } from '../../../core/http/request.js';
import { parseInput, text } from '../../../core/http/validate.js';
import { cutPage, fromCursor, toCursor } from '../../../core/http/page.js';
import { toPager } from '../../../core/pages/address.js';
import {
  postForm,
  addForm,
  fieldError,
  newForm,
  textField,
  tryQuery,
  type FormFields,
  type FormState,
} from '../../../core/pages/form.js';
import { renderPage, pageRouter } from '../../../core/pages/layout.js';
import { isManager, managingRoles } from '../../organizations/table.js';
import { requireFactorOfMembers, requireSingleSignOnOfMembers } from '../organizations/organizations.js';
import { normalizeEmail } from '../sign-in/sign-in.js';
import { readPeopleFacts } from '../users/queries.js';
import { listOpenInvitations } from './invitation-queries.js';
import { beginSecretPage } from '../../../core/http/headers.js';
import { invite, MAX_OPEN_INVITATIONS, revokeInvitation, toInvitationLink } from './invitations.js';
import {
  changeRole,
  manageableRoles,
  mayManage,
  readPermissions,
  removeMember,
  requireMember,
  roleDescriptions,
} from './members.js';
import { countMembers, countWithoutFactor, hasOtherOwner, listMembers, readOrigins } from './queries.js';
import { factorSchema, invitationDays, invitationSchema, listSchema, roleSchema } from './schema.js';

const PAGE_SIZE = 50;

const MEMBERS = '/dashboard/members';

const notices = {
  removed: 'The person was removed. Their access has ended.',
  'factor-required': 'Every member needs a second factor now. Members without one must set it up.',
  'factor-optional': 'Members no longer need a second factor. Members who have one keep it.',
  'sso-required': 'Every member needs single sign-on now, starting with the next request.',
  'sso-optional': 'Members can sign in with a password or passkey again.',
  revoked: 'The invitation was revoked. Its link no longer works.',
  'invited-before':
    'This invitation was already created, and its link was shown once. To get a new link, invite the address again. The old link stops working.',
};

type PageDeps = Pick<Context, 'db' | 'clock' | 'config'>;

const readId = (req: Request, name: string): string => readPathId(req, name, 'member or invitation');

export function membersPages(deps: PageDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  router.get('/members', async (req, res) => {
    const { orgId, role, userId } = sessionOf(res);
    const query = req.query as FormFields;
    const { form, result } = await tryQuery(res, query, async () => readList(query));
    const { search, cursor } = result ?? {};
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const rows = await listMembers(db.orm, orgId, { after, search, limit: PAGE_SIZE });
    const { page: members, nextCursor } = cutPage(rows, PAGE_SIZE, (last) => toCursor(last.email));
    const origins = await readOrigins(db.orm, orgId, members);
    const ids = members.map((member) => member.userId);
    const facts = isManager(role) ? await readPeopleFacts(db.orm, ids, clock.now()) : undefined;
    const page = { view: 'accounts/members/list', title: 'Members', section: 'members', notices };
    await renderPage(deps, req, res, page, {
      members: members.map((member) => ({
        ...member,
        ...facts?.get(member.userId),
        origin: origins.get(member.userId),
        isManageable: mayManage(role, member.role),
      })),
      memberCount: rows[0]?.memberCount ?? (await countMembers(db.orm, orgId)),
      search,
      form,
      isOnlyOwner: role === 'owner' && !(await hasOtherOwner(db.orm, orgId, userId)),
      isManager: isManager(role),
      isFactorRequired: sessionOf(res).requireSecondFactor,
      isSingleSignOnRequired: sessionOf(res).requireSingleSignOn,
      hasSingleSignOn: deps.config.singleSignOn !== undefined,
      invitations: isManager(role) ? await readInvitations(res) : [],
      pager: toPager(MEMBERS, { search }, { cursor, nextCursor }),
    });
  });

  async function readInvitations(res: Response) {
    const { orgId, role } = sessionOf(res);
    const open = await listOpenInvitations(db.orm, orgId, new Date(clock.now()), MAX_OPEN_INVITATIONS);
    return open.map((invitation) => ({ ...invitation, isRevocable: mayManage(role, invitation.role) }));
  }

  addInvitationPages(router, deps);
  addFactorPages(router, deps);
  addSingleSignOnPages(router, deps);
  addMemberPages(router, deps);
  return router;
}

function addFactorPages(router: Router, deps: PageDeps): void {
  const { db } = deps;

  addForm(router, '/members/second-factor', {
    before: [requireRole('owner')],
    async act(req, res, fields) {
      const isRequired = parseInput(factorSchema, fields).required === 'yes';
      await changeAsMember(deps, req, res, (tx, orgId, source) =>
        requireFactorOfMembers(tx, orgId, isRequired, source),
      );
      res.redirect(303, `${MEMBERS}?done=${isRequired ? 'factor-required' : 'factor-optional'}`);
    },
    async show(req, res, form) {
      const { orgId, hasSecondFactor, requireSecondFactor } = sessionOf(res);
      const page = {
        view: 'accounts/members/second-factor',
        title: 'Second factor of members',
        section: 'members',
      };
      await renderPage(deps, req, res, page, {
        form: { ...form, problem: form.problem ?? form.errors.required },
        isRequired: requireSecondFactor,
        hasOwn: hasSecondFactor,
        memberCount: await countMembers(db.orm, orgId),
        withoutFactor: await countWithoutFactor(db.orm, orgId),
      });
    },
  });
}

function addSingleSignOnPages(router: Router, deps: PageDeps): void {
  addForm(router, '/members/single-sign-on', {
    before: [requireRole('owner')],
    async act(req, res, fields) {
      const required = parseInput(factorSchema, fields).required === 'yes';
      if (required && !deps.config.singleSignOn)
        throw fieldError('required', 'needs single sign-on, which this service does not have');
      const hasOwn = sessionOf(res).singleSignOnAt !== null;
      await changeAsMember(deps, req, res, (tx, orgId, source) =>
        requireSingleSignOnOfMembers(tx, orgId, { required, hasOwn }, source),
      );
      res.redirect(303, `${MEMBERS}?done=${required ? 'sso-required' : 'sso-optional'}`);
    },
    async show(req, res, form) {
      const { singleSignOnAt, requireSingleSignOn } = sessionOf(res);
      const page = {
        view: 'accounts/members/single-sign-on',
        title: 'Single sign-on of members',
        section: 'members',
      };
      await renderPage(deps, req, res, page, {
        form: { ...form, problem: form.problem ?? form.errors.required },
        isRequired: requireSingleSignOn,
        hasOwn: singleSignOnAt !== null,
        name: deps.config.singleSignOn?.name,
        ownersWhenDown: deps.config.singleSignOn?.ownersWhenDown,
      });
    },
  });
}

function addMemberPages(router: Router, deps: PageDeps): void {
  const { db } = deps;

  router.get('/members/:userId', async (req, res) => showMember(req, res, newForm()));

  postForm(router, '/members/:userId/role', {
    before: [requireRole(...managingRoles)],
    async act(req, res, fields) {
      const me = sessionOf(res);
      const userId = readId(req, 'userId');
      const { role, confirmed } = parseInput(roleSchema, fields);
      if (userId === me.userId && role !== me.role && confirmed === undefined)
        throw fieldError('confirmed', 'must be selected, because you may not be able to undo this');
      await changeAsMember(deps, req, res, (tx, orgId, source) =>
        changeRole(tx, orgId, userId, role, source),
      );
      res.redirect(303, `${MEMBERS}/${userId}?done=role-changed`);
    },
    show: showMember,
  });

  async function showMember(req: Request, res: Response, form: FormState): Promise<void> {
    const me = sessionOf(res);
    const member = await requireMember(db.orm, me.orgId, readId(req, 'userId'));
    const permissions = await readPermissions(db.orm, me.orgId, me, member);
    const origins = await readOrigins(db.orm, me.orgId, [member]);
    const page = {
      view: 'accounts/members/member',
      title: member.name,
      section: 'members',
      notices: { 'role-changed': `The role is now ${member.role}. It takes effect on the next request.` },
    };
    await renderPage(deps, req, res, page, {
      member,
      origin: origins.get(member.userId),
      isMe: member.userId === me.userId,
      permissions,
      roleDescriptions,
      form: { ...form, values: { role: member.role, ...form.values } },
    });
  }

  addForm(router, '/members/:userId/remove', {
    async act(req, res) {
      const userId = readId(req, 'userId');
      await changeAsMember(deps, req, res, (tx, orgId, source) => removeMember(tx, orgId, userId, source));
      res.redirect(303, userId === sessionOf(res).userId ? '/dashboard/left' : `${MEMBERS}?done=removed`);
    },
    async show(req, res, form) {
      const me = sessionOf(res);
      const member = await requireMember(db.orm, me.orgId, readId(req, 'userId'));
      const { mayRemove, isLastOwner } = await readPermissions(db.orm, me.orgId, me, member);
      const isMe = member.userId === me.userId;
      if (!mayRemove && !isLastOwner)
        throw new AppError('forbidden_role', `Your role is ${me.role}. You cannot remove this member.`);
      const title = isMe ? 'Leave the Organization' : 'Remove a member';
      const page = { view: 'accounts/members/remove', title, section: 'members' };
      await renderPage(deps, req, res, page, { member, isMe, isLastOwner, form });
    },
  });
}

function addInvitationPages(router: Router, deps: PageDeps): void {
  const mayChange = requireRole(...managingRoles);

  addForm(router, '/members/invite', {
    before: [mayChange],
    async act(req, res, fields) {
      const email = normalizeEmail(textField(fields, 'email') ?? '');
      const { days, ...input } = parseInput(invitationSchema, { ...fields, email });
      const invited = await changeAsMember(deps, req, res, (tx, orgId, source) =>
        invite(tx, orgId, { ...input, days: Number(days) }, source, deps.config.mail),
      );
      if (!invited) {
        res.redirect(303, `${MEMBERS}?done=invited-before`);
        return;
      }
      const link = invited.token && toInvitationLink(originOf(req), invited.token);
      beginSecretPage(res);
      const page = { view: 'accounts/members/invited', title: 'Invitation created', section: 'members' };
      const { expiresAt } = invited;
      const description = roleDescriptions[input.role];
      await renderPage(deps, req, res, page, { email, role: input.role, description, link, expiresAt });
    },
    async show(req, res, form) {
      // Nobody can correct a hidden field.
      const id = form.errors.id === undefined ? (form.values.id ?? uuid()) : uuid();
      const values = { role: 'member', days: '7', ...form.values, id };
      const page = { view: 'accounts/members/invite', title: 'Invite a member', section: 'members' };
      const roleChoices = manageableRoles(sessionOf(res).role);
      await renderPage(deps, req, res, page, {
        form: { ...form, values, problem: form.problem ?? form.errors.id },
        roleChoices,
        roleDescriptions,
        dayChoices: invitationDays,
        hasMail: deps.config.mail !== undefined,
      });
    },
  });

  router.post('/members/invitations/:id/revoke', mayChange, async (req, res) => {
    const id = readId(req, 'id');
    await changeAsMember(deps, req, res, (tx, orgId, source) => revokeInvitation(tx, orgId, id, source));
    res.redirect(303, `${MEMBERS}?done=revoked`);
  });
}

function readList(query: FormFields): { search: string | undefined; cursor: string | undefined } {
  const search = textField(query, 'search')?.trim();
  const { search: checked, cursor } = parseInput(listSchema, {
    search: search === '' ? undefined : search,
    cursor: textField(query, 'cursor'),
  });
  return { search: checked, cursor };
}

function decodeCursor(cursor: string): string {
  const email = text(254).safeParse(fromCursor(cursor));
  if (email.success) return email.data;
  throw new AppError(
    'invalid_request',
    'This page of the list does not exist. Start again with the first one.',
  );
}
