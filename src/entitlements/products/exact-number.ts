import { toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';

// A quote that is not escaped closes a field name when a colon follows, so a text that contains the word is not taken for it.
const literalOf = (field: string) =>
  new RegExp(String.raw`(?<!\\)"${field}"\s*:\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)`, 'g');
const MAX_DIGITS = 100;
/** As far as a double reaches; beyond it a number would be infinite or vanish. */
const MAX_EXPONENT = 308;

/**
 * A field's number as a plain decimal with every digit that was sent. `JSON.parse` has rounded `value` to a double, so the
 * digits are taken from the body's text.
 * @throws AppError invalid_request for more digits than anyone can mean
 */
export function toExactNumber(field: 'unitCap' | 'maxQuantity', value: number, bodyText: string): string {
  const sent = [...bodyText.matchAll(literalOf(field))].at(-1)?.[1];
  // A field name that was written with escapes is not found in the text; its number is then the double.
  const digits = sent !== undefined && Number(sent) === value ? sent : String(value);
  const [mantissa = '', exponent = '0'] = digits.toLowerCase().replace(/^-/, '').split('e');
  if (mantissa.length > MAX_DIGITS || Math.abs(Number(exponent)) > MAX_EXPONENT) {
    const detail = `must have at most ${MAX_DIGITS} digits and an exponent within ±${MAX_EXPONENT}`;
    const place = { pointer: `/${field}`, code: 'invalid_request' as const, detail };
    throw new AppError('invalid_request', `/${field} ${detail}`, { errors: [place] });
  }
  return toPlainDecimal(mantissa, Number(exponent));
}
