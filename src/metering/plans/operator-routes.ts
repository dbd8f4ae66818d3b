import { z } from 'zod';
import {
  deletedResponses,
  listParts,
  operatorRoute,
  putResponses,
} from '../../accounts/identity/operator/define-route.js';
import { answerPut, changeAsOperator, readInput, readSlug } from '../../accounts/identity/operator/http.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import type { Orm } from '../../core/db/client.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { cutPage, parseQuery, readRange, toCursor } from '../../core/http/page.js';
import { fieldError } from '../../core/pages/form.js';
import { json } from '../../core/reference/define-route.js';
import { countAmounts } from './grants.js';
import { moveAll } from './move.js';
import {
  endOrganizationPlan,
  getOrganizationPlan,
  listSetByHand,
  moveOrganizations,
  putOrganizationPlan,
  stateOf,
} from './organization-plans.js';
import { getPlan, putPlan } from './plans.js';
import {
  countMovable,
  findOrganizationIds,
  listOrganizationsOn,
  listPlans,
  listVersions,
  type OrganizationPlan,
  type Plan,
  type VersionRow,
} from './queries.js';
import {
  definitionJson,
  MAX_PLAN_BYTES,
  movedSchema,
  moveSchema,
  organizationPlanAnswerSchema,
  organizationPlanSchema,
  planAnswerSchema,
  planSchema,
  readDefinition,
  replaceSchema,
} from './schema.js';

const PLAN = '/operator/plans/{slug}';
const OWN_PLAN = '/operator/organizations/{slug}/plan';

const versionSchema = z.strictObject({
  version: z.coerce
    .number()
    .refine(
      (version) => Number.isInteger(version) && version > 0 && version < 2 ** 31,
      'must be a whole number above 0',
    )
    .optional()
    .describe('Default: the newest.'),
});

