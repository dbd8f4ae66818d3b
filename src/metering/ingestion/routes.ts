import type { Request, Response } from 'express';
import { z } from 'zod';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { preferKeyError, readHashedSecret } from '../../accounts/api-keys/bearer-key.js';
import type { Context } from '../../core/http/context.js';
import { flagInput } from '../../core/http/fields.js';
import { suggestSlugs } from '../entitlements/nearest.js';
import { parseQuery } from '../../core/http/page.js';
import { batchBounds, hasSmallBody, mediaTypeOf, readJsonBody, type JsonBody } from '../../core/http/body.js';
import {
  findUnknownProducts,
  refuseBadKey,
  toUsageAnswer,
  usageAnswerJson,
  withUnreadable,
  type UsageAnswer,
} from './answer.js';
import { parseUsageBatch, toBatch, type Batch, type BatchInput, type ParsedEvents } from './batch.js';
import {
  cloudEventBatchSchema,
  cloudEventBatchType,
  cloudEventSchema,
  cloudEventType,
  parseCloudEvents,
  restoreFormerKeys,
} from './cloud-events.js';
import { sendJson } from '../../core/http/json.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import type { Ingestion } from './ingestion.js';
import { MAX_BODY_BYTES, usageAnswerSchema, usageBatchSchema } from './schema.js';
import type { BatchOutcome } from './outcome.js';

export interface RecordingDeps extends Pick<Context, 'config' | 'db' | 'clock' | 'metrics'> {
  ingestion: Ingestion;
}

export const recordQuerySchema = z.strictObject({
  dryRun: flagInput
    .optional()
    .meta({ description: '`true`: respond as usual, but record nothing. Default: `false`.' }),
});

export const otherFormats = {
  [cloudEventType]: cloudEventSchema,
  [cloudEventBatchType]: cloudEventBatchSchema,
};

/** Common to the routes that record events. */
export const recordParts = {
  headers: z.object({
    Prefer: z.string().optional().meta({
      description: '`handling=lenient` records the valid events of a batch. Other preferences are ignored.',
    }),
  }),
  responses: {
    202: json('Durably recorded, or the result of a dry run.', usageAnswerSchema, ['Preference-Applied']),
  },
};

export const usageRoutes = [
  defineRoute({
    at: 'POST /api/usage/events',
    operationId: 'recordUsageEvents',
    tag: 'Usage',
    credential: 'apiKey',
    limit: 'usage',
    scope: 'usage:write',
    query: recordQuerySchema,
    ...recordParts,
    body: { schema: usageBatchSchema, others: otherFormats, maxBytes: MAX_BODY_BYTES },
    handler: (deps: CallDeps & RecordingDeps) => async (req, res) => {
      const { clock, keys, keyUse } = deps;
      const hashedSecret = readHashedSecret(req);
      const receivedAtMs = clock.now();
      // Checks the key before reading a large body. The statement checks every key again.
      if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req))
        await keys.authenticate(hashedSecret, 'usage:write');
      const read = await preferKeyError(
        () => authenticateCall({ keys, keyUse }, hashedSecret, 'usage:write'),
        () => {
          const findOrgId = async () => (await keys.authenticate(hashedSecret, 'usage:write')).orgId;
          return readBatch(deps, req, res, { hashedSecret, receivedAtMs }, findOrgId);
        },
      );
      const sent = await withOldEvents(read, () => keys.authenticate(hashedSecret, 'usage:write'));
      const isDryRun = readDryRun(req);
      const answer = await record(deps, sent, isDryRun, () => keyUse.touch(hashedSecret, 'usage:write'));
      sendAnswer(res, sent.batch, answer);
    },
  }),
];

