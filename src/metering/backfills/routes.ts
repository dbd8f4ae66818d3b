import type { Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../core/errors.js';
import { readJsonBody, batchBounds } from '../../core/http/body.js';
import { exact, sendJson, toJson } from '../../core/http/json.js';
import { readRange, sendPage } from '../../core/http/page.js';
import { readPathId } from '../../core/http/request.js';
import { generated, json } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { listParts, notFoundExample, operatorRoute } from '../../accounts/identity/operator/define-route.js';
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
import { acme, batch, body, missing, one, shown, staged, stagingProblems, stepExamples } from './examples.js';
import { listSums, locateBackfill, type Backfill, type BackfillSum } from './queries.js';
import {
  backfillDetailSchema,
  backfillSchema,
  locatedBackfillSchema,
  newBackfillSchema,
  stagedSchema,
} from './schema.js';

const { id, appliedId, revertedId } = exampleWorld.backfill;
const path = '/operator/organizations/{slug}/usage/backfills' as const;
export const backfillRoutes = [
  operatorRoute({
    method: 'post',
    path,
    operationId: 'openBackfill',
    summary: 'Open a backfill',
    description: `
For events older than 7 days, which are too old to send. Stage them into the backfill in batches of 500 (\`POST …/events\`), review them (\`GET\`), and then count them (\`POST …/apply\`) like any other
event. \`npm run send -- FILE --backfill ID\` stages a file. Its events burn the credits of the grants that are open then, unless \`credits\` is \`none\`; a revert gives them back.
`.trim(),
    body: newBackfillSchema,
    responses: { 201: json('The open backfill.', backfillSchema) },
    good: { params: acme, body },
    examples: [
      {
        name: 'opened',
        summary: 'For the first weeks of January',
        request: { params: acme, body },
        answer: { ...shown, id: generated(id), reason: body.reason },
      },
      invalidExample('An end before the start', {
        params: acme,
        body: { ...body, to: '2025-12-01T00:00:00Z' },
      }),
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' }, body }),
    ],
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
    summary: 'List the backfills of an Organization',
    description: 'In the order in which they were opened.',
    ...listParts('backfills', backfillSchema, 'In the order in which they were opened.'),
    examples: [
      {
        name: 'list',
        summary: 'All backfills',
        request: { params: acme },
        answer: {
          backfills: [
            shown,
            { ...shown, id: appliedId, state: 'applied' },
            { ...shown, id: revertedId, state: 'reverted' },
          ],
          nextCursor: null,
        },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
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
    summary: 'Read a backfill',
    description: `
Its progress, and the changes by product and month that it would make or has made. \`repeats\` and \`mismatches\` are from the time of staging; applying decides which events count.
`.trim(),
    responses: { 200: json('The backfill.', backfillDetailSchema) },
    examples: [
      {
        name: 'empty',
        summary: 'Nothing is staged yet',
        request: { params: one },
        answer: { backfill: shown, changes: [], mismatches: [] },
      },
      missing,
    ],
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
    summary: 'Find a backfill by its id',
    description:
      "Finds the Organization of a backfill by the backfill's id alone. `npm run send -- FILE --backfill ID` uses it.",
    responses: { 200: json('The backfill, and its Organization.', locatedBackfillSchema) },
    examples: [
      {
        name: 'located',
        summary: 'Its Organization',
        request: { params: { id } },
        answer: { organization: 'acme', backfill: shown },
      },
      notFoundExample('There is no such backfill.', { params: { id: exampleWorld.unknownId } }),
    ],
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
    summary: 'Stage events into a backfill',
    description: `
Accepts the body of \`POST /api/usage/events\`: 1 to 500 events whose \`occurredAt\` is in the backfill's range and more than 7 days ago. Nothing is counted yet. All or nothing, unless the
request has \`Prefer: handling=lenient\`. An already staged event is counted as \`deduped\`. Without a response, or after a 5xx, send the batch again unchanged. The Organization needs no entitlement to
the product.
`.trim(),
    headers: z.object({
      Prefer: z
        .string()
        .optional()
        .meta({ description: '`handling=lenient` stages the valid events of a batch.' }),
    }),
    body: usageBatchSchema,
    maxBytes: MAX_BODY_BYTES,
    responses: { 202: json('Staged, durably.', stagedSchema, ['Preference-Applied']) },
    good: { params: one, body: batch },
    examples: [
      {
        name: 'staged',
        summary: 'An event',
        request: { params: one, body: batch },
        answer: { accepted: 1, deduped: 0, warnings: [] },
      },
      { ...missing, request: staged },
      ...stagingProblems(),
    ],
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
  stepRoute(
    'apply',
    `
Counts the staged events like any other events, in the totals, hours, limits and reports of their own time. It runs in the background at some thousand events a second, in commits of at most 1,000 events. After a crash,
any instance continues it. \`GET\` shows the progress. An idempotency key that was recorded in the meantime is a repeat and is not counted.
`.trim(),
  ),
  stepRoute(
    'revert',
    'Reverts an applied backfill by correcting each of its events to 0, whatever earlier corrections it has. It runs in the background. The events stay recorded and their keys stay used.',
  ),
  stepRoute('discard', 'Ends an open backfill and deletes its staged events. It runs in the background.'),
];

/** Repeating the request changes nothing and returns the step's progress. */
function stepRoute(step: Step, description: string) {
  const { good, becomes, bad, detail } = stepExamples[step];
  const request = { params: { slug: 'acme', id: good } };
  return operatorRoute({
    ...(step === 'discard'
      ? { method: 'delete', path: `${path}/{id}` }
      : { method: 'post', path: `${path}/{id}/${step}` }),
    operationId: `${step}Backfill`,
    summary: `${step[0]!.toUpperCase()}${step.slice(1)} a backfill`,
    description,
    responses: { 202: json('It runs in the background.', backfillSchema) },
    examples: [
      { name: step, summary: 'It begins', request, answer: { ...shown, id: good, state: becomes } },
      {
        name: 'again',
        summary: 'The same request again: nothing changes',
        before: [request],
        request,
        answer: { ...shown, id: good, state: becomes },
      },
      missing,
      problemExample('backfill_state', {
        summary: 'A state that does not allow the step',
        detail,
        request: { params: { slug: 'acme', id: bad } },
      }),
    ],
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
