import type { Response } from 'express';

const manyDigits = /[\d.]{16,}/;
/** Strings in runs, so that there are fewer matches: that takes half the time. */
const stringsOrNumber = /(?:"[^"\\]*(?:\\.[^"\\]*)*"[\s:,{}[\]]*){1,64}|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Parses JSON; numbers of 16 digits or more become strings with all their digits. A double would round them: two long
 * ids could become one idempotency key, and an event would be taken for a repeat.
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  // Checked as it stands first: quoting must not turn a broken text into a good one.
  const rounded: unknown = JSON.parse(text);
  return manyDigits.test(text) ? parseNumbersAsText(text, hasManyDigits) : rounded;
}

/**
 * Parses JSON that is known to be valid; numbers become strings with the digits that were sent.
 * @param isKept of which numbers; left out: of all
 */
export const parseNumbersAsText = (text: string, isKept = (_literal: string): boolean => true): unknown =>
  JSON.parse(
    text.replace(stringsOrNumber, (token) => (token[0] !== '"' && isKept(token) ? `"${token}"` : token)),
  );

/** As a value or item; in a text such a thing does no harm. */
const longNumber = /[:,[]\s*-?[\d.]{16,}/;

/** Whether doubles have all digits of the numbers in a JSON text, those that are very small or very large apart. */
export const hasShortNumbers = (text: string): boolean => !longNumber.test(text);

/** Counted with its sign and point, which is near enough: all that have fewer are exact as doubles. */
const hasManyDigits = (literal: string): boolean => literal.replace(/[eE].*/, '').length >= 16;

/** A decimal that is written into JSON digit by digit, as a number. Postgres writes it, so it is one. */
export class ExactNumber {
  readonly digits: string;
  constructor(digits: string) {
    this.digits = digits;
  }
  /** A double where that has the same digits. A control character cannot come from outside: text fields refuse them. */
  toJSON(): number | string {
    const asDouble = Number(this.digits);
    return String(asDouble) === this.digits ? asDouble : `\u0001${this.digits}\u0001`;
  }
}

/** A double where that has the same digits: JSON is written twice as fast without objects that write themselves. */
export function exact(digits: string): ExactNumber | number;
export function exact(digits: string | null): ExactNumber | number | null;
export function exact(digits: string | null): ExactNumber | number | null {
  if (digits === null) return null;
  const asDouble = Number(digits);
  return String(asDouble) === digits ? asDouble : new ExactNumber(digits);
}

/** Like JSON.stringify, except that exact numbers keep all their digits. */
export function toJson(value: unknown): string {
  // Without a function that is called for each value: that takes several times as long.
  const json = JSON.stringify(value);
  return json.includes('"\\u0001') ? json.replace(/"\\u0001([^"\\]+)\\u0001"/g, '$1') : json;
}

/** The JSON of an object without its end, for more fields to follow. */
export const openJson = (fields: object): string => JSON.stringify(fields).slice(0, -1);

/** The fields that follow, and the end. */
export const closeJson = (fields: object): string => `,${JSON.stringify(fields).slice(1)}`;

/** Answers with JSON; Node adds its length. */
export function sendJson(res: Response, status: number, json: string): void {
  res.statusCode = status;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.end(json);
}
