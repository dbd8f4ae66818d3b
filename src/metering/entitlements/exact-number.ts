import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { hasShortNumbers, parseNumbersAsText } from '../../core/http/json.js';
import { fieldError } from '../../core/pages/form.js';

const MAX_DIGITS = 100;

export const quantityInput = z.number().min(0, 'must be a finite number of at least 0');

/** Beyond it, a number would become infinite or zero. */
const MAX_EXPONENT = 308;

/**
 * `JSON.parse` would round the number.
 * @param bodyText valid JSON, an object with the field
 * @param rounded from `JSON.parse`; usually it has all digits, which saves a second parse
 * @throws AppError invalid_request for an absurd number of digits
 */
export function toExactNumber(field: string, bodyText: string, rounded = NaN): string {
  // Within these bounds JavaScript writes a number without an exponent.
  if (rounded >= 1e-6 && rounded < 1e15 && hasShortNumbers(bodyText)) return String(rounded);
  return toBoundedDecimal((parseNumbersAsText(bodyText) as Record<string, string>)[field]!, field);
}

/**
 * Undefined for an item without the field.
 * @param bodyText valid JSON, an object with the list
 */
export function toExactDecimals(bodyText: string, list: string, field: string): (string | undefined)[] {
  const items = (parseNumbersAsText(bodyText) as Record<string, Record<string, string>[]>)[list]!;
  return items.map(({ [field]: digits }, i) =>
    digits === undefined ? undefined : toBoundedDecimal(digits, `${list}/${i}/${field}`),
  );
}

/** @throws AppError invalid_request for an absurd number of digits */
export function toBoundedDecimal(digits: string, place: string): string {
  const [mantissa = '', exponent = '0'] = digits.toLowerCase().replace(/^-/, '').split('e');
  if (mantissa.length > MAX_DIGITS || Math.abs(Number(exponent)) > MAX_EXPONENT)
    throw fieldError(place, `must have at most ${MAX_DIGITS} digits and an exponent within ±${MAX_EXPONENT}`);
  return toPlainDecimal(mantissa, Number(exponent));
}
