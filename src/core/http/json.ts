import type { Response } from 'express';

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

/** Answers with JSON; Node adds its length. */
export function sendJson(res: Response, status: number, json: string): void {
  res.statusCode = status;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.end(json);
}
