import { Router } from 'express';
import { byOperator } from '../../identity/session/authority.js';
import { change } from '../../identity/session/change.js';
import type { Context } from '../../core/http/context.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { MAX_BODY_BYTES, readSlug, sendDeleted, sendPut, sourceOf } from '../../identity/operator/http.js';
import { getOrganization } from '../../identity/organizations/operator/organizations.js';
import { readRange, sendPage } from '../../core/http/page.js';
import { entitlementSchema, slugSchema } from '../../identity/operator/schema.js';
import { getGrant, putGrant, withdrawGrant } from './entitlements.js';
import { listGrants, type Grant } from './queries.js';

export function entitlementRoutes(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
  const router = Router();

  router.get('/organizations/:slug/entitlements', async (req, res) => {
    const range = readRange(req, slugSchema);
    const { id } = await getOrganization(db.orm, readSlug(req));
    const rows = await listGrants(db.orm, id, range);
    const parts = { rows, limit: range.limit, keyOf: (row: Grant) => row.productSlug };
    sendPage(res, 'entitlements', { ...parts, present: grantJson });
  });

  router.get('/organizations/:slug/entitlements/:productSlug', async (req, res) => {
    const grant = await getGrant(db.orm, readSlug(req), readSlug(req, 'productSlug'));
    sendJson(res, 200, toJson(grantJson(grant)));
  });

  router.put('/organizations/:slug/entitlements/:productSlug', async (req, res) => {
    const slug = readSlug(req);
    const productSlug = readSlug(req, 'productSlug');
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const { kind, startsAt, endsAt } = parseInput(entitlementSchema, value);
    const input = {
      kind,
      startsAt: startsAt === undefined ? undefined : new Date(startsAt),
      endsAt: endsAt === undefined || endsAt === null ? null : new Date(endsAt),
    };
    const source = sourceOf(req, res, clock);
    const put = await change(deps, byOperator(res), (tx) => putGrant(tx, slug, productSlug, input, source));
    sendPut(res, put, grantJson);
  });

  router.delete('/organizations/:slug/entitlements/:productSlug', async (req, res) => {
    const slug = readSlug(req);
    const productSlug = readSlug(req, 'productSlug');
    const source = sourceOf(req, res, clock);
    await change(deps, byOperator(res), (tx) => withdrawGrant(tx, slug, productSlug, source));
    sendDeleted(res);
  });

  return router;
}

const grantJson = ({ productId: _id, ...grant }: Grant) => grant;
