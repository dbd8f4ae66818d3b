import { placeError } from '../../../../core/errors.js';
import { sendJson, toJson } from '../../../../core/http/json.js';
import { json } from '../../../../core/reference/define-route.js';
import { exampleWorld } from '../../../reference/example-world.js';
import {
  createdAt,
  listParts,
  madeId,
  notFoundExample,
  now,
  operatorRoute,
  putResponses,
} from '../../operator/define-route.js';
import { changeAsOperator, readInput, readSlug, sendPut } from '../../operator/http.js';
import { readRange, sendPage, toCursor } from '../../../../core/http/page.js';
import { organizationSchema, slugSchema } from '../../operator/schema.js';
import { getOrganization, putOrganization } from '../organizations.js';
import { listOrganizations, type Organization } from '../queries.js';
import { organizationAnswerSchema } from '../schema.js';

const acme = {
  ...exampleWorld.organization,
  requireSecondFactor: false,
  requireSingleSignOn: false,
  archivedAt: null,
  marketAccess: 'trade',
  mayCorrect: true,
  stripeCustomerId: null,
  stripeSince: null,
  creditThresholds: null,
  createdAt,
};

export const organizationRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/organizations',
    operationId: 'listOrganizations',
    summary: 'List Organizations',
    description: 'All Organizations, ordered by slug.',
    ...listParts('organizations', organizationAnswerSchema, 'Ordered by `slug`.'),
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of one',
        request: { query: { limit: '1' } },
        answer: { organizations: [acme], nextCursor: toCursor('acme') },
      },
    ],
    handler: (deps) => async (req, res) => {
      const range = readRange(req, slugSchema);
      const rows = await listOrganizations(deps.db.orm, range);
      const parts = { rows, limit: range.limit, keyOf: (row: Organization) => row.slug };
      sendPage(res, 'organizations', { ...parts, present: organizationJson });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}',
    operationId: 'getOrganization',
    summary: 'Read an Organization',
    description: 'Its id, slug, name, settings and creation time.',
    responses: {
      200: json('The Organization.', organizationAnswerSchema),
    },
    examples: [
      { name: 'organization', summary: 'Acme', request: { params: { slug: 'acme' } }, answer: acme },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(organizationJson(await getOrganization(deps.db.orm, readSlug(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}',
    operationId: 'putOrganization',
    summary: 'Declare an Organization',
    description:
      'Creates, renames, archives or restores the Organization, and sets whether its members need a second factor or single sign-on, its access to markets, whether it may correct its usage, and the Stripe customer that pays for its usage. While it is archived, its API keys get 401 `key_revoked` and its members cannot see it, starting with the next request. Restoring it brings everything back; revoked keys stay revoked.\n\nWith `marketAccess` `none`, its members see no market pages and its keys get 403 `entitlement_required` on routes with a trading scope. With `read`, they can see everything and sell what they hold, but get 403 `entitlement_read_only` for an order that would open or increase a position. A change takes effect on the next request and the next order, on every instance. Positions are still settled and open orders are still tracked. Routes that need no key stay public.\n\nThe slug never changes. Organizations cannot be deleted, because their usage and audit log are records.',
    body: organizationSchema,
    responses: putResponses(organizationAnswerSchema),
    good: { params: { slug: 'acme' }, body: { name: 'Acme' } },
    examples: [
      {
        name: 'renamed',
        summary: 'Another name',
        request: { params: { slug: 'acme' }, body: { name: 'Acme Corporation' } },
        answer: { ...acme, name: 'Acme Corporation' },
      },
      {
        name: 'archived',
        summary: 'Archived, so its keys stop working',
        request: { params: { slug: 'acme' }, body: { name: acme.name, archived: true } },
        answer: { ...acme, archivedAt: now },
      },
      {
        name: 'readsMarkets',
        summary: 'Read access to markets, no new positions',
        request: { params: { slug: 'acme' }, body: { name: acme.name, marketAccess: 'read' } },
        answer: { ...acme, marketAccess: 'read' },
      },
      {
        name: 'created',
        summary: 'A new Organization',
        request: { params: { slug: 'initech' }, body: { name: 'Initech' } },
        status: 201,
        answer: {
          id: madeId,
          slug: 'initech',
          name: 'Initech',
          requireSecondFactor: false,
          requireSingleSignOn: false,
          archivedAt: null,
          marketAccess: 'trade',
          mayCorrect: false,
          stripeCustomerId: null,
          stripeSince: null,
          creditThresholds: null,
          createdAt: now,
        },
      },
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const input = await readInput(req, res, organizationSchema);
      if (input.requireSingleSignOn && !deps.config.singleSignOn)
        throw placeError(
          'invalid_request',
          '/requireSingleSignOn',
          'needs single sign-on, which this service does not have. Set OIDC_ISSUER first',
        );
      const put = await changeAsOperator(deps, req, res, (tx, source) =>
        putOrganization(tx, slug, input, source),
      );
      sendPut(res, put, organizationJson);
    },
  }),
];

const organizationJson = ({ createdAt, ...organization }: Organization) => ({ ...organization, createdAt });
