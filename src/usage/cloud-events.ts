import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { JsonBody } from '../core/http/json-body.js';
import { parseInput, parseItems, text } from '../core/http/validate.js';
import { findExactQuantities, requireFewEvents, type ParsedEvents, type PointerOf } from './batch.js';
import { MAX_EVENTS, MAX_TEXT_LENGTH, usageEventSchema, type UsageEvent } from './schema.js';

const MAX_NAME_LENGTH = 2_048;
const { productSlug, metric, quantity, occurredAt } = usageEventSchema.shape;

/** An unset attribute may be sent as null. */
const unset = <T extends z.ZodType>(schema: T) => schema.nullish();

const dataSchema = z
  .looseObject({
    productSlug: productSlug.optional().describe('The product; left out, `subject` names it.'),
    quantity: quantity.describe('How many units; 1 if left out. Otherwise as in `UsageEvent`.'),
  })
  .describe('Other fields are ignored.');

/** CloudEvents 1.0.2, JSON format. Extension attributes are anybody's. */
export const cloudEventSchema = z
  .looseObject({
    specversion: z.literal('1.0'),
    id: text(MAX_NAME_LENGTH).describe('Names the event within its `source`.'),
    source: text(MAX_NAME_LENGTH).describe(
      `Together with \`id\` the idempotency key: \`source\`, a slash and \`id\`, or the SHA-256 of that in hex where it has more than ${MAX_TEXT_LENGTH} characters.`,
    ),
    type: metric.describe("The metric. Must equal the product's `usageMetric`."),
    subject: unset(text(MAX_NAME_LENGTH)).describe('The product, unless `data` names it.'),
    time: unset(occurredAt.unwrap()).describe('When the usage happened, as `occurredAt` of `UsageEvent`.'),
    datacontenttype: unset(
      z.string().regex(/^[^\s;]+[/+][Jj][Ss][Oo][Nn]\s*(;.*)?$/, 'must be JSON, like application/json'),
    ).describe('Left out: JSON.'),
    data: unset(dataSchema),
    data_base64: z.null('is not read: send the quantity in data, as JSON').optional(),
  })
  .refine((event) => event.data?.productSlug !== undefined || event.subject != null, {
    path: ['subject'],
    error: 'is required where data has no productSlug',
  })
  .meta({ id: 'CloudEvent', description: 'A usage event as a CloudEvent 1.0 in JSON.' });

type CloudEvent = z.output<typeof cloudEventSchema>;

export const cloudEventBatchSchema = z.array(cloudEventSchema).min(1).max(MAX_EVENTS);

export const cloudEventType = 'application/cloudevents+json';
export const cloudEventBatchType = 'application/cloudevents-batch+json';

const frameSchema = z.array(z.unknown()).min(1, 'must hold at least one event');

/** Reads one CloudEvent, or a batch of them. */
export function parseCloudEvents({ value, text: json }: JsonBody, isBatch: boolean): ParsedEvents {
  requireFewEvents(value);
  const sent = isBatch
    ? parseItems(cloudEventSchema, parseInput(frameSchema, value), [])
    : [parseInput(cloudEventSchema, value)];
  const pointerOf: PointerOf = (index, field) =>
    `${isBatch ? `/${index}` : ''}/${placeOf(sent[index]!, field)}`;
  const quantitiesIn = (body: unknown) =>
    (isBatch ? (body as CloudEvent[]) : [body as CloudEvent]).map(({ data }) => data?.quantity);
  const exactQuantities = findExactQuantities(json, quantitiesIn, pointerOf);
  return { events: sent.map(toUsageEvent), exactQuantities, pointerOf };
}

function toUsageEvent({ id, source, type, subject, time, data }: CloudEvent): UsageEvent {
  return {
    productSlug: data?.productSlug ?? subject!,
    metric: type,
    idempotencyKey: toIdempotencyKey(`${source}/${id}`),
    ...(data?.quantity === undefined ? {} : { quantity: data.quantity }),
    ...(time == null ? {} : { occurredAt: time }),
  };
}

/** A character beyond the basic plane has two units, and counts once. */
const toIdempotencyKey = (name: string): string =>
  name.length > MAX_TEXT_LENGTH && Array.from(name).length > MAX_TEXT_LENGTH
    ? createHash('sha256').update(name).digest('hex')
    : name;

function placeOf({ data }: CloudEvent, field: keyof UsageEvent): string {
  if (field === 'productSlug') return data?.productSlug === undefined ? 'subject' : 'data/productSlug';
  return { metric: 'type', quantity: 'data/quantity', occurredAt: 'time', idempotencyKey: 'id' }[field];
}
