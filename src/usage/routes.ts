import type { Request } from 'express';
import { z } from 'zod';
import { authenticateCall, type KeyUse } from '../api-keys/key-use.js';
import { readHashedSecret } from '../api-keys/bearer-key.js';
import { preferKeyError } from '../api-keys/key-problem.js';
import type { KeyReader } from '../api-keys/key-reader.js';
import type { Context } from '../core/http/context.js';
import { AppError } from '../core/errors.js';
import { suggestSlugs } from '../entitlements/nearest.js';
import { hasSmallBody, readJsonBody } from '../core/http/json-body.js';
import { usualBounds } from '../core/http/json-shape.js';
import {
  findUnknownProducts,
  refuseBadKey,
  toUsageAnswer,
  usageAnswerJson,
  type UsageAnswer,
} from './answer.js';
import { parseUsageBatch, toBatch } from './batch.js';
import { sendJson } from '../core/http/json.js';
import { defineRoute, json, repeated, type Example } from '../core/reference/define-route.js';
import { problemExample } from '../core/reference/problem-examples.js';
import type { Ingestion } from './ingestion.js';
import {
  MAX_BODY_BYTES,
  MAX_EVENTS,
  usageAnswerSchema,
  usageBatchSchema,
  type UsageEvent,
} from './schema.js';

const bounds = { ...usualBounds, tooManyValues: 'batch_too_large' as const };

interface UsageDeps extends Pick<Context, 'config' | 'db' | 'clock' | 'metrics'> {
  ingestion: Ingestion;
  keys: KeyReader;
  keyUse: KeyUse;
}

const january = { start: '2026-01-01T00:00:00Z', end: '2026-02-01T00:00:00Z' };

const call = (idempotencyKey: string, more: Partial<UsageEvent> = {}): UsageEvent => ({
  productSlug: 'api-calls',
  metric: 'calls',
  idempotencyKey,
  ...more,
});
const good = { events: [call('req-7f3a', { quantity: 3, occurredAt: '2026-01-31T11:59:58.250Z' })] };
const mixed = {
  events: [call('req-7f3a'), call('req-7f3b', { productSlug: 'archive', metric: 'documents' })],
};

const successes: Example[] = [
  {
    name: 'accepted',
    summary: 'Two events, recorded',
    request: {
      body: {
        events: [
          ...good.events,
          {
            productSlug: 'storage',
            metric: 'bytes',
            quantity: 1048576.5,
            idempotencyKey: 'disk-2026-01-31T12',
          },
        ],
      },
    },
    answer: { accepted: 2, deduped: 0, warnings: [] },
  },
  {
    name: 'repeated',
    summary: 'The same batch once more: counted once',
    before: [{ body: good }],
    request: { body: good },
    answer: { accepted: 0, deduped: 1, warnings: [] },
  },
  {
    name: 'duplicateMismatch',
    summary: 'An idempotency key that was used for another event',
    before: [{ body: good }],
    request: { body: { events: [call('req-7f3a', { quantity: 30 })] } },
    answer: { accepted: 0, deduped: 1, warnings: [{ code: 'duplicate_mismatch', index: 0 }] },
  },
  {
    name: 'otherMode',
    summary: 'An idempotency key that a test event has: the live one is not counted',
    before: [{ credential: 'testKey', body: good }],
    request: { body: good },
    answer: {
      accepted: 0,
      deduped: 1,
      warnings: [{ code: 'duplicate_mismatch', index: 0, differs: ['livemode'] }],
    },
  },
  {
    name: 'unitCapExceeded',
    summary: 'Above the cap: recorded, with a warning',
    request: { body: { events: [call('req-9c01', { quantity: 600.5 })] } },
    answer: {
      accepted: 1,
      deduped: 0,
      warnings: [
        {
          code: 'unit_cap_exceeded',
          productSlug: 'api-calls',
          metric: 'calls',
          unitCap: 1000,
          used: 1000.5,
          period: january,
        },
      ],
    },
  },
  {
    name: 'lenient',
    summary: 'Lenient: the good event is recorded, the other reported',
    request: { headers: { prefer: 'handling=lenient' }, body: mixed },
    answerHeaders: { 'preference-applied': 'handling=lenient' },
    answer: {
      accepted: 1,
      deduped: 0,
      warnings: [],
      rejected: [
        {
          index: 1,
          code: 'entitlement_read_only',
          detail: 'The entitlement for the product archive is read-only.',
        },
      ],
    },
  },
  {
    name: 'dryRun',
    summary: 'A dry run: the same answer, nothing recorded',
    request: { credential: 'testKey', query: { dryRun: 'true' }, body: good },
    answer: { accepted: 1, deduped: 0, warnings: [] },
  },
];

