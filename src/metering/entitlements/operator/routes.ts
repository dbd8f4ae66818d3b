import { readJsonBody } from '../../../core/http/body.js';
import { exact, sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import { json } from '../../../core/reference/define-route.js';
import {
  deletedResponses,
  listParts,
  operatorRoute,
  putResponses,
} from '../../../accounts/identity/operator/define-route.js';
import {
  changeAsOperator,
  MAX_BODY_BYTES,
  readSlug,
  sendDeleted,
  sendPut,
} from '../../../accounts/identity/operator/http.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { entitlementSchema, grantAnswerSchema } from './schema.js';
import { getGrant, putGrant, withdrawGrant } from '../grants.js';
import { mergeFeatures } from '../features.js';
import { declaredLimitJson, defaultThresholds } from '../limits.js';
import { toExactDecimals, toExactNumber } from '../exact-number.js';
import { listGrants, type Grant } from '../queries.js';

export const entitlementRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/entitlements',
    operationId: 'listGrants',
    ...listParts('entitlements', grantAnswerSchema, 'Ordered by `productSlug`.'),
    handler: (deps) => async (req, res) => {
      const range = readRange(req, slugSchema);
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      const rows = await listGrants(deps.db.orm, id, range);
      const parts = { rows, limit: range.limit, keyOf: (row: Grant) => row.productSlug };
      sendPage(res, 'entitlements', { ...parts, present: grantJson });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'getGrant',
    responses: {
      200: json('The entitlement.', grantAnswerSchema),
    },
    handler: (deps) => async (req, res) => {
      const grant = await getGrant(deps.db.orm, readSlug(req), readSlug(req, 'productSlug'));
      sendJson(res, 200, toJson(grantJson(grant)));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'putGrant',
    body: entitlementSchema,
    responses: putResponses(grantAnswerSchema),
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const productSlug = readSlug(req, 'productSlug');
      const body = await readJsonBody(req, res, MAX_BODY_BYTES);
      const { kind, startsAt, endsAt, unitCap, limits, thresholds, features } = parseExactly(
        entitlementSchema,
        body.value,
      );
      const input = {
        kind,
        startsAt: startsAt === undefined ? undefined : new Date(startsAt),
        endsAt: endsAt === undefined || endsAt === null ? null : new Date(endsAt),
        unitCap: unitCap == null ? unitCap : toExactNumber('unitCap', body.text),
        limits:
          limits &&
          toExactDecimals(body.text, 'limits', 'quantity').map((quantity, i) => ({
            ...limits[i]!,
            quantity: quantity!,
          })),
        thresholds,
        features,
      };
      const put = await changeAsOperator(deps, req, res, (tx, source) =>
        putGrant(tx, slug, productSlug, input, source),
      );
      sendPut(res, put, grantJson);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/organizations/{slug}/entitlements/{productSlug}',
    operationId: 'deleteGrant',
    responses: deletedResponses,
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const productSlug = readSlug(req, 'productSlug');
      await changeAsOperator(deps, req, res, (tx, source) => withdrawGrant(tx, slug, productSlug, source));
      sendDeleted(res);
    },
  }),
];

const grantJson = ({
  productId: _id,
  hasOwnCap,
  unitCap,
  effectiveUnitCap,
  limits,
  thresholds,
  features,
  productFeatures,
  plan,
  ...grant
}: Grant) => {
  const { createdAt, updatedAt, ...declared } = grant;
  return {
    ...declared,
    ...(hasOwnCap ? { unitCap: exact(unitCap) } : {}),
    effectiveUnitCap: exact(effectiveUnitCap),
    limits: (limits ?? []).map(declaredLimitJson),
    thresholds: thresholds ?? defaultThresholds,
    features: mergeFeatures(productFeatures, features),
    ...(features ? { featureOverrides: features } : {}),
    plan,
    createdAt,
    updatedAt,
  };
};