export const planRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/plans',
    operationId: 'listPlans',
    ...listParts('plans', planAnswerSchema, 'Ordered by `slug`.'),
    handler: (deps) => async (req, res) => {
      const { orm } = deps.db;
      const range = readRange(req, slugSchema);
      const { page, nextCursor = null } = cutPage(await listPlans(orm, range), range.limit, ({ slug }) =>
        toCursor(slug),
      );
      sendJson(res, 200, toJson({ plans: await presentPlans(orm, page), nextCursor }));
    },
  }),
  operatorRoute({
    method: 'get',
    path: PLAN,
    operationId: 'getPlan',
    query: versionSchema,
    responses: { 200: json('The plan.', planAnswerSchema) },
    handler: (deps) => async (req, res) => {
      const { orm } = deps.db;
      const plan = await getPlan(orm, readSlug(req), parseQuery(versionSchema, req.query).version);
      sendJson(res, 200, toJson((await presentPlans(orm, [plan]))[0]));
    },
  }),
  operatorRoute({
    method: 'put',
    path: PLAN,
    operationId: 'putPlan',
    body: planSchema,
    maxBytes: MAX_PLAN_BYTES,
    responses: putResponses(planAnswerSchema),
    async answer({ params: { slug }, input: { name, ...sent }, text, change, res }, { db }) {
      const input = { name, definition: readDefinition(sent, text) };
      const put = await change((tx, source) => putPlan(tx, slug, input, source));
      const [plan] = await presentPlans(db.orm, [put.resource]);
      return answerPut(res, put, () => plan!);
    },
  }),
  operatorRoute({
    method: 'get',
    path: `${PLAN}/organizations`,
    operationId: 'listPlanOrganizations',
    ...listParts('organizations', organizationPlanAnswerSchema, 'Ordered by `organization`.'),
    handler: (deps) => async (req, res) => {
      const range = readRange(req, slugSchema);
      const { slug } = await getPlan(deps.db.orm, readSlug(req));
      const rows = await listOrganizationsOn(deps.db.orm, slug, range);
      const { page, nextCursor = null } = cutPage(rows, range.limit, ({ organization }) =>
        toCursor(organization),
      );
      const now = new Date(deps.clock.now());
      const organizations = page.map(({ organization, row }) => ownPlanJson(organization, row, now));
      sendJson(res, 200, toJson({ organizations, nextCursor }));
    },
  }),
  operatorRoute({
    method: 'post',
    path: `${PLAN}/move`,
    operationId: 'movePlan',
    body: moveSchema,
    responses: { 200: json('Moved, all of them or as many as fit into the call.', movedSchema) },
    handler: (deps) => async (req, res) => {
      const plan = await getPlan(deps.db.orm, readSlug(req));
      const { from, organizations } = await readInput(req, res, moveSchema);
      if (from !== undefined && from >= plan.version)
        throw fieldError('from', `must be below the newest version, ${plan.version}`);
      const orgIds = organizations && (await readOrganizations(deps.db.orm, organizations));
      const movable = { plan: plan.slug, version: plan.version, from, orgIds };
      const moved = await moveAll(deps, movable, (orgs) =>
        changeAsOperator(deps, req, res, (tx, source) =>
          moveOrganizations(tx, { ...movable, orgIds: orgs }, plan.definition, source),
        ),
      );
      const remaining = await countMovable(deps.db.orm, movable);
      sendJson(res, 200, toJson({ version: plan.version, moved, remaining }));
    },
  }),
  operatorRoute({
    method: 'get',
    path: OWN_PLAN,
    operationId: 'getOrganizationPlan',
    responses: { 200: json('The plan.', organizationPlanAnswerSchema) },
    answer: async ({ params: { slug } }, deps) =>
      presentOwnPlan(deps, slug, await getOrganizationPlan(deps.db.orm, slug)),
  }),
  operatorRoute({
    method: 'put',
    path: OWN_PLAN,
    operationId: 'putOrganizationPlan',
    query: replaceSchema,
    body: organizationPlanSchema,
    responses: putResponses(organizationPlanAnswerSchema),
    async answer({ params: { slug }, input: { startsAt, anchor, ...sent }, change, req, res }, deps) {
      const replace = parseQuery(replaceSchema, req.query).replace === 'true';
      const toDate = (time: string | undefined) => (time === undefined ? undefined : new Date(time));
      const input = { ...sent, startsAt: toDate(startsAt), anchor: toDate(anchor), replace };
      const put = await change((tx, source) => putOrganizationPlan(tx, slug, input, source));
      countAmounts(deps.metrics, put.amounts);
      const presented = await presentOwnPlan(deps, slug, put.resource);
      return answerPut(res, put, () => presented);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: OWN_PLAN,
    operationId: 'deleteOrganizationPlan',
    responses: deletedResponses,
    answer: ({ params: { slug }, change }) => change((tx, source) => endOrganizationPlan(tx, slug, source)),
  }),
];

async function readOrganizations(orm: Orm, slugs: readonly string[]): Promise<string[]> {
  const ids = await findOrganizationIds(orm, slugs);
  const places = slugs.flatMap((slug, index): ErrorPlace[] =>
    ids.has(slug)
      ? []
      : [
          {
            index,
            pointer: `/organizations/${index}`,
            code: 'not_found',
            detail: `There is no Organization "${slug}".`,
          },
        ],
  );
  if (places.length > 0)
    throw new AppError('not_found', `Nothing was moved. ${places[0]!.detail}`, { errors: places });
  return [...ids.values()];
}

export async function presentPlans(orm: Orm, plans: readonly Plan[]) {
  const versions = await listVersions(
    orm,
    plans.map(({ slug }) => slug),
  );
  return plans.map((plan) => planJson(plan, versions));
}

const planJson = ({ definition, createdAt, updatedAt, ...plan }: Plan, versions: readonly VersionRow[]) => ({
  ...plan,
  ...definitionJson(definition),
  versions: versions
    .filter((row) => row.plan === plan.slug)
    .map(({ version, organizations, createdAt: at }) => ({ version, organizations, createdAt: at })),
  createdAt,
  updatedAt,
});

const ownPlanJson = (organization: string, row: OrganizationPlan, now: Date) => ({
  organization,
  plan: row.plan,
  version: row.version,
  state: stateOf(row, now),
  startsAt: row.startsAt,
  anchor: row.anchor,
  trialEndsAt: row.trialEndsAt,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});

const presentOwnPlan = async ({ db, clock }: Context, slug: string, row: OrganizationPlan) => ({
  ...ownPlanJson(slug, row, new Date(clock.now())),
  setByHand: await listSetByHand(db.orm, row),
});