/** @param findOrgId called only for CloudEvents */
export async function readBatch(
  { db }: Pick<Context, 'db'>,
  req: Request,
  res: Response,
  sender: Pick<Batch, 'hashedSecret' | 'receivedAtMs'> & { orgId?: string },
  findOrgId: () => Promise<string>,
) {
  const isLenient = prefersLenient(req);
  const body = await readJsonBody(req, res, MAX_BODY_BYTES, batchBounds, isKnownFormat);
  const { events, exactQuantities, pointerOf, unreadable } = parseBody(mediaTypeOf(req), body, isLenient);
  if (mediaTypeOf(req) !== 'application/json') await restoreFormerKeys(db.orm, findOrgId, events);
  const { hashedSecret, receivedAtMs, orgId } = sender;
  const bytes = body.text.length;
  const input = { events, exactQuantities, hashedSecret, orgId, isLenient, receivedAtMs, bytes };
  return { input, batch: toBatch(input), pointerOf, unreadable };
}

type Sent = Pick<Awaited<ReturnType<typeof readBatch>>, 'batch' | 'pointerOf' | 'unreadable'>;

/** Lets a key with `usage:backfill` send events that are older than others may send. Other batches cost no lookup. */
export async function withOldEvents<T extends Sent & { input: BatchInput }>(
  sent: T,
  authenticate: () => Promise<{ scopes: string[] }>,
): Promise<T> {
  if (sent.batch.outOfRange.size === 0) return sent;
  const { scopes } = await authenticate();
  return scopes.includes('usage:backfill')
    ? { ...sent, batch: toBatch({ ...sent.input, takesOld: true }) }
    : sent;
}

/** Records a batch, or only says what recording it would answer. @param onAllowed called if the key is valid */
export async function record(
  { config, db, clock, metrics, ingestion }: RecordingDeps,
  { batch, pointerOf, unreadable }: Sent,
  isDryRun: boolean,
  onAllowed: () => void = () => undefined,
): Promise<UsageAnswer> {
  const outcome = await (isDryRun ? ingestion.dryRun(batch) : ingestion.record(batch));
  refuseBadKey(outcome);
  onAllowed();
  const unknown = findUnknownProducts(batch, outcome);
  const suggestions = unknown && (await suggestSlugs({ db, clock }, unknown.orgId, unknown.slugs, 'live'));
  const readable = toUsageAnswer(batch, outcome, suggestions, pointerOf, config.dedupeHorizonMonths);
  const answer = unreadable ? withUnreadable(readable, unreadable) : readable;
  if (!isDryRun) count(metrics, answer, outcome);
  return answer;
}

export function sendAnswer(res: Response, { isLenient }: Batch, answer: UsageAnswer): void {
  if (isLenient) res.setHeader('Preference-Applied', 'handling=lenient');
  sendJson(res, 202, usageAnswerJson(answer));
}

const formats = new Set(['application/json', cloudEventType, cloudEventBatchType]);
const isKnownFormat = (mediaType: string | undefined) => mediaType !== undefined && formats.has(mediaType);

function parseBody(mediaType: string | undefined, body: JsonBody, isLenient: boolean): ParsedEvents {
  if (mediaType === cloudEventType) return parseCloudEvents(body, false, isLenient);
  if (mediaType === cloudEventBatchType) return parseCloudEvents(body, true, isLenient);
  return parseUsageBatch(body, isLenient);
}

/** The sender of a misspelled parameter may have meant a dry run. Usually there is no query to parse. */
export const readDryRun = (req: Request): boolean =>
  req.url.includes('?') && parseQuery(recordQuerySchema, req.query).dryRun === 'true';

/** Follows RFC 7240, which requires that unknown preferences be ignored. */
export function prefersLenient(req: Request): boolean {
  const { prefer } = req.headers;
  return prefer !== undefined && /(^|[,;\s])handling\s*=\s*"?lenient"?\s*($|[,;])/i.test(String(prefer));
}

function count(
  metrics: Context['metrics'],
  { accepted, deduped, rejected }: UsageAnswer,
  { overdrawn }: BatchOutcome,
): void {
  metrics.usageEvents.inc({ outcome: 'accepted' }, accepted);
  if (accepted > 0 && overdrawn.length > 0) metrics.creditOverdrafts.inc();
  if (deduped > 0) metrics.usageEvents.inc({ outcome: 'deduped' }, deduped);
  if (rejected && rejected.length > 0) metrics.usageEvents.inc({ outcome: 'rejected' }, rejected.length);
}
