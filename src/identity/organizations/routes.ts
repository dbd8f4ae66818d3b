import { Router } from 'express';
import { byPerson } from '../session/authority.js';
import { change, type ChangeDeps } from '../session/change.js';
import { HOME } from '../sign-in/pages.js';
import { sessionOf, type SessionPrincipal } from '../session/session.js';
import { AppError } from '../../core/errors.js';
import { isForm, readForm } from '../../core/http/form-body.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { parseInput } from '../../core/http/validate.js';
import { chooseOrganization, listOrganizationsOf } from './queries.js';
import { chooseOrganizationSchema, MAX_BODY_BYTES } from './schema.js';

/** As many Organizations of a person as the answers name. */
const MAX_ORGANIZATIONS = 1_000;

/** Who is signed in, and which of their Organizations they look at. */
export function organizationRoutes(deps: ChangeDeps): Router {
  const { db } = deps;
  const router = Router();

  router.get('/session', async (_req, res) => {
    const session = sessionOf(res);
    res.json(toSessionJson(session, await listOrganizationsOf(db.orm, session.userId, MAX_ORGANIZATIONS)));
  });

  router.post('/organization', async (req, res) => {
    const session = sessionOf(res);
    const body = isForm(req)
      ? await readForm(req, res)
      : (await readJsonBody(req, res, MAX_BODY_BYTES)).value;
    const { organization: slug } = parseInput(chooseOrganizationSchema, body);
    const chosen = await change(deps, byPerson(res), (tx) =>
      chooseOrganization(tx, session.sessionId, session.userId, slug),
    );
    if (!chosen) throw new AppError('not_found', 'You belong to no such Organization.');
    if (isForm(req)) {
      res.redirect(303, HOME);
      return;
    }
    const { id: orgId, slug: orgSlug, name: orgName, role } = chosen;
    const now = { ...session, orgId, orgSlug, orgName, role };
    res.json(toSessionJson(now, await listOrganizationsOf(db.orm, session.userId, MAX_ORGANIZATIONS)));
  });

  return router;
}

type Membership = Awaited<ReturnType<typeof listOrganizationsOf>>[number];

function toSessionJson(session: SessionPrincipal, organizations: Membership[]) {
  return {
    user: { id: session.userId, email: session.email, name: session.userName },
    organization: { id: session.orgId, slug: session.orgSlug, name: session.orgName },
    role: session.role,
    organizations,
  };
}
