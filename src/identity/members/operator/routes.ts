import { Router } from 'express';
import { byOperator } from '../../session/authority.js';
import { change } from '../../session/change.js';
import type { Context } from '../../../core/http/context.js';
import { readJsonBody } from '../../../core/http/json-body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseInput } from '../../../core/http/validate.js';
import { MAX_BODY_BYTES, readEmail, readSlug, sendDeleted, sendPut, sourceOf } from '../../operator/http.js';
import { getOrganization } from '../../organizations/operator/organizations.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { emailSchema, memberSchema } from '../../operator/schema.js';
import { getMember, putMember, removeMember } from './members.js';
import { listMembers, type Member } from '../queries.js';

export function memberRoutes(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
  const router = Router();

  router.get('/organizations/:slug/members', async (req, res) => {
    const range = readRange(req, emailSchema);
    const { id } = await getOrganization(db.orm, readSlug(req));
    const rows = await listMembers(db.orm, id, range);
    sendPage(res, 'members', { rows, limit: range.limit, keyOf: (row) => row.email, present: memberJson });
  });

  router.get('/organizations/:slug/members/:email', async (req, res) => {
    sendJson(res, 200, toJson(memberJson(await getMember(db.orm, readSlug(req), readEmail(req)))));
  });

  router.put('/organizations/:slug/members/:email', async (req, res) => {
    const slug = readSlug(req);
    const email = readEmail(req);
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const input = parseInput(memberSchema, value);
    const source = sourceOf(req, res, clock);
    sendPut(
      res,
      await change(deps, byOperator(res), (tx) => putMember(tx, slug, email, input, source)),
      memberJson,
    );
  });

  router.delete('/organizations/:slug/members/:email', async (req, res) => {
    const slug = readSlug(req);
    const email = readEmail(req);
    await change(deps, byOperator(res), (tx) => removeMember(tx, slug, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  return router;
}

const memberJson = ({ userId, email, name, role, createdAt }: Member) => ({
  userId,
  email,
  name,
  role,
  createdAt,
});
