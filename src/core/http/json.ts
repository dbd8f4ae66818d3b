import type { Response } from 'express';

const manyDigits = /[\d.]{16,}/;
/** Matches strings in runs: fewer matches take half the time. */
const stringsOrNumber = /(?:"[^"\\]*(?:\\.[^"\\]*)*"[\s:,{}[\]]*){1,64}|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Parses JSON; numbers of 16 digits or more become strings with all their digits. A double would round them: two long
 * ids could become the same idempotency key, and an event would be mistaken for a repeat.
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  // Parse the original first: quoting must not make invalid JSON valid.
  const rounded: unknown = JSON.parse(text);
  return manyDigits.test(text) ? parseNumbersAsText(text, hasManyDigits) : rounded;
}

/**
 * Parses valid JSON and turns numbers into strings with their original digits. `JSON.parse` still decides what the text means;
 * a parser in JavaScript takes three times as long ("JSON and HTTP by hand" in bench/README.md).
 * @param isKept selects the numbers; default: all
 */
export const parseNumbersAsText = (text: string, isKept = (_literal: string): boolean => true): unknown =>
  JSON.parse(
    text.replace(stringsOrNumber, (token) => (token[0] !== '"' && isKept(token) ? `"${token}"` : token)),
  );

/** Matches a long number as a value or an item; a match inside a string does no harm. */
const longNumber = /[:,[]\s*-?[\d.]{16,}/;

/** True if doubles hold all digits of the numbers in a JSON text, except for extremely small or large ones. */
export const hasShortNumbers = (text: string): boolean => !longNumber.test(text);

/** Counts the sign and the point as digits: any shorter number is exact as a double. */
const hasManyDigits = (literal: string): boolean => literal.replace(/[eE].*/, '').length >= 16;

/** A decimal from Postgres that is written into JSON digit by digit, as a number. */
export class ExactNumber {
  readonly digits: string;
  constructor(digits: string) {
    this.digits = digits;
  }
  /** A double if it has the same digits. Input cannot contain the control character: text fields refuse it. */
  toJSON(): number | string {
    const asDouble = Number(this.digits);
    return String(asDouble) === this.digits ? asDouble : `\u0001${this.digits}\u0001`;
  }
}

/** A double if it has the same digits: serializing JSON is twice as fast without objects that have `toJSON`. */
export function exact(digits: string): ExactNumber | number;
export function exact(digits: string | null): ExactNumber | number | null;
export function exact(digits: string | null): ExactNumber | number | null {
  if (digits === null) return null;
  const asDouble = Number(digits);
  return String(asDouble) === digits ? asDouble : new ExactNumber(digits);
}

export function toJson(value: unknown): string {
  // No replacer function: calling one for each value takes several times as long.
  const json = JSON.stringify(value);
  return json.includes('"\\u0001') ? json.replace(/"\\u0001([^"\\]+)\\u0001"/g, '$1') : json;
}

export function sendJson(res: Response, status: number, json: string): void {
  res.statusCode = status;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.end(json);
}
