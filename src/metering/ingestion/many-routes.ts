import type { Request, Response } from 'express';
import { hashServiceKey, OrganizationArchived } from '../../accounts/api-keys/bearer-key.js';
import type { CallDeps } from '../../accounts/api-keys/key-use.js';
import { organizationArchived, type ServiceAccess } from '../../accounts/service-keys/access.js';
import { whereaboutsOf } from '../../accounts/identity/session/session.js';
import { AppError } from '../../core/errors.js';
import { batchBounds, readJsonBody } from '../../core/http/body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { statusOf, toAppError } from '../../core/http/problem.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { warningJson, withIndexes, type UsageAnswer } from './answer.js';
import {
  findExactQuantities,
  parseEvents,
  pointerInBatch,
  quantitiesInBatch,
  requireFewEvents,
  toBatch,
  type BatchInput,
} from './batch.js';
import {
  prefersLenient,
  readDryRun,
  record,
  recordParts,
  recordQuerySchema,
  withOldEvents,
  type RecordingDeps,
} from './routes.js';
import { manyAnswerSchema, manyBatchSchema, manyFrameSchema, MAX_BODY_BYTES } from './schema.js';

const scope = 'usage:write';

type ManyDeps = CallDeps & RecordingDeps & { access: ServiceAccess };

export const manyUsageRoutes = [
  defineRoute({
    at: 'POST /service/usage/events',
    operationId: 'recordUsageEventsOfMany',
    tag: 'On behalf of customers',
    credential: 'serviceKey',
    limit: 'service',
    scope,
    query: recordQuerySchema,
    ...recordParts,
    responses: {
      202: json('At least one part is durably recorded.', manyAnswerSchema, ['Preference-Applied']),
    },
    body: { schema: manyBatchSchema, maxBytes: MAX_BODY_BYTES },
    handler: (deps: ManyDeps) => async (req, res) => {
      const receivedAtMs = deps.clock.now();
      const serviceHash = hashServiceKey(req);
      await deps.access.authenticate(serviceHash, scope);
      const isLenient = prefersLenient(req);
      const isDryRun = readDryRun(req);
      const parts = await readParts(req, res);
      const hashOf = (slug: string) =>
        deps.access.hashAt(serviceHash, slug, whereaboutsOf(req, res, deps.clock));
      const hashes: (string | AppError)[] = [];
      for (const { organization } of parts) hashes.push(await hashOf(organization).catch(toAppError));
      // Submitted in one turn of the event loop, so that one statement records all of them.
      const outcomes = await Promise.all(
        parts.map((part, i) => {
          const sender = { receivedAtMs, isLenient, isContinuation: i > 0 };
          return recordPart(deps, part, hashes[i]!, sender, isDryRun);
        }),
      );
      send(res, outcomes, isLenient);
    },
  }),
];

/** One Organization's events, by their indexes in the body. */
interface Part {
  organization: string;
  events: unknown[];
  indexes: number[];
  exactQuantities: Map<number, string>;
  bytes: number;
}

interface PartOutcome {
  organization: string;
  /** With the indexes of the body, like `error`. */
  answer?: UsageAnswer;
  error?: AppError;
}

async function readParts(req: Request, res: Response): Promise<Part[]> {
  const { value, text } = await readJsonBody(req, res, MAX_BODY_BYTES, batchBounds);
  requireFewEvents((value as { events?: unknown } | null)?.events);
  const { events } = parseInput(manyFrameSchema, value);
  const exact = findExactQuantities(text, quantitiesInBatch, pointerInBatch);
  const parts = new Map<string, Part>();
  for (const [index, { organization, ...event }] of events.entries()) {
    let part = parts.get(organization);
    if (!part) {
      part = { organization, events: [], indexes: [], exactQuantities: new Map(), bytes: 0 };
      parts.set(organization, part);
    }
    const quantity = exact.get(index);
    if (quantity !== undefined) part.exactQuantities.set(part.events.length, quantity);
    part.events.push(event);
    part.indexes.push(index);
    part.bytes += text.length / events.length;
  }
  return [...parts.values()];
}

async function recordPart(
  deps: ManyDeps,
  part: Part,
  hash: string | AppError,
  sender: Pick<BatchInput, 'receivedAtMs' | 'isLenient' | 'isContinuation'>,
  isDryRun: boolean,
): Promise<PartOutcome> {
  const { keys, keyUse } = deps;
  const { organization } = part;
  if (typeof hash !== 'string') return { organization, error: inBody(hash, part) };
  try {
    const parsed = parseEvents(part.events, part.exactQuantities, sender.isLenient);
    const input = { ...sender, ...parsed, hashedSecret: hash, bytes: part.bytes };
    const read = { unreadable: undefined, ...parsed, input, batch: toBatch(input) };
    const hasOld = read.batch.outOfRange.size > 0;
    const sent = hasOld ? await withOldEvents(read, () => keys.authenticate(hash, scope)) : read;
    const answer = await record(deps, sent, isDryRun, () => keyUse.touch(hash, scope));
    return { organization, answer: withIndexes(answer, part.indexes) };
  } catch (thrown) {
    const isArchived = thrown instanceof OrganizationArchived;
    const refusal = isArchived ? organizationArchived(organization) : toAppError(thrown);
    if (['key_revoked', 'key_expired', 'invalid_key'].includes(refusal.code)) keyUse.forget(hash);
    return { organization, error: inBody(refusal, part) };
  }
}

/** Restores the body's indexes. A refusal without places is that of the part's Organization. */
function inBody({ code, message, errors, retryAfterSeconds, cause }: AppError, { indexes }: Part): AppError {
  const place = (text: string) =>
    text.replace(
      /^(\/events\/|Nothing was recorded\. Event )(\d+)/,
      (_all, before: string, i: string) => before + indexes[Number(i)]!,
    );
  const ofOrganization = { index: 0, pointer: '/events/0/organization', code, detail: message };
  return new AppError(code, place(message), {
    cause,
    errors: (errors ?? [ofOrganization]).map(({ index, pointer, ...rest }) => ({
      ...(index === undefined ? {} : { index: indexes[index]! }),
      pointer: place(pointer),
      ...rest,
    })),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}

/** @throws the first part's refusal if all parts were refused */
function send(res: Response, outcomes: PartOutcome[], isLenient: boolean): void {
  const answers = outcomes.flatMap(({ answer }) => answer ?? []);
  if (answers.length === 0) throw outcomes[0]!.error!;
  if (isLenient) res.setHeader('Preference-Applied', 'handling=lenient');
  const sum = (name: 'accepted' | 'deduped') => answers.reduce((total, answer) => total + answer[name], 0);
  const rejected = answers.flatMap((answer) => answer.rejected ?? []).toSorted((a, b) => a.index - b.index);
  const refused = outcomes.flatMap(({ organization, error }) => {
    if (!error) return [];
    const { code, message: detail, errors } = error;
    return [{ organization, status: statusOf(res, code), code, detail, errors }];
  });
  const answer = {
    accepted: sum('accepted'),
    deduped: sum('deduped'),
    warnings: outcomes.flatMap(({ organization, answer: own }) =>
      (own?.warnings ?? []).map((warning) => ({ organization, ...warningJson(warning) })),
    ),
    ...(isLenient ? { rejected } : {}),
    ...(refused.length > 0 ? { refused } : {}),
  };
  sendJson(res, 202, toJson(answer));
}
