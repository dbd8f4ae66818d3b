import type { Request, RequestHandler, Router } from 'express';
import type { KeyUse } from '../api-keys/key-use.js';
import { readHashedSecret } from '../api-keys/bearer-key.js';
import { keyFirst } from '../api-keys/key-first.js';
import type { KeyReader } from '../api-keys/key-reader.js';
import type { Context } from '../core/http/context.js';
import { AppError } from '../core/errors.js';
import { hasSmallBody, readJsonBody, type JsonBody } from '../core/http/json-body.js';
import { exact, sendJson, toJson } from '../core/http/json.js';
import { usualBounds } from '../core/http/json-shape.js';
import { parseInput, parseItems } from '../core/http/validate.js';
import { refuseBadKey, toUsageAnswer, type UsageAnswer } from './answer.js';
import { toBatch } from './batch.js';
import { findExactQuantities } from './exact-quantity.js';
import type { Ingestion } from './ingestion.js';
import { batchFrameSchema, MAX_BODY_BYTES, MAX_EVENTS, usageEventSchema, type UsageEvent } from './schema.js';

const bounds = { ...usualBounds, tooManyValues: 'batch_too_large' as const };

export interface UsageServices {
  context: Context;
  ingestion: Ingestion;
  keys: KeyReader;
  keyUse: KeyUse;
  /** Stands before the route: see `apiRoutes`. */
  callLimit: RequestHandler;
}

export function addUsageRoutes(
  router: Router,
  { context: { clock, metrics }, ingestion, keys, keyUse, callLimit }: UsageServices,
): void {
  router.post('/usage/events', callLimit, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const receivedAtMs = clock.now();
    const isLenient = prefersLenient(req);
    // A body that costs something is not read before its key is judged; the statement decides about every key again.
    if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req))
      await keys.authenticate(hashedSecret, 'usage:write');
    const batch = await keyFirst(
      async () => {
        await keys.authenticate(hashedSecret, 'usage:write');
        keyUse.touch(hashedSecret, 'usage:write');
      },
      async () => {
        const body = await readJsonBody(req, res, MAX_BODY_BYTES, bounds);
        const { events, exactQuantities } = parseUsageBatch(body);
        const bytes = body.text.length;
        return toBatch({ events, exactQuantities, hashedSecret, isLenient, receivedAtMs, bytes });
      },
    );
    const isDryRun = readDryRun(req);
    const outcome = await (isDryRun ? ingestion.rehearse(batch) : ingestion.record(batch));
    refuseBadKey(outcome);
    keyUse.touch(hashedSecret, 'usage:write');
    const answer = toUsageAnswer(batch, outcome);
    if (!isDryRun) count(metrics, answer);
    if (isLenient) res.setHeader('Preference-Applied', 'handling=lenient');
    sendJson(res, 202, usageAnswerJson(answer));
  });
}

function parseUsageBatch({ value, text }: JsonBody): {
  events: UsageEvent[];
  exactQuantities: ReadonlyMap<number, string>;
} {
  const sent = (value as { events?: unknown } | null)?.events;
  if (Array.isArray(sent) && sent.length > MAX_EVENTS) {
    throw new AppError(
      'batch_too_large',
      `A batch holds at most ${MAX_EVENTS} events; this one has ${sent.length}.`,
    );
  }
  const events = parseItems(usageEventSchema, parseInput(batchFrameSchema, value).events, ['events']);
  try {
    return { events, exactQuantities: findExactQuantities(text) };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const pointer = error.message.split(' ', 1)[0]!;
    const place = {
      index: Number(pointer.split('/')[2]),
      pointer,
      code: 'invalid_request' as const,
      detail: error.message,
    };
    throw new AppError('invalid_request', error.message, { errors: [place] });
  }
}

function readDryRun(req: Request): boolean {
  const { dryRun } = req.query;
  if (dryRun === undefined || dryRun === 'false') return false;
  if (dryRun === 'true') return true;
  throw new AppError('invalid_request', 'The query parameter dryRun is true or false.');
}

/** RFC 7240. An unknown preference is ignored, as the RFC asks. */
function prefersLenient(req: Request): boolean {
  const { prefer } = req.headers;
  return prefer !== undefined && /(^|[,;\s])handling\s*=\s*"?lenient"?\s*($|[,;])/i.test(String(prefer));
}

function usageAnswerJson(answer: UsageAnswer): string {
  if (answer.warnings.length === 0) return JSON.stringify(answer);
  const warnings = answer.warnings.map((w) =>
    w.code === 'unit_cap_exceeded' ? { ...w, unitCap: exact(w.unitCap), used: exact(w.used) } : w,
  );
  return toJson({ ...answer, warnings });
}

function count(metrics: Context['metrics'], { accepted, deduped, rejected }: UsageAnswer): void {
  metrics.usageEvents.inc({ outcome: 'accepted' }, accepted);
  if (deduped > 0) metrics.usageEvents.inc({ outcome: 'deduped' }, deduped);
  if (rejected && rejected.length > 0) metrics.usageEvents.inc({ outcome: 'rejected' }, rejected.length);
}
