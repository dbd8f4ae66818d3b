import type { Request } from 'express';
import { z } from 'zod';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { preferKeyError, readHashedSecret } from '../../accounts/api-keys/bearer-key.js';
import type { Context } from '../../core/http/context.js';
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
import { parseUsageBatch, toBatch, type ParsedEvents } from './batch.js';
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

interface UsageDeps extends CallDeps, Pick<Context, 'config' | 'db' | 'clock' | 'metrics'> {
  ingestion: Ingestion;
}

const querySchema = z.strictObject({
  dryRun: z
    .enum(['true', 'false'], 'must be true or false')
    .optional()
    .meta({ description: '`true`: respond as usual, but record nothing. Default: `false`.' }),
});

export const usageRoutes = [
  defineRoute({
    method: 'post',
    path: '/api/usage/events',
    operationId: 'recordUsageEvents',
    tag: 'Usage',
    credential: 'apiKey',
    limit: 'usage',
    scope: 'usage:write',
    query: querySchema,
    headers: z.object({
      Prefer: z.string().optional().meta({
        description: '`handling=lenient` records the valid events of a batch. Other preferences are ignored.',
      }),
    }),
    body: {
      schema: usageBatchSchema,
      others: { [cloudEventType]: cloudEventSchema, [cloudEventBatchType]: cloudEventBatchSchema },
      maxBytes: MAX_BODY_BYTES,
    },
    responses: {
      202: json('Durably recorded, or the result of a dry run.', usageAnswerSchema, ['Preference-Applied']),
    },
    handler:
      ({ config, db, clock, metrics, ingestion, keys, keyUse }: UsageDeps) =>
      async (req, res) => {
        const hashedSecret = readHashedSecret(req);
        const receivedAtMs = clock.now();
        const isLenient = prefersLenient(req);
        // The key is checked before a large body is read. The statement checks every key again.
        if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req))
          await keys.authenticate(hashedSecret, 'usage:write');
        const { batch, pointerOf, unreadable } = await preferKeyError(
          () => authenticateCall({ keys, keyUse }, hashedSecret, 'usage:write'),
          async () => {
            const body = await readJsonBody(req, res, MAX_BODY_BYTES, batchBounds, isKnownFormat);
            const parsed = parseEvents(mediaTypeOf(req), body, isLenient);
            const { events, exactQuantities, pointerOf, unreadable } = parsed;
            const findOrgId = async () => (await keys.authenticate(hashedSecret, 'usage:write')).orgId;
            if (mediaTypeOf(req) !== 'application/json') await restoreFormerKeys(db.orm, findOrgId, events);
            const bytes = body.text.length;
            const input = { events, exactQuantities, hashedSecret, isLenient, receivedAtMs, bytes };
            return { batch: toBatch(input), pointerOf, unreadable };
          },
        );
        const isDryRun = readDryRun(req);
        const outcome = await (isDryRun ? ingestion.dryRun(batch) : ingestion.record(batch));
        refuseBadKey(outcome);
        keyUse.touch(hashedSecret, 'usage:write');
        const unknown = findUnknownProducts(batch, outcome);
        const suggestions =
          unknown && (await suggestSlugs({ db, clock }, unknown.orgId, unknown.slugs, 'live'));
        const { dedupeHorizonMonths } = config;
        const readable = toUsageAnswer(batch, outcome, suggestions, pointerOf, dedupeHorizonMonths);
        const answer = unreadable ? withUnreadable(readable, unreadable) : readable;
        if (!isDryRun) count(metrics, answer, outcome);
        if (isLenient) res.setHeader('Preference-Applied', 'handling=lenient');
        sendJson(res, 202, usageAnswerJson(answer));
      },
  }),
];

const formats = new Set(['application/json', cloudEventType, cloudEventBatchType]);
const isKnownFormat = (mediaType: string | undefined) => mediaType !== undefined && formats.has(mediaType);

function parseEvents(mediaType: string | undefined, body: JsonBody, isLenient: boolean): ParsedEvents {
  if (mediaType === cloudEventType) return parseCloudEvents(body, false, isLenient);
  if (mediaType === cloudEventBatchType) return parseCloudEvents(body, true, isLenient);
  return parseUsageBatch(body, isLenient);
}

/** The sender of a misspelled parameter may have meant a dry run. Usually there is no query to parse. */
const readDryRun = (req: Request): boolean =>
  req.url.includes('?') && parseQuery(querySchema, req.query).dryRun === 'true';

/** RFC 7240 requires that unknown preferences be ignored. */
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