const brokenRule = (
  code:
    | 'entitlement_required'
    | 'entitlement_read_only'
    | 'unknown_metric'
    | 'timestamp_out_of_range'
    | 'quantity_out_of_range',
  summary: string,
  event: UsageEvent,
  field: keyof UsageEvent,
  detail: string,
): Example =>
  problemExample(code, {
    summary,
    detail: `Nothing was recorded. Event 0: ${detail}`,
    errors: [{ index: 0, code, detail, pointer: `/events/0/${field}` }],
    request: { body: { events: [event] } },
  });

const problems: Example[] = [
  problemExample('invalid_request', {
    summary: 'Every offending place is listed',
    detail: '/events/0/metric is required (and 2 more, see errors)',
    errors: [
      { index: 0, pointer: '/events/0/metric', code: 'invalid_request', detail: 'is required' },
      {
        index: 0,
        pointer: '/events/0/quantity',
        code: 'invalid_request',
        detail: 'must be a finite number of at least 0',
      },
      { index: 0, pointer: '/events/0/color', code: 'invalid_request', detail: 'is not a known field' },
    ],
    request: {
      body: {
        events: [{ productSlug: 'api-calls', quantity: -1, idempotencyKey: 'req-7f3a', color: 'red' }],
      },
    },
  }),
  brokenRule(
    'entitlement_required',
    'No live entitlement for the product',
    call('req-7f3a', { productSlug: 'reports', metric: 'pages' }),
    'productSlug',
    'There is no live entitlement for the product reports.',
  ),
  brokenRule(
    'entitlement_read_only',
    'The entitlement is read-only',
    call('req-7f3a', { productSlug: 'archive', metric: 'documents' }),
    'productSlug',
    'The entitlement for the product archive is read-only.',
  ),
  brokenRule(
    'unknown_metric',
    'The product counts another metric',
    call('req-7f3a', { metric: 'bytes' }),
    'metric',
    'The product api-calls counts calls, not bytes.',
  ),
  brokenRule(
    'timestamp_out_of_range',
    'More than 7 days ago',
    call('req-7f3a', { occurredAt: '2026-01-24T11:59:59Z' }),
    'occurredAt',
    'occurredAt must lie between 7 days before and 5 minutes after the receipt.',
  ),
  brokenRule(
    'quantity_out_of_range',
    'More than one event of the product may count',
    call('req-7f3a', { quantity: 1e16 }),
    'quantity',
    'An event of the product api-calls counts at most 1000000000000000.',
  ),
  problemExample('batch_too_large', {
    summary: '501 events (one is shown)',
    detail: `A batch holds at most ${MAX_EVENTS} events; this one has ${MAX_EVENTS + 1}.`,
    request: { body: { events: repeated(MAX_EVENTS + 1, (i) => call(`req-${i}`)) } },
  }),
];

