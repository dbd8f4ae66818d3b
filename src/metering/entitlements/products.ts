import { v7 as uuid } from 'uuid';
import { recordOperatorAudit } from '../../accounts/audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { found } from '../../core/errors.js';
import { MINUTE_MS } from '../../core/time.js';
import {
  describeArchiving,
  findDifference,
  toArchivedAt,
  toStripeSince,
  type Source,
} from '../../accounts/identity/source.js';
import { findProduct, insertProduct, lockProduct, updateProduct, type Product } from './queries.js';
import { fieldError } from '../../core/pages/form.js';
import { toStoredFeatures, writeFeatures, type Features } from './features.js';
import { NO_METRIC } from './table.js';
import { describeCreditPrice, toCreditPrice, toPriceColumns, type CreditPrice } from './price.js';

export interface ProductInput extends Pick<Product, 'name' | 'usageMetric' | 'unitCap' | 'maxQuantity'> {
  /** Undefined leaves it unchanged. */
  archived?: boolean | undefined;
  /** Undefined leaves it unchanged; null stops sending usage to Stripe. */
  stripeMeterEvent?: string | null | undefined;
  dimensions?: readonly string[] | undefined;
  countsSubjects?: boolean | undefined;
  /** Undefined leaves it unchanged; null if the product costs no credits. */
  credits?: CreditPrice | null | undefined;
  /** Undefined leaves them unchanged. */
  features?: Features | undefined;
}

/**
 * The longest time for which a statement may miss a change to a product, with the difference between instances' clocks:
 * every reader can tell from the time of receipt which events count.
 */
const SUBJECTS_BEGIN_MS = MINUTE_MS;

/** A changed metric starts at zero; earlier usage stays under the earlier metric. */
export async function putProduct(tx: Tx, slug: string, input: ProductInput, source: Source) {
  const { at } = source;
  const { name, usageMetric, unitCap, maxQuantity, archived } = input;
  const fields = { name, usageMetric, unitCap, maxQuantity };
  const current = await lockProduct(tx, slug);
  const archivedAt = toArchivedAt(current?.archivedAt ?? null, archived, at);
  const { stripeMeterEvent = current?.stripeMeterEvent ?? null } = input;
  const dimensions = toDimensions(current?.dimensions ?? [], input.dimensions);
  const { credits = current && toCreditPrice(current) } = input;
  const further = {
    stripeMeterEvent,
    stripeSince: toStripeSince(stripeMeterEvent, current?.stripeSince, at),
    dimensions,
    subjectsSince: toSubjectsSince(current, input.countsSubjects, at),
    ...toPriceColumns(credits ?? null, dimensions),
    features: input.features ? toStoredFeatures(input.features) : (current?.features ?? null),
  };
  if (usageMetric === NO_METRIC)
    for (const [name, value] of Object.entries({ unitCap, stripeMeterEvent, credits }))
      if (value != null) throw fieldError(name, 'needs a metric');
  if (!current) {
    const product = { id: uuid(), slug, ...fields, ...further, createdAt: at, updatedAt: at, archivedAt };
    await insertProduct(tx, product);
    const { subjectsSince } = further;
    const after = {
      ...fields,
      usageMetric: usageMetric || null,
      ...(dimensions.length > 0 ? { dimensions: dimensions.join(', ') } : {}),
      ...(subjectsSince ? { countsSubjects: 'yes' } : {}),
      ...(archivedAt ? { archived } : {}),
      ...(stripeMeterEvent ? { stripeMeterEvent } : {}),
      ...(credits ? { credits: describeCreditPrice(credits) } : {}),
      ...(further.features ? { features: writeFeatures(further.features) } : {}),
    };
    await recordOperatorAudit(tx, { ...source, action: 'product.created', target: slug, details: { after } });
    return { isNew: true, resource: product };
  }
  const product = { ...current, ...fields, ...further, updatedAt: at, archivedAt };
  const difference = findDifference(toFields(current), toFields(product));
  if (!difference) return { isNew: false, resource: current };
  await updateProduct(tx, product);
  const action = `product.${describeArchiving(current, product) ?? 'changed'}`;
  await recordOperatorAudit(tx, { ...source, action, target: slug, details: { ...difference } });
  return { isNew: false, resource: product };
}

/** Keys are only added at the end, because stored values follow this order. */
function toDimensions(current: readonly string[], wanted: readonly string[] = current): string[] {
  if (current.some((key, i) => wanted[i] !== key))
    throw fieldError(
      'dimensions',
      `must begin with ${current.join(', ')}: dimensions can be added at the end, but not renamed, moved or removed`,
    );
  return [...wanted];
}

/** Subjects that are already counted stay counted. */
function toSubjectsSince(current: Product | undefined, isWanted: boolean | undefined, at: Date): Date | null {
  if (current?.subjectsSince) {
    if (isWanted === false) throw fieldError('countsSubjects', 'cannot be turned off');
    return current.subjectsSince;
  }
  if (!isWanted) return null;
  return current ? new Date(at.getTime() + SUBJECTS_BEGIN_MS) : new Date(0);
}

const toFields = (product: Product) => ({
  name: product.name,
  usageMetric: product.usageMetric || null,
  unitCap: product.unitCap,
  maxQuantity: product.maxQuantity,
  dimensions: product.dimensions.join(', '),
  countsSubjects: product.subjectsSince ? 'yes' : 'no',
  archived: product.archivedAt === null ? 'no' : 'yes',
  stripeMeterEvent: product.stripeMeterEvent,
  credits: describeCreditPrice(toCreditPrice(product)),
  features: product.features && writeFeatures(product.features),
});

export const getProduct = async (orm: Orm, slug: string): Promise<Product> =>
  found(await findProduct(orm, slug), `There is no product "${slug}".`);
