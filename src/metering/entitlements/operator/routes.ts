import { exact } from '../../../core/http/json.js';
import { json } from '../../../core/reference/define-route.js';
import {
  deletedResponses,
  listRoute,
  operatorRoute,
  putResponses,
} from '../../../accounts/identity/operator/define-route.js';
import { answerPut } from '../../../accounts/identity/operator/http.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';
import { entitlementSchema, grantAnswerSchema } from './schema.js';
import { getGrant, putGrant, withdrawGrant } from '../grants.js';
import { mergeFeatures } from '../features.js';
import { declaredLimitJson, defaultThresholds } from '../limits.js';
import { toExactDecimals, toExactNumber } from '../exact-number.js';
import { listGrants, type Grant } from '../queries.js';

const GRANTS = '/operator/organizations/{slug}/entitlements';
const GRANT = `${GRANTS}/{productSlug}` as const;

const grantJson = ({
  orgId: _orgId,
  productId: _id,
  hasOwnCap,
  unitCap,
  effectiveUnitCap,
  limits,
  thresholds,
  features,
  productFeatures,
  plan,
  createdAt,
  updatedAt,
  ...declared
}: Grant) => ({
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
});

export const entitlementRoutes = [
  listRoute('entitlements', grantAnswerSchema, 'productSlug', {
    at: `GET ${GRANTS}`,
    operationId: 'listGrants',
    read: async ({ db: { orm } }, range, { slug }) =>
      listGrants(orm, (await getOrganization(orm, slug)).id, range),
    present: grantJson,
  }),
  operatorRoute({
    at: `GET ${GRANT}`,
    operationId: 'getGrant',
    responses: { 200: json('The entitlement.', grantAnswerSchema) },
    answer: async ({ params: { slug, productSlug } }, { db }) =>
      grantJson(await getGrant(db.orm, slug, productSlug)),
  }),
  operatorRoute({
    at: `PUT ${GRANT}`,
    operationId: 'putGrant',
    body: entitlementSchema,
    responses: putResponses(grantAnswerSchema),
    async answer({ params: { slug, productSlug }, input, text, change, res }) {
      const { startsAt, endsAt, unitCap, limits, ...rest } = input;
      const terms = {
        ...rest,
        startsAt: startsAt === undefined ? undefined : new Date(startsAt),
        endsAt: endsAt == null ? null : new Date(endsAt),
        unitCap: unitCap == null ? unitCap : toExactNumber('unitCap', text),
        limits:
          limits &&
          toExactDecimals(text, 'limits', 'quantity').map((quantity, i) => ({
            ...limits[i]!,
            quantity: quantity!,
          })),
      };
      const put = await change((tx, source) => putGrant(tx, slug, productSlug, terms, source));
      return answerPut(res, put, grantJson);
    },
  }),
  operatorRoute({
    at: `DELETE ${GRANT}`,
    operationId: 'deleteGrant',
    responses: deletedResponses,
    answer: ({ params: { slug, productSlug }, change }) =>
      change((tx, source) => withdrawGrant(tx, slug, productSlug, source)),
  }),
];
