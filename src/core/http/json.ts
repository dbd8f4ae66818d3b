import type { Response } from 'express';

const manyDigits = /[\d.]{16,}/;
/** Up to 64 strings match together, because fewer matches halve the time. */
const stringsOrNumber = /(?:"[^"\\]*(?:\\.[^"\\]*)*"[\s:,{}[\]]*){1,64}|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Numbers of 16 digits or more become strings. A double would round them: two long ids could become the same
 * idempotency key, and an event would count as a duplicate.
 */
export function parseExactJson(text: string): unknown {
  // Parses the original first, because quoting numbers could make invalid JSON valid.
  const rounded: unknown = JSON.parse(text);
  return manyDigits.test(text) ? parseNumbersAsText(text, hasManyDigits) : rounded;
}

/**
 * A parser in JavaScript takes three times as long ("JSON and HTTP by hand" in bench/README.md).
 * @param isKept selects the numbers to convert; default: all
 */
export const parseNumbersAsText = (text: string, isKept = (_literal: string): boolean => true): unknown =>
  JSON.parse(
    text.replace(stringsOrNumber, (token) => (token[0] !== '"' && isKept(token) ? `"${token}"` : token)),
  );

/** Matches inside strings are harmless. */
const longNumber = /[:,[]\s*-?[\d.]{16,}/;

/** Except extremely small or large numbers. */
export const hasShortNumbers = (text: string): boolean => !longNumber.test(text);

/** Counts the sign and the point. Any shorter number is exact as a double. */
const hasManyDigits = (literal: string): boolean => literal.replace(/[eE].*/, '').length >= 16;

export class ExactNumber {
  readonly digits: string;
  constructor(digits: string) {
    this.digits = digits;
  }
  /** Marks other digits with a control character, which text fields reject in input. */
  toJSON(): number | string {
    const asDouble = Number(this.digits);
    return String(asDouble) === this.digits ? asDouble : `\u0001${this.digits}\u0001`;
  }
}

/** Serializing JSON is twice as fast without `toJSON` methods. */
export function exact(digits: string): ExactNumber | number;
export function exact(digits: string | null): ExactNumber | number | null;
export function exact(digits: string | null): ExactNumber | number | null {
  if (digits === null) return null;
  const asDouble = Number(digits);
  return String(asDouble) === digits ? asDouble : new ExactNumber(digits);
}

export function toJson(value: unknown, indent?: number): string {
  // A replacer would be called for each value, which takes several times as long.
  const json = JSON.stringify(value, null, indent);
  return json.includes('"\\u0001') ? json.replace(/"\\u0001([^"\\]+)\\u0001"/g, '$1') : json;
}

export function sendJson(res: Response, status: number, json: string): void {
  res.statusCode = status;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.end(json);
}
