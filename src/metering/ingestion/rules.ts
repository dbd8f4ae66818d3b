import type { ErrorCode } from '../../core/errors.js';
import { unknownDimension, type Dimensions } from '../entitlements/dimensions.js';

/** In their documented order. */
const order: ErrorCode[] = [
  'not_found',
  'event_not_found',
  'entitlement_required',
  'entitlement_read_only',
  'idempotency_conflict',
  'unknown_metric',
  'unknown_dimension',
  'timestamp_out_of_range',
  'quantity_out_of_range',
  'invalid_request',
];

/** Decides the status of an all-or-nothing request. @param broken must not be empty */
export const firstBroken = <Rule extends { code: ErrorCode }>(broken: readonly Rule[]): Rule =>
  broken.toSorted((a, b) => order.indexOf(a.code) - order.indexOf(b.code))[0]!;

interface BrokenProductRule {
  field: 'productSlug' | 'metric' | 'dimensions' | 'occurredAt';
  code:
    | 'entitlement_required'
    | 'entitlement_read_only'
    | 'unknown_metric'
    | 'unknown_dimension'
    | 'timestamp_out_of_range';
  detail: string;
}

interface PairFacts {
  slug: string;
  metric: string;
  usageMetric: string | null | undefined;
  /** Set if the pair names an unknown dimension. */
  keys?: readonly string[] | undefined;
  /** The pair's, as JSON. */
  dimensions?: string | undefined;
  /** First day of the pair's month, if it has one. */
  month?: string | undefined;
}

/** Undefined without a problem, or for one of another kind. */
export function brokenProductRule(
  problem: string | null | undefined,
  { slug, metric, usageMetric, keys, dimensions, month }: PairFacts,
): BrokenProductRule | undefined {
  switch (problem) {
    case 'entitlement_required':
      return {
        field: 'productSlug',
        code: problem,
        detail: `There is no live entitlement for the product ${slug}.`,
      };
    case 'product_archived':
      return {
        field: 'productSlug',
        code: 'entitlement_required',
        detail: `The product ${slug} was archived by the operator of this service.`,
      };
    case 'entitlement_read_only':
      return {
        field: 'productSlug',
        code: problem,
        detail: `The entitlement for the product ${slug} is read-only.`,
      };
    case 'unknown_metric':
      return {
        field: 'metric',
        code: problem,
        detail: usageMetric
          ? `The product ${slug} counts ${usageMetric}, not ${metric}.`
          : `The product ${slug} has no usage.`,
      };
    case 'unknown_dimension':
      return {
        field: 'dimensions',
        code: problem,
        detail: unknownDimension(slug, keys ?? [], JSON.parse(dimensions ?? '{}') as Dimensions),
      };
    case 'month_archived':
      return {
        field: 'occurredAt',
        code: 'timestamp_out_of_range',
        detail: `The month ${month?.slice(0, 7)} is archived. No events can be added to it.`,
      };
    default:
      return undefined;
  }
}
