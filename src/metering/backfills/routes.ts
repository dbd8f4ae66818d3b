import type { Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../core/errors.js';
import { readJsonBody, batchBounds } from '../../core/http/body.js';
import { exact, sendJson, toJson } from '../../core/http/json.js';
import { readRange, sendPage } from '../../core/http/page.js';
import { readPathId } from '../../core/http/request.js';
import { json } from '../../core/reference/define-route.js';
import { listParts, operatorRoute } from '../../accounts/identity/operator/define-route.js';
import { changeAsOperator, readInput, readSlug } from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import { lockOrganizationId } from '../../accounts/organizations/table.js';
import { parseUsageBatch } from '../ingestion/batch.js';
import { MAX_BODY_BYTES, usageBatchSchema } from '../ingestion/schema.js';
import { prefersLenient } from '../ingestion/routes.js';
import {
  beginStep,
  openBackfill,
  readBackfill,
  readBackfills,
  stageEvents,
  sumOf,
  type Staged,
  type Step,
} from './backfills.js';
import { listSums, locateBackfill, type Backfill, type BackfillSum } from './queries.js';
import {
  backfillDetailSchema,
  backfillSchema,
  locatedBackfillSchema,
  newBackfillSchema,
  stagedSchema,
} from './schema.js';

const path = '/operator/organizations/{slug}/usage/backfills' as const;
export const backfillRoutes = [
  operatorRoute({
    method: 'post',
    path,
    operationId: 'openBackfill',
    body: newBackfillSchema,
    responses: { 201: json('The open backfill.', backfillSchema) },
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const { from, to, credits, ...input } = await readInput(req, res, newBackfillSchema);
      const burnsCredits = credits === 'burn';
      const times = { from: new Date(from), to: new Date(to) };
      const backfill = await changeAsOperator(deps, req, res, async (tx, source) =>
        openBackfill(tx, (await getOrganization(tx, slug)).id, { ...input, ...times, burnsCredits }, source),
      );
      sendJson(res, 201, toJson(present(backfill, 0)));
    },
  }),
  operatorRoute({
    method: 'get',
    path,
    operationId: 'listBackfills',
    ...listParts('backfills', backfillSchema, 'In the order in which they were opened.'),
    handler: (deps) => async (req, res) => {
      const range = readRange(req, z.uuid());
      const orgId = (await getOrganization(deps.db.orm, readSlug(req))).id;
      const rows = await readBackfills(deps.db.orm, orgId, range);
      sendPage(res, 'backfills', {
        rows,
        limit: range.limit,
        keyOf: (row) => row.id,
        present: (row) => present(row, row.staged),
      });
    },
  }),
  operatorRoute({
    method: 'get',
    path: `${path}/{id}`,
    operationId: 'getBackfill',
    responses: { 200: json('The backfill.', backfillDetailSchema) },
    handler: (deps) => async (req, res) => {
      const { id: orgId } = await getOrganization(deps.db.orm, readSlug(req));
      const { backfill, changes, mismatches } = await readBackfill(deps.db.orm, orgId, readId(req));
      sendJson(
        res,
        200,
        toJson({
          backfill: present(backfill, sumOf(changes, 'events')),
          changes: changes.map(presentChange),
          mismatches,
        }),
      );
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/usage/backfills/{id}',
    operationId: 'locateBackfill',
    responses: { 200: json('The backfill, and its Organization.', locatedBackfillSchema) },
    handler: (deps) => async (req, res) => {
      const located = await locateBackfill(deps.db.orm, readId(req));
      if (!located) throw new AppError('not_found', 'There is no such backfill.');
      const [organization, backfill] = located;
      const sums = await listSums(deps.db.orm, backfill.orgId, [backfill.id]);
      sendJson(res, 200, toJson({ organization, backfill: present(backfill, sumOf(sums, 'events')) }));
    },
  }),
  operatorRoute({
    method: 'post',
    path: `${path}/{id}/events`,
    operationId: 'stageBackfillEvents',
    headers: z.object({
      Prefer: z
        .string()
        .optional()
        .meta({ description: '`handling=lenient` stages the valid events of a batch.' }),
    }),
    body: usageBatchSchema,
    maxBytes: MAX_BODY_BYTES,
    responses: { 202: json('Staged, durably.', stagedSchema, ['Preference-Applied']) },
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const backfillId = readId(req);
      const isLenient = prefersLenient(req);
      const input = parseUsageBatch(await readJsonBody(req, res, MAX_BODY_BYTES, batchBounds), false);
      const answer = await changeAsOperator(deps, req, res, async (tx, { at }) =>
        stageEvents(tx, (await getOrganization(tx, slug)).id, backfillId, { ...input, isLenient }, at),
      );
      if (isLenient) res.setHeader('Preference-Applied', 'handling=lenient');
      sendJson(res, 202, toJson(stagedJson(answer, isLenient)));
    },
  }),
  stepRoute('apply'),
  stepRoute('revert'),
  stepRoute('discard'),
];

/** Repeating the request changes nothing and returns the step's progress. */
function stepRoute(step: Step) {
  return operatorRoute({
    ...(step === 'discard'
      ? { method: 'delete', path: `${path}/{id}` }
      : { method: 'post', path: `${path}/{id}/${step}` }),
    operationId: `${step}Backfill`,
    responses: { 202: json('It runs in the background.', backfillSchema) },
    handler: (deps) => async (req: Request, res: Response) => {
      const slug = readSlug(req);
      const backfillId = readId(req);
      const [backfill, staged] = await changeAsOperator(deps, req, res, async (tx, source) => {
        const { id: orgId } = await getOrganization(tx, slug);
        await lockOrganizationId(tx, orgId);
        const changed = await beginStep(tx, orgId, backfillId, step, source);
        return [changed, sumOf(await listSums(tx, orgId, [backfillId]), 'events')] as const;
      });
      sendJson(res, 202, toJson(present(backfill, staged)));
    },
  });
}

const readId = (req: Request): string => readPathId(req, 'id', 'backfill');

const present = (backfill: Backfill, staged: number) => ({
  id: backfill.id,
  state: backfill.state,
  reason: backfill.reason,
  from: backfill.fromTime.toISOString(),
  to: backfill.toTime.toISOString(),
  livemode: backfill.livemode,
  credits: backfill.burnsCredits ? 'burn' : 'none',
  progress: { done: backfill.done, of: staged },
  createdAt: backfill.createdAt.toISOString(),
  changedAt: backfill.changedAt.toISOString(),
});

const presentChange = ({ period, quantity, countedQuantity, ...change }: BackfillSum) => ({
  productSlug: change.productSlug,
  metric: change.metric,
  month: period.slice(0, 7),
  events: change.events,
  quantity: exact(quantity),
  repeats: change.repeats,
  mismatches: change.mismatches,
  countedEvents: change.countedEvents,
  countedQuantity: exact(countedQuantity),
  archivedEvents: change.archivedEvents,
  revertedEvents: change.revertedEvents,
});

const stagedJson = ({ accepted, deduped, mismatches, rejected }: Staged, isLenient: boolean) => ({
  accepted,
  deduped,
  warnings: mismatches.map((index) => ({ code: 'duplicate_mismatch', index })),
  ...(isLenient ? { rejected: rejected.map(({ index, code, detail }) => ({ index, code, detail })) } : {}),
});
