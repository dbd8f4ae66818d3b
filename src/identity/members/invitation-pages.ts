import type { Request, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { byMember } from '../session/authority.js';
import { change } from '../../audit/change.js';
import { requireRole, sessionOf } from '../session/session.js';
import { normalizeEmail } from '../sign-in/sign-in.js';
import type { Context } from '../../core/http/context.js';
import { parseInput } from '../../core/http/validate.js';
import { originOf } from '../../core/http/own-origin.js';
import { formRoute, newForm, textField, type FormState } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { readId, sourceOf } from './http.js';
import { invite, revokeInvitation } from './invitations.js';
import { toInvitationLink } from './join-address.js';
import { manageableRoles, roleDescriptions } from './roles.js';
import { invitationDays, invitationSchema } from './schema.js';

const MEMBERS = '/dashboard/members';

/** Making and revoking invitations: for owner and admin. */
export function invitationPages(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { clock } = deps;
  const mayChange = requireRole('owner', 'admin');
  const router = pageRouter();

  router.get('/members/invite', mayChange, (req, res) => showForm(req, res, newForm()));

  router.post(
    '/members/invite',
    mayChange,
    formRoute({
      async act(req, res, fields) {
        const { orgId, userId } = sessionOf(res);
        const email = normalizeEmail(textField(fields, 'email') ?? '');
        const { days, ...input } = parseInput(invitationSchema, { ...fields, email });
        const source = sourceOf(req, res, clock, userId);
        const made = await change(deps, byMember(res), (tx) =>
          invite(tx, orgId, { ...input, days: Number(days) }, source),
        );
        if (!made) {
          res.redirect(303, `${MEMBERS}?done=invited-before`);
          return;
        }
        const link = toInvitationLink(originOf(req), made.token);
        // Compressed beside what somebody else chose, a secret can be guessed from the length of the answer.
        res.setHeader('Cache-Control', 'no-store, no-transform');
        res.status(201);
        const page = { view: 'members/invited', title: 'Invitation made', section: 'members' };
        const { role } = input;
        const description = roleDescriptions[role];
        await renderPage(deps, req, res, page, {
          email,
          role,
          description,
          link,
          expiresAt: made.expiresAt,
        });
      },
      show: showForm,
    }),
  );

  async function showForm(req: Request, res: Response, form: FormState): Promise<void> {
    // Nobody sees the field with the id, so nobody could put a bad one right.
    const id = form.errors.id === undefined ? (form.values.id ?? uuid()) : uuid();
    const values = { role: 'member', days: '7', ...form.values, id };
    const page = { view: 'members/invite', title: 'Invite a member', section: 'members' };
    const roleChoices = manageableRoles(sessionOf(res).role);
    await renderPage(deps, req, res, page, {
      form: { ...form, values, problem: form.problem ?? form.errors.id },
      roleChoices,
      roleDescriptions,
      dayChoices: invitationDays,
    });
  }

  router.post('/members/invitations/:id/revoke', mayChange, async (req, res) => {
    const { orgId, userId } = sessionOf(res);
    const source = sourceOf(req, res, clock, userId);
    await change(deps, byMember(res), (tx) => revokeInvitation(tx, orgId, readId(req, 'id'), source));
    res.redirect(303, `${MEMBERS}?done=revoked`);
  });

  return router;
}
