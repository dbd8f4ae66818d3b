import { placeError } from '../../../../core/errors.js';
import { json } from '../../../../core/reference/define-route.js';
import { listRoute, operatorRoute, putResponses } from '../../operator/define-route.js';
import { answerPut } from '../../operator/http.js';
import { organizationSchema } from '../../operator/schema.js';
import { getOrganization, putOrganization } from '../organizations.js';
import { listOrganizations, type Organization } from '../queries.js';
import { organizationAnswerSchema } from '../schema.js';

const organizationJson = ({ createdAt, ...organization }: Organization) => ({ ...organization, createdAt });

export const organizationRoutes = [
  listRoute('organizations', organizationAnswerSchema, 'slug', {
    at: 'GET /operator/organizations',
    operationId: 'listOrganizations',
    read: ({ db }, range) => listOrganizations(db.orm, range),
    present: organizationJson,
  }),
  operatorRoute({
    at: 'GET /operator/organizations/{slug}',
    operationId: 'getOrganization',
    responses: { 200: json('The Organization.', organizationAnswerSchema) },
    answer: async ({ params }, deps) => organizationJson(await getOrganization(deps.db.orm, params.slug)),
  }),
  operatorRoute({
    at: 'PUT /operator/organizations/{slug}',
    operationId: 'putOrganization',
    body: organizationSchema,
    responses: putResponses(organizationAnswerSchema),
    async answer({ params, input, change, res }, deps) {
      if (input.requireSingleSignOn && !deps.config.singleSignOn)
        throw placeError(
          'invalid_request',
          '/requireSingleSignOn',
          'needs single sign-on, which this service does not have. Set OIDC_ISSUER first',
        );
      const put = await change((tx, source) => putOrganization(tx, params.slug, input, source));
      return answerPut(res, put, organizationJson);
    },
  }),
];
