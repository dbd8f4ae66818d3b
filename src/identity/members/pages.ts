import type { Request, Response, Router } from 'express';
import { byMember } from '../session/authority.js';
import { change } from '../../audit/change.js';
import { requireRole, sessionOf } from '../session/session.js';
import type { Context } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import { text, parseInput } from '../../core/http/validate.js';
import { toPager } from '../../core/pages/address.js';
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
import { readId, sourceOf } from './http.js';
import { invitationPages } from './invitation-pages.js';
import { listOpenInvitations } from './invitation-queries.js';
import { MAX_OPEN_INVITATIONS } from './invitations.js';
import { changeRole, readPermissions, removeMember, requireMember } from './members.js';
import { readOrigins } from './origins.js';
import { countMembers, listMembers } from './queries.js';
import { isManager, mayManage, roleDescriptions } from './roles.js';
import { listSchema, roleSchema } from './schema.js';

const PAGE_SIZE = 50;
const MEMBERS = '/dashboard/members';

const notices = {
  removed: 'The person was removed. Their access has ended.',
  revoked: 'The invitation was revoked. Its link no longer works.',
  'invited-before':
    'This invitation was made before, and its link was shown then, once. Invite the address again for a new link; the old one stops working.',
};

/** `/dashboard/members`: every member sees them, owner and admin change them. */
export function membersPages(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  router.get('/members', async (req, res) => {
    const { orgId, role } = sessionOf(res);
    const { search, cursor } = readList(req);
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const rows = await listMembers(db.orm, orgId, { after, search, limit: PAGE_SIZE });
    const members = rows.slice(0, PAGE_SIZE);
    const nextCursor = rows.length > PAGE_SIZE ? encodeCursor(members.at(-1)!.email) : undefined;
    const origins = await readOrigins(db.orm, orgId, members);
    const page = { view: 'members/list', title: 'Members', section: 'members', notices };
    await renderPage(deps, req, res, page, {
      members: members.map((member) => ({
        ...member,
        origin: origins.get(member.userId),
        isManageable: mayManage(role, member.role),
      })),
      memberCount: rows[0]?.memberCount ?? (await countMembers(db.orm, orgId)),
      search,
      isManager: isManager(role),
      invitations: isManager(role) ? await readInvitations(res) : [],
      pager: toPager(MEMBERS, { search }, { cursor, nextCursor }),
    });
  });

  async function readInvitations(res: Response) {
    const { orgId, role } = sessionOf(res);
    const open = await listOpenInvitations(db.orm, orgId, new Date(clock.now()), MAX_OPEN_INVITATIONS);
    return open.map((invitation) => ({ ...invitation, isRevocable: mayManage(role, invitation.role) }));
  }

  router.use(invitationPages(deps));

  router.get('/members/:userId', async (req, res) => showMember(req, res, newForm()));

  router.post(
    '/members/:userId/role',
    requireRole('owner', 'admin'),
    formRoute({
      async act(req, res, fields) {
        const { orgId, userId: me } = sessionOf(res);
        const userId = readId(req, 'userId');
        const { role, confirmed } = parseInput(roleSchema, fields);
        if (userId === me && role !== sessionOf(res).role && confirmed === undefined)
          throw fieldError('confirmed', 'must be ticked, because you cannot take this back yourself');
        const source = sourceOf(req, res, clock, me);
        await change(deps, byMember(res), (tx) => changeRole(tx, orgId, userId, role, source));
        res.redirect(303, `${MEMBERS}/${userId}?done=role-changed`);
      },
      show: showMember,
    }),
  );

  async function showMember(req: Request, res: Response, form: FormState): Promise<void> {
    const me = sessionOf(res);
    const member = await requireMember(db.orm, me.orgId, readId(req, 'userId'));
    const permissions = await readPermissions(db.orm, me.orgId, me, member);
    const origins = await readOrigins(db.orm, me.orgId, [member]);
    const page = {
      view: 'members/member',
      title: member.name,
      section: 'members',
      notices: { 'role-changed': `The role is ${member.role} now. It binds on the next request.` },
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

  router.get('/members/:userId/remove', async (req, res) => showRemoval(req, res, newForm()));

  router.post(
    '/members/:userId/remove',
    formRoute({
      async act(req, res) {
        const { orgId, userId: me } = sessionOf(res);
        const userId = readId(req, 'userId');
        const source = sourceOf(req, res, clock, me);
        await change(deps, byMember(res), (tx) => removeMember(tx, orgId, userId, source));
        res.redirect(303, userId === me ? '/dashboard/left' : `${MEMBERS}?done=removed`);
      },
      show: showRemoval,
    }),
  );

  async function showRemoval(req: Request, res: Response, form: FormState): Promise<void> {
    const me = sessionOf(res);
    const member = await requireMember(db.orm, me.orgId, readId(req, 'userId'));
    const { mayRemove, isLastOwner } = await readPermissions(db.orm, me.orgId, me, member);
    const isMe = member.userId === me.userId;
    if (!mayRemove && !isLastOwner)
      throw new AppError('forbidden_role', `As ${me.role} you cannot remove this member.`);
    const title = isMe ? 'Leave the Organization' : 'Remove a member';
    const page = { view: 'members/remove', title, section: 'members' };
    await renderPage(deps, req, res, page, { member, isMe, isLastOwner, form });
  }

  return router;
}

function readList(req: Request): { search: string | undefined; cursor: string | undefined } {
  const query = req.query as FormFields;
  const search = textField(query, 'search')?.trim();
  const { search: checked, cursor } = parseInput(listSchema, {
    search: search === '' ? undefined : search,
    cursor: textField(query, 'cursor'),
  });
  return { search: checked, cursor };
}

/** A cursor is the address of the last row seen, so that a list costs the same on every page. */
const encodeCursor = (email: string): string => Buffer.from(email).toString('base64url');

function decodeCursor(cursor: string): string {
  const email = text(254).safeParse(Buffer.from(cursor, 'base64url').toString());
  if (email.success) return email.data;
  throw new AppError(
    'invalid_request',
    'This page of the list does not exist. Start again with the first one.',
  );
}
