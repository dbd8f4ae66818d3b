import { v7 as uuid } from 'uuid';
import { recordOperatorAudit } from '../../accounts/audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { MINUTE_MS } from '../../core/time.js';
import {
  describeArchiving,
  findDifference,
  toArchivedAt,
  toStripeSince,
  type Put,
  type Source,
} from '../../accounts/identity/source.js';
import { findProduct, insertProduct, lockProduct, updateProduct, type Product } from './queries.js';
import { fieldError } from '../../core/pages/form.js';
import { hasShortNumbers, parseNumbersAsText } from '../../core/http/json.js';

export interface ProductInput {
  name: string;
  usageMetric: string;
  /** Units per calendar month (UTC) as a plain decimal; null is unlimited. */
  unitCap: string | null;
  /** Ceiling for one usage event, as a plain decimal. */
  maxQuantity: string;
  /** These are unchanged if omitted. */
  archived?: boolean | undefined;
  /** Unchanged if omitted; null ends sending. */
  stripeMeterEvent?: string | null | undefined;
  dimensions?: readonly string[] | undefined;
  countsSubjects?: boolean | undefined;
}

/**
 * A statement that does not see a changed product yet is never later than the change by this much, clocks of two instances
 * included. Subjects therefore count from then on, and every reader can tell by its time of receipt which event counts.
 */
const SUBJECTS_BEGIN_MS = MINUTE_MS;

/** Creates or replaces the product. A changed metric starts from zero; earlier usage stays under the earlier metric. */
export async function putProduct(
  tx: Tx,
  slug: string,
  input: ProductInput,
  source: Source,
): Promise<Put<Product>> {
  const { at } = source;
  const {
    archived,
    stripeMeterEvent: wanted,
    dimensions: wantedDimensions,
    countsSubjects,
    ...fields
  } = input;
  const current = await lockProduct(tx, slug);
  const archivedAt = toArchivedAt(current?.archivedAt ?? null, archived, at);
  const stripeMeterEvent = wanted === undefined ? (current?.stripeMeterEvent ?? null) : wanted;
  const further = {
    stripeMeterEvent,
    stripeSince: toStripeSince(stripeMeterEvent, current?.stripeSince, at),
    dimensions: toDimensions(current?.dimensions ?? [], wantedDimensions),
    subjectsSince: toSubjectsSince(current, countsSubjects, at),
  };
  if (!current) {
    const product = { id: uuid(), slug, ...fields, ...further, createdAt: at, updatedAt: at, archivedAt };
    await insertProduct(tx, product);
    const { dimensions, subjectsSince } = further;
    const after = {
      ...fields,
      ...(dimensions.length > 0 ? { dimensions: dimensions.join(', ') } : {}),
      ...(subjectsSince ? { countsSubjects: 'yes' } : {}),
      ...(archivedAt ? { archived } : {}),
      ...(stripeMeterEvent ? { stripeMeterEvent } : {}),
    };
    const details = { after };
    await recordOperatorAudit(tx, { ...source, action: 'product.created', target: slug, details });
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

/** @throws AppError invalid_request unless the list only grows at its end, because stored values follow its order */
function toDimensions(current: readonly string[], wanted: readonly string[] = current): string[] {
  if (current.some((key, i) => wanted[i] !== key))
    throw fieldError(
      'dimensions',
      `must begin with ${current.join(', ')}: dimensions can be added at the end, but not renamed, moved or removed`,
    );
  return [...wanted];
}

/** @throws AppError invalid_request if they are counted already and no longer wanted */
function toSubjectsSince(current: Product | undefined, isWanted: boolean | undefined, at: Date): Date | null {
  if (current?.subjectsSince) {
    if (isWanted === false) throw fieldError('countsSubjects', 'cannot be turned off');
    return current.subjectsSince;
  }
  if (!isWanted) return null;
  return current ? new Date(at.getTime() + SUBJECTS_BEGIN_MS) : new Date(0);
}

const toFields = ({
  name,
  usageMetric,
  unitCap,
  maxQuantity,
  dimensions,
  subjectsSince,
  archivedAt,
  stripeMeterEvent,
}: Product) => ({
  name,
  usageMetric,
  unitCap,
  maxQuantity,
  dimensions: dimensions.join(', '),
  countsSubjects: subjectsSince ? 'yes' : 'no',
  archived: archivedAt === null ? 'no' : 'yes',
  stripeMeterEvent,
});

/** @throws AppError not_found */
export async function getProduct(orm: Orm, slug: string): Promise<Product> {
  const product = await findProduct(orm, slug);
  if (!product) throw new AppError('not_found', `There is no product "${slug}".`);
  return product;
}

const MAX_DIGITS = 100;

/** The range of a double; beyond it a number would become infinite or zero. */
const MAX_EXPONENT = 308;

/**
 * A field's number as a plain decimal with every digit that was sent; `JSON.parse` would round it to a double.
 * @param bodyText valid JSON, an object with the field
 * @param rounded the value from `JSON.parse`, if available; it usually has all digits, which saves a second parse
 * @throws AppError invalid_request for an absurd number of digits
 */
export function toExactNumber(field: string, bodyText: string, rounded = NaN): string {
  // Within these bounds JavaScript writes a number without an exponent.
  if (rounded >= 1e-6 && rounded < 1e15 && hasShortNumbers(bodyText)) return String(rounded);
  return toBoundedDecimal((parseNumbersAsText(bodyText) as Record<string, string>)[field]!, field);
}

/**
 * Like `toExactNumber`, for each item of a list; undefined for items that omit the field.
 * @param bodyText valid JSON, an object with the list
 * @throws AppError invalid_request for an absurd number of digits
 */
export function toExactDecimals(bodyText: string, list: string, field: string): (string | undefined)[] {
  const items = (parseNumbersAsText(bodyText) as Record<string, Record<string, string>[]>)[list]!;
  return items.map(({ [field]: digits }, i) =>
    digits === undefined ? undefined : toBoundedDecimal(digits, `${list}/${i}/${field}`),
  );
}

/** A plain decimal. @throws AppError invalid_request for an absurd number of digits */
export function toBoundedDecimal(digits: string, place: string): string {
  const [mantissa = '', exponent = '0'] = digits.toLowerCase().replace(/^-/, '').split('e');
  if (mantissa.length > MAX_DIGITS || Math.abs(Number(exponent)) > MAX_EXPONENT) {
    const detail = `must have at most ${MAX_DIGITS} digits and an exponent within ±${MAX_EXPONENT}`;
    throw fieldError(place, detail);
  }
  return toPlainDecimal(mantissa, Number(exponent));
}
