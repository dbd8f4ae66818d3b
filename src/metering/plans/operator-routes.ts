import { z } from 'zod';
import {
  deletedResponses,
  listRoute,
  operatorRoute,
  putResponses,
} from '../../accounts/identity/operator/define-route.js';
import { answerPut } from '../../accounts/identity/operator/http.js';
import type { Orm } from '../../core/db/client.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { parseQuery } from '../../core/http/page.js';
import { fieldError } from '../../core/pages/form.js';
import { json } from '../../core/reference/define-route.js';
import { countAmounts } from './grants.js';
import { moveAll } from './move.js';
import {
  endOrganizationPlan,
  getOrganizationPlan,
  listSetByHand,
  putOrganizationPlan,
  stateOf,
} from './organization-plans.js';
import { getPlan, putPlan } from './plans.js';
import {
  findOrganizationIds,
  listOrganizationsOn,
  listPlans,
  listVersions,
  type OrganizationPlan,
  type Plan,
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
  listRoute('plans', planAnswerSchema, 'slug', {
    at: 'GET /operator/plans',
    operationId: 'listPlans',
    read: async ({ db }, range) => presentPlans(db.orm, await listPlans(db.orm, range)),
    present: (plan) => plan,
  }),
  operatorRoute({
    at: `GET ${PLAN}`,
    operationId: 'getPlan',
    query: versionSchema,
    responses: { 200: json('The plan.', planAnswerSchema) },
    async answer({ params: { slug }, req }, { db }) {
      const plan = await getPlan(db.orm, slug, parseQuery(versionSchema, req.query).version);
      return (await presentPlans(db.orm, [plan]))[0]!;
    },
  }),
  operatorRoute({
    at: `PUT ${PLAN}`,
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
  listRoute('organizations', organizationPlanAnswerSchema, 'organization', {
    at: `GET ${PLAN}/organizations`,
    operationId: 'listPlanOrganizations',
    read: async ({ db: { orm } }, range, { slug }) =>
      listOrganizationsOn(orm, (await getPlan(orm, slug)).slug, range),
    present: ({ organization, row }, { clock }) => ownPlanJson(organization, row, new Date(clock.now())),
  }),
  operatorRoute({
    at: `POST ${PLAN}/move`,
    operationId: 'movePlan',
    body: moveSchema,
    responses: { 200: json('Moved, all of them or as many as fit into the call.', movedSchema) },
    async answer({ params: { slug }, input: { from, organizations }, change }, deps) {
      const plan = await getPlan(deps.db.orm, slug);
      if (from !== undefined && from >= plan.version)
        throw fieldError('from', `must be below the newest version, ${plan.version}`);
      const orgIds = organizations && (await readOrganizations(deps.db.orm, organizations));
      return moveAll(deps, plan, { from, orgIds }, change);
    },
  }),
  operatorRoute({
    at: `GET ${OWN_PLAN}`,
    operationId: 'getOrganizationPlan',
    responses: { 200: json('The plan.', organizationPlanAnswerSchema) },
    answer: async ({ params: { slug } }, deps) =>
      presentOwnPlan(deps, slug, await getOrganizationPlan(deps.db.orm, slug)),
  }),
  operatorRoute({
    at: `PUT ${OWN_PLAN}`,
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
    at: `DELETE ${OWN_PLAN}`,
    operationId: 'deleteOrganizationPlan',
    responses: deletedResponses,
    answer: ({ params: { slug }, change }) => change((tx, source) => endOrganizationPlan(tx, slug, source)),
  }),
];

async function readOrganizations(orm: Orm, slugs: readonly string[]): Promise<string[]> {
  const ids = await findOrganizationIds(orm, slugs);
  const errors = slugs.flatMap((slug, index): ErrorPlace[] => {
    const place = { index, pointer: `/organizations/${index}`, code: 'not_found' as const };
    return ids.has(slug) ? [] : [{ ...place, detail: `There is no Organization "${slug}".` }];
  });
  if (errors.length > 0)
    throw new AppError('not_found', `Nothing was moved. ${errors[0]!.detail}`, { errors });
  return [...ids.values()];
}

async function presentPlans(orm: Orm, plans: readonly Plan[]) {
  const slugs = plans.map(({ slug }) => slug);
  const rows = await listVersions(orm, slugs);
  return plans.map(({ definition, createdAt, updatedAt, ...plan }) => {
    const versions = rows.filter((row) => row.plan === plan.slug).map(({ plan: _plan, ...row }) => row);
    return { ...plan, ...definitionJson(definition), versions, createdAt, updatedAt };
  });
}

function ownPlanJson(organization: string, row: OrganizationPlan, now: Date) {
  const { plan, version, startsAt, anchor, trialEndsAt, createdAt, updatedAt } = row;
  const state = stateOf(row, now);
  return { organization, plan, version, state, startsAt, anchor, trialEndsAt, createdAt, updatedAt };
}

const presentOwnPlan = async ({ db, clock }: Context, slug: string, row: OrganizationPlan) => ({
  ...ownPlanJson(slug, row, new Date(clock.now())),
  setByHand: await listSetByHand(db.orm, row),
});
