import { Router } from 'express';
import { byOperator } from '../../session/authority.js';
import { change } from '../../session/change.js';
import type { Context } from '../../../core/http/context.js';
import { readJsonBody } from '../../../core/http/json-body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseInput } from '../../../core/http/validate.js';
import { MAX_BODY_BYTES, readSlug, sendPut, sourceOf } from '../../operator/http.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { organizationSchema, slugSchema } from '../../operator/schema.js';
import { getOrganization, putOrganization } from './organizations.js';
import { listOrganizations, type Organization } from './queries.js';

/** Organizations are not deleted: their usage and their audit log are records. */
export function organizationRoutes(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
  const router = Router();

  router.get('/organizations', async (req, res) => {
    const range = readRange(req, slugSchema);
    const rows = await listOrganizations(db.orm, range);
    const parts = { rows, limit: range.limit, keyOf: (row: Organization) => row.slug };
    sendPage(res, 'organizations', { ...parts, present: organizationJson });
  });

  router.get('/organizations/:slug', async (req, res) => {
    sendJson(res, 200, toJson(organizationJson(await getOrganization(db.orm, readSlug(req)))));
  });

  router.put('/organizations/:slug', async (req, res) => {
    const slug = readSlug(req);
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const input = parseInput(organizationSchema, value);
    const source = sourceOf(req, res, clock);
    sendPut(
      res,
      await change(deps, byOperator(res), (tx) => putOrganization(tx, slug, input, source)),
      organizationJson,
    );
  });

  return router;
}

const organizationJson = ({ id, slug, name, requireSecondFactor, createdAt }: Organization) => ({
  id,
  slug,
  name,
  requireSecondFactor,
  createdAt,
});
