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

/** Counted with its sign and point, which is near enough: all that have fewer are exact as doubles. */
const hasManyDigits = (literal: string): boolean => literal.replace(/[eE].*/, '').length >= 16;

/** A decimal that is written into JSON digit by digit, as a number. Postgres writes it, so it is one. */
export class ExactNumber {
  readonly digits: string;
  constructor(digits: string) {
    this.digits = digits;
  }
}

export const exact = (digits: string | null): ExactNumber | null =>
  digits === null ? null : new ExactNumber(digits);

/** Like JSON.stringify, except that exact numbers keep all their digits. */
export function toJson(value: unknown): string {
  const numbers: string[] = [];
  const json = JSON.stringify(value, (_key, v: unknown) => {
    if (!(v instanceof ExactNumber)) return v;
    const asDouble = Number(v.digits);
    if (String(asDouble) === v.digits) return asDouble;
    // A control character cannot come from outside: text fields refuse them.
    return `\u0001${numbers.push(v.digits) - 1}\u0001`;
  });
  return numbers.length === 0
    ? json
    : json.replace(/"\\u0001(\d+)\\u0001"/g, (_match, i: string) => numbers[Number(i)]!);
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