const description = `
Records a batch of 1 to ${MAX_EVENTS} usage events for the Organization of the key, of at most ${MAX_BODY_BYTES.toLocaleString('en')} bytes. The body is UTF-8 JSON, plain or
compressed (\`Content-Encoding: gzip\`, \`deflate\` or \`br\`; the bound holds after inflating).

**202 means durable.** The answer comes after the commit. The totals already include the batch, here and in every later answer of
the entitlement routes. Without an answer, or after a 5xx, it is unknown whether the batch was recorded: send it again as it was.

**Counted once.** \`idempotencyKey\` names an event within the Organization, for ever or up to the horizon below. A repeat, in a later batch, in the same one or in two requests at
the same moment, is counted as \`deduped\` and changes nothing. If its product, metric, quantity, mode or (where given) time differs
from what was recorded first, the warning \`duplicate_mismatch\` says so. Live and test share the keys: a live event that repeats a
test one is not counted, and the warning's \`differs\` names \`livemode\`.

**Old repeats.** Where the operator of the service has set a horizon for archiving, an event is known for that many whole months after the
month it occurred in. Repeated later with its \`occurredAt\` it is refused with \`timestamp_out_of_range\`, as every event of more than 7 days
ago; repeated later **without** one it counts again. So repeat within days, and always with \`occurredAt\`.

**All or nothing.** If any event breaks a rule, nothing is recorded. The status is that of the first broken rule in this order:
\`entitlement_required\` (403), \`entitlement_read_only\` (403), \`unknown_metric\` (422), \`timestamp_out_of_range\` (422), \`quantity_out_of_range\` (422);
\`errors\` lists every one. With \`Prefer: handling=lenient\` (RFC 7240) the good events are recorded, the answer is 202, and \`rejected\` lists the others. A
body that does not fit the schema is 400 either way.

**Exact.** Quantities are decimals, added up without rounding. Live and test keys are counted apart.

**Caps.** A product may have a cap of units per calendar month in UTC, the month of \`occurredAt\`. Usage above it is
recorded all the same, and the answer carries the warning \`unit_cap_exceeded\` with the total of the month.

With \`?dryRun=true\` the answer is the same and nothing is recorded.
`.trim();

export const usageRoutes = [
  defineRoute({
    method: 'post',
    path: '/api/usage/events',
    operationId: 'recordUsageEvents',
    tag: 'Usage',
    summary: 'Send usage events',
    description,
    credential: 'apiKey',
    limit: 'usage',
    scope: 'usage:write',
    query: z.strictObject({
      dryRun: z
        .enum(['true', 'false'])
        .optional()
        .meta({ description: '`true`: answer as usual, record nothing. Default `false`.' }),
    }),
    headers: z.object({
      Prefer: z.string().optional().meta({
        description: '`handling=lenient` records the good events of a batch. Other preferences are ignored.',
      }),
    }),
    body: { schema: usageBatchSchema, maxBytes: MAX_BODY_BYTES },
    responses: {
      202: json('Recorded, durably; or what a dry run found.', usageAnswerSchema, ['Preference-Applied']),
    },
    errors: [
      'invalid_request',
      'entitlement_required',
      'entitlement_read_only',
      'unknown_metric',
      'timestamp_out_of_range',
      'quantity_out_of_range',
      'batch_too_large',
    ],
    examples: [...successes, ...problems],
    good: { body: good },
    handler:
      ({ config, db, clock, metrics, ingestion, keys, keyUse }: UsageDeps) =>
      async (req, res) => {
        const hashedSecret = readHashedSecret(req);
        const receivedAtMs = clock.now();
        const isLenient = prefersLenient(req);
        // A body that costs something is not read before its key is judged; the statement decides about every key again.
        if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req))
          await keys.authenticate(hashedSecret, 'usage:write');
        const batch = await preferKeyError(
          () => authenticateCall({ keys, keyUse }, hashedSecret, 'usage:write'),
          async () => {
            const body = await readJsonBody(req, res, MAX_BODY_BYTES, bounds);
            const { events, exactQuantities } = parseUsageBatch(body);
            const bytes = body.text.length;
            return toBatch({ events, exactQuantities, hashedSecret, isLenient, receivedAtMs, bytes });
          },
        );
        const isDryRun = readDryRun(req);
        const outcome = await (isDryRun ? ingestion.dryRun(batch) : ingestion.record(batch));
        refuseBadKey(outcome);
        keyUse.touch(hashedSecret, 'usage:write');
        const unknown = findUnknownProducts(batch, outcome);
        const suggestions =
          unknown && (await suggestSlugs({ db, clock }, unknown.orgId, unknown.slugs, 'live'));
        const answer = toUsageAnswer(batch, outcome, suggestions, config.dedupeHorizonMonths);
        if (!isDryRun) count(metrics, answer);
        if (isLenient) res.setHeader('Preference-Applied', 'handling=lenient');
        sendJson(res, 202, usageAnswerJson(answer));
      },
  }),
];

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

function count(metrics: Context['metrics'], { accepted, deduped, rejected }: UsageAnswer): void {
  metrics.usageEvents.inc({ outcome: 'accepted' }, accepted);
  if (deduped > 0) metrics.usageEvents.inc({ outcome: 'deduped' }, deduped);
  if (rejected && rejected.length > 0) metrics.usageEvents.inc({ outcome: 'rejected' }, rejected.length);
}
