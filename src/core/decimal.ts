/** Compares non-negative decimals exactly; a double would round them. Returns −1, 0 or 1. */
export function compareDecimals(a: string, b: string): number {
  if (isSmallWhole(a) && isSmallWhole(b)) return Math.sign(Number(a) - Number(b));
  const [x, y] = align(a, b);
  return x < y ? -1 : x > y ? 1 : 0;
}

/** Never negative. */
export function subtractDecimals(a: string, b: string): string {
  if (isSmallWhole(a) && isSmallWhole(b)) return String(Math.max(0, Number(a) - Number(b)));
  const [x, y, scale] = align(a, b);
  return x <= y ? '0' : toDecimal(x - y, scale);
}

export function addDecimals(a: string, b: string): string {
  if (isSmallWhole(a) && isSmallWhole(b)) return String(Number(a) + Number(b));
  const [x, y, scale] = align(a, b);
  return toDecimal(x + y, scale);
}

export const differenceOf = (a: string, b: string): string =>
  compareDecimals(a, b) < 0 ? `-${subtractDecimals(b, a)}` : subtractDecimals(a, b);

export function multiplyDecimals(a: string, b: string): string {
  const [wholeA = '0', fractionA = ''] = a.split('.');
  const [wholeB = '0', fractionB = ''] = b.split('.');
  return toDecimal(
    BigInt(wholeA + fractionA) * BigInt(wholeB + fractionB),
    fractionA.length + fractionB.length,
  );
}

export const minDecimal = (a: string, b: string): string => (compareDecimals(a, b) < 0 ? a : b);

export const sumDecimals = (decimals: readonly string[]): string => decimals.reduce(addDecimals, '0');

function toDecimal(units: bigint, scale: number): string {
  const digits = String(units).padStart(scale + 1, '0');
  const whole = digits.slice(0, digits.length - scale);
  const fraction = digits.slice(digits.length - scale).replace(/0+$/, '');
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

/** A double holds 15 digits exactly. Nearly all values are that short. */
const isSmallWhole = (digits: string): boolean => digits.length <= 15 && !digits.includes('.');

function align(a: string, b: string): [bigint, bigint, number] {
  const [wholeA = '0', fractionA = ''] = a.split('.');
  const [wholeB = '0', fractionB = ''] = b.split('.');
  const scale = Math.max(fractionA.length, fractionB.length);
  return [
    BigInt(wholeA + fractionA.padEnd(scale, '0')),
    BigInt(wholeB + fractionB.padEnd(scale, '0')),
    scale,
  ];
}

/** Exact. Both may have an exponent, as in JSON. */
export function isDecimalAbove(a: string, b: string): boolean {
  if (a === b) return false;
  const [x, y] = [Number(a), Number(b)];
  // Rounding to a double preserves order, so all digits matter only if the doubles are equal.
  if (x !== y) return x > y;
  return compareDecimals(toPlain(a), toPlain(b)) > 0;
}

export function toPlain(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e');
  return toPlainDecimal(mantissa, Number(exponent));
}

/** Equal numbers have equal texts. */
export function toPlainDecimal(mantissa: string, exponent: number): string {
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = whole + fraction;
  const point = whole.length + exponent;
  const padded = all.padStart(all.length + Math.max(0, 1 - point), '0').padEnd(point, '0');
  const at = Math.max(point, 1);
  const integer = padded.slice(0, at).replace(/^0+(?=\d)/, '');
  const rest = padded.slice(at).replace(/0+$/, '');
  return rest === '' ? integer : `${integer}.${rest}`;
}
