import { byPerson } from '../session/authority.js';
import { change, type ChangeDeps } from '../../audit/audit.js';
import { HOME } from '../sign-in/schema.js';
import { sessionOf, type SessionPrincipal } from '../session/session.js';
import { AppError } from '../../../core/errors.js';
import { isForm, readForm, readJsonBody } from '../../../core/http/body.js';
import { parseInput } from '../../../core/http/validate.js';
import { defineRoute, json } from '../../../core/reference/define-route.js';
import { chooseOrganization, listOrganizationsOf } from './queries.js';
import { chooseOrganizationSchema, MAX_BODY_BYTES, sessionSchema } from './schema.js';

const MAX_ORGANIZATIONS = 1_000;

const read = defineRoute({
  at: 'GET /dashboard/session',
  operationId: 'getSession',
  tag: 'Signing in',
  credential: 'session',
  responses: { 200: json('The session.', sessionSchema) },
  handler: (deps: ChangeDeps) => async (_req, res) => {
    const session = sessionOf(res);
    res.json(
      toSessionJson(session, await listOrganizationsOf(deps.db.orm, session.userId, MAX_ORGANIZATIONS)),
    );
  },
});

const choose = defineRoute({
  at: 'POST /dashboard/organization',
  operationId: 'chooseOrganization',
  tag: 'Signing in',
  credential: 'session',
  body: { schema: chooseOrganizationSchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    200: json('The updated session.', sessionSchema),
    303: { description: 'The response to a form.', headers: ['Location'] },
  },
  handler: (deps: ChangeDeps) => async (req, res) => {
    const session = sessionOf(res);
    const body = isForm(req)
      ? await readForm(req, res)
      : (await readJsonBody(req, res, MAX_BODY_BYTES)).value;
    const { organization: slug } = parseInput(chooseOrganizationSchema, body);
    const chosen = await change(deps, byPerson(res), (tx) =>
      chooseOrganization(tx, session.sessionId, session.userId, slug),
    );
    if (!chosen) throw new AppError('not_found', 'You do not belong to that Organization.');
    if (isForm(req)) {
      res.redirect(303, HOME);
      return;
    }
    const { id: orgId, slug: orgSlug, name: orgName, role } = chosen;
    const now = { ...session, orgId, orgSlug, orgName, role };
    res.json(toSessionJson(now, await listOrganizationsOf(deps.db.orm, session.userId, MAX_ORGANIZATIONS)));
  },
});

export const sessionRoutes = [read, choose];

type Membership = Awaited<ReturnType<typeof listOrganizationsOf>>[number];

function toSessionJson(session: SessionPrincipal, organizations: Membership[]) {
  return {
    user: { id: session.userId, email: session.email, name: session.userName },
    organization: { id: session.orgId, slug: session.orgSlug, name: session.orgName },
    role: session.role,
    organizations: organizations.map(({ id, slug, name, role }) => ({ id, slug, name, role })),
  };
}
