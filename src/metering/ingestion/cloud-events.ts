import { createHash } from 'node:crypto';
import { and, eq, inArray, lt } from 'drizzle-orm';
import { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { schemaRequirement } from '../../core/db/requirement-table.js';
import { products } from '../entitlements/table.js';
import { usageEvents } from './table.js';
import type { JsonBody } from '../../core/http/body.js';
import { parseInput, text } from '../../core/http/validate.js';
import { findExactQuantities, readEvents, requireFewEvents, type PointerOf } from './batch.js';
import { MAX_EVENTS, MAX_TEXT_LENGTH, usageEventSchema, type UsageEvent } from './schema.js';

const MAX_NAME_LENGTH = 2_048;
const { productSlug, metric, quantity, occurredAt, subject, dimensions } = usageEventSchema.shape;

/** Producers may send an unset attribute as null. */
const unset = <T extends z.ZodType>(schema: T) => schema.nullish();

const dataSchema = z
  .looseObject({
    productSlug: productSlug.optional().describe('The product. Default: `subject`.'),
    quantity: quantity.describe('The number of units. Default: 1. The rules of `UsageEvent` apply.'),
    subject: subject.describe('Your own end user or team.'),
    dimensions: dimensions.describe("Values of the product's dimensions."),
  })
  .describe('Other fields are ignored.');

/** CloudEvents 1.0.2, JSON format. Any extension attribute is allowed. */
export const cloudEventSchema = z
  .looseObject({
    specversion: z.literal('1.0'),
    id: text(MAX_NAME_LENGTH).describe('Identifies the event within its `source`.'),
    source: text(MAX_NAME_LENGTH).describe(
      `The idempotency key is \`source\`, a slash and \`id\`, or its SHA-256 in hex if it has more than ${MAX_TEXT_LENGTH} characters. In an \`id\` with a slash, \`%\` and \`/\` are written as \`%25\` and \`%2F\`.`,
    ),
    type: metric.describe("The metric. Must equal the product's `usageMetric`."),
    subject: unset(text(MAX_NAME_LENGTH)).describe('The product, unless `data` names it.'),
    time: unset(occurredAt.unwrap()).describe('When the usage happened, like `occurredAt` in `UsageEvent`.'),
    datacontenttype: unset(
      z.string().regex(/^[^\s;]+[/+][Jj][Ss][Oo][Nn]\s*(;.*)?$/, 'must be JSON, like application/json'),
    ).describe('Default: JSON.'),
    data: unset(dataSchema),
    data_base64: z.null('is not supported. Send the quantity in data, as JSON').optional(),
  })
  .refine((event) => event.data?.productSlug !== undefined || event.subject != null, {
    path: ['subject'],
    error: 'is required if data has no productSlug',
  })
  .meta({ id: 'CloudEvent', description: 'A usage event as a CloudEvent 1.0 in JSON.' });

type CloudEvent = z.output<typeof cloudEventSchema>;

export const cloudEventBatchSchema = z.array(cloudEventSchema).min(1).max(MAX_EVENTS);

export const cloudEventType = 'application/cloudevents+json';
export const cloudEventBatchType = 'application/cloudevents-batch+json';

const usageEventsSchema = z.array(cloudEventSchema.transform(toUsageEvent));
const frameSchema = z.array(z.unknown()).min(1, 'must have at least one event');

/** @throws AppError invalid_request; a lenient batch only if no event can be read */
export function parseCloudEvents({ value, text: json }: JsonBody, isBatch: boolean, isLenient: boolean) {
  requireFewEvents(value);
  const sent = isBatch ? parseInput(frameSchema, value) : [value];
  const pointerOf: PointerOf = (index, field) =>
    `${isBatch ? `/${index}` : ''}/${placeOf(sent[index] as CloudEvent, field)}`;
  const quantitiesIn = (body: unknown) =>
    (isBatch ? (body as (CloudEvent | null)[]) : [body as CloudEvent]).map((event) => event?.data?.quantity);
  const exactQuantities = findExactQuantities(json, quantitiesIn, pointerOf);
  if (!isBatch)
    return { events: [toUsageEvent(parseInput(cloudEventSchema, value))], exactQuantities, pointerOf };
  return readEvents(usageEventsSchema, sent, { exactQuantities, pointerOf, path: [], isLenient });
}

function toUsageEvent({ id, source, type, subject, time, data }: CloudEvent): UsageEvent {
  return {
    productSlug: data?.productSlug ?? subject!,
    metric: type,
    idempotencyKey: toIdempotencyKey(source, id),
    ...(data?.quantity === undefined ? {} : { quantity: data.quantity }),
    ...(time == null ? {} : { occurredAt: time }),
    ...(data?.subject === undefined ? {} : { subject: data.subject }),
    ...(data?.dimensions === undefined ? {} : { dimensions: data.dimensions }),
  };
}

/** The last slash separates the two: slashes in the id are escaped, and so is an id that looks escaped. */
function toIdempotencyKey(source: string, id: string): string {
  const part = /\/|%2F|%25/.test(id) ? id.replaceAll('%', '%25').replaceAll('/', '%2F') : id;
  return shorten(`${source}/${part}`);
}

/** A resend after the upgrade is a repeat: earlier versions did not escape the id. */
export async function restoreFormerKeys(
  orm: Orm,
  findOrgId: () => Promise<string>,
  events: readonly UsageEvent[],
): Promise<void> {
  const escaped = events.filter(({ idempotencyKey }) => /%2F|%25/.test(idempotencyKey));
  if (escaped.length === 0) return;
  const [upgrade] = await orm.select().from(schemaRequirement);
  const recorded = await orm
    .select({ event: usageEvents, slug: products.slug })
    .from(usageEvents)
    .innerJoin(products, eq(products.id, usageEvents.productId))
    .where(
      and(
        eq(usageEvents.orgId, await findOrgId()),
        inArray(usageEvents.idempotencyKey, escaped.map(formerKey)),
        lt(usageEvents.receivedAt, upgrade!.since),
      ),
    );
  for (const event of escaped) {
    const before = recorded.find(({ event: { idempotencyKey } }) => idempotencyKey === formerKey(event));
    if (before && isSame(event, before.slug, before.event)) event.idempotencyKey = formerKey(event);
  }
}

const formerKey = ({ idempotencyKey: key }: UsageEvent): string => {
  const end = key.lastIndexOf('/') + 1;
  return key.slice(0, end) + key.slice(end).replaceAll('%2F', '/').replaceAll('%25', '%');
};

const isSame = (event: UsageEvent, slug: string, before: typeof usageEvents.$inferSelect): boolean =>
  event.productSlug === slug &&
  event.metric === before.metric &&
  (event.quantity ?? 1) === Number(before.quantity) &&
  (event.occurredAt === undefined || Date.parse(event.occurredAt) === before.occurredAt.getTime());

/** Two UTF-16 units may be one character. */
const shorten = (name: string): string =>
  name.length > MAX_TEXT_LENGTH && Array.from(name).length > MAX_TEXT_LENGTH
    ? createHash('sha256').update(name).digest('hex')
    : name;

function placeOf({ data }: CloudEvent, field: keyof UsageEvent): string {
  if (field === 'productSlug') return data?.productSlug === undefined ? 'subject' : 'data/productSlug';
  if (field === 'quantity' || field === 'subject' || field === 'dimensions') return `data/${field}`;
  return { metric: 'type', occurredAt: 'time', idempotencyKey: 'id' }[field];
}
