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
      return broken('productSlug', problem, `There is no live entitlement for the product ${slug}.`);
    case 'product_archived': {
      const detail = `The product ${slug} was archived by the operator of this service.`;
      return broken('productSlug', 'entitlement_required', detail);
    }
    case 'entitlement_read_only':
      return broken('productSlug', problem, `The entitlement for the product ${slug} is read-only.`);
    case 'unknown_metric': {
      const counted = usageMetric ? `counts ${usageMetric}, not ${metric}` : 'has no usage';
      return broken('metric', problem, `The product ${slug} ${counted}.`);
    }
    case 'unknown_dimension': {
      const asked = JSON.parse(dimensions ?? '{}') as Dimensions;
      return broken('dimensions', problem, unknownDimension(slug, keys ?? [], asked));
    }
    case 'month_archived': {
      const detail = `The month ${month?.slice(0, 7)} is archived. No events can be added to it.`;
      return broken('occurredAt', 'timestamp_out_of_range', detail);
    }
    default:
      return undefined;
  }
}

const broken = (
  field: BrokenProductRule['field'],
  code: BrokenProductRule['code'],
  detail: string,
): BrokenProductRule => ({ field, code, detail });
