/**
 * Array parameters as Postgres writes them. The driver's own conversion is general and costs half as much again per
 * value on batches of hundreds.
 */
export function textArray(values: readonly (string | null)[]): string {
  let literal = '{';
  for (let i = 0; i < values.length; i++) {
    if (i > 0) literal += ',';
    const value = values[i];
    literal += value === null || value === undefined ? 'NULL' : quote(value);
  }
  return literal + '}';
}

const special = /["\\]/;
const allSpecial = /["\\]/g;

function quote(value: string): string {
  return special.test(value) ? `"${value.replace(allSpecial, '\\$&')}"` : `"${value}"`;
}

export const intArray = (values: readonly number[]): string => `{${values.join(',')}}`;

/** Decimals as text; they hold nothing that would need quoting. */
export const numericArray = (values: readonly string[]): string => `{${values.join(',')}}`;
