import { AppError } from '../../errors.js';

// A quote that is not escaped closes a field name when a colon follows, so a text that contains the word is not taken for it.
const literal = /(?<!\\)"unitCap"\s*:\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const MAX_DIGITS = 100;
/** As far as a double reaches; beyond it a number would be infinite or vanish. */
const MAX_EXPONENT = 308;

/**
 * The cap as a plain decimal with every digit that was sent. `JSON.parse` has rounded `value` to a double, so the
 * digits are taken from the body's text.
 * @throws AppError invalid_request for more digits than anyone can mean
 */
export function toUnitCap(value: number | null | undefined, bodyText: string): string | null {
  if (value === null || value === undefined) return null;
  const sent = [...bodyText.matchAll(literal)].at(-1)?.[1];
  // A field name that was written with escapes is not found in the text; its number is then the double.
  const digits = sent !== undefined && Number(sent) === value ? sent : String(value);
  const [mantissa = '', exponent = '0'] = digits.toLowerCase().replace(/^-/, '').split('e');
  if (mantissa.length > MAX_DIGITS || Math.abs(Number(exponent)) > MAX_EXPONENT) {
    const detail = `must have at most ${MAX_DIGITS} digits and an exponent within ±${MAX_EXPONENT}`;
    const place = { pointer: '/unitCap', code: 'invalid_request' as const, detail };
    throw new AppError('invalid_request', `/unitCap ${detail}`, { errors: [place] });
  }
  return toPlainDecimal(mantissa, Number(exponent));
}

/** The shortest way to write the number without an exponent, so that equal numbers are equal texts. */
function toPlainDecimal(mantissa: string, exponent: number): string {
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = whole + fraction;
  const point = whole.length + exponent;
  const padded = all.padStart(all.length + Math.max(0, 1 - point), '0').padEnd(point, '0');
  const at = Math.max(point, 1);
  const integer = padded.slice(0, at).replace(/^0+(?=\d)/, '');
  const rest = padded.slice(at).replace(/0+$/, '');
  return rest === '' ? integer : `${integer}.${rest}`;
}
