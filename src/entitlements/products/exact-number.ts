import { toPlainDecimal } from '../../core/decimal.js';
import { parseNumbersAsText } from '../../core/exact-json.js';
import { AppError } from '../../core/errors.js';

const MAX_DIGITS = 100;
/** As far as a double reaches; beyond it a number would be infinite or vanish. */
const MAX_EXPONENT = 308;

/**
 * A field's number as a plain decimal with every digit that was sent: `JSON.parse` would round it to a double.
 * @param bodyText valid JSON, an object with the field
 * @throws AppError invalid_request for more digits than anyone can mean
 */
export function toExactNumber(field: 'unitCap' | 'maxQuantity', bodyText: string): string {
  const digits = (parseNumbersAsText(bodyText) as Record<string, string>)[field]!;
  const [mantissa = '', exponent = '0'] = digits.toLowerCase().replace(/^-/, '').split('e');
  if (mantissa.length > MAX_DIGITS || Math.abs(Number(exponent)) > MAX_EXPONENT) {
    const detail = `must have at most ${MAX_DIGITS} digits and an exponent within ±${MAX_EXPONENT}`;
    const place = { pointer: `/${field}`, code: 'invalid_request' as const, detail };
    throw new AppError('invalid_request', `/${field} ${detail}`, { errors: [place] });
  }
  return toPlainDecimal(mantissa, Number(exponent));
}
