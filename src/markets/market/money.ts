import { z } from 'zod';

/** Whole millionths of a dollar, the venue's smallest unit, so that sums are exact. */
export type Micros = bigint;

export const DOLLAR: Micros = 1_000_000n;
export const CENT: Micros = 10_000n;
/** The venue's precision for direct members. */
export const BALANCE_STEP: Micros = 100n;

/**
 * `0.5600`, `12` or `-3.5`.
 * @throws RangeError for anything else, including nonzero digits after the sixth decimal
 */
export function parseDollars(text: string): Micros {
  const [, sign, whole, fraction = ''] = /^(-?)(\d{1,15})(?:\.(\d{1,12}))?$/.exec(text) ?? [];
  if (whole === undefined || /[1-9]/.test(fraction.slice(6)))
    throw new RangeError(`${JSON.stringify(text)} is not an amount in dollars with up to six decimals`);
  const micros = BigInt(whole) * DOLLAR + BigInt(fraction.slice(0, 6).padEnd(6, '0'));
  return sign === '-' ? -micros : micros;
}

/** Four decimals, as the venue writes prices, or up to six if needed. */
export function formatDollars(micros: Micros): string {
  const digits = String(micros < 0n ? -micros : micros).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0{1,2}$/, '');
  return `${micros < 0n ? '-' : ''}${digits.slice(0, -6)}.${fraction}`;
}

export const dollarsField = (description: string) =>
  z
    .string()
    .regex(/^-?\d+\.\d{4,6}$/)
    .describe(`${description} A decimal string in dollars.`);

export const dollarsOrNull = (micros: Micros | null): string | null =>
  micros === null ? null : formatDollars(micros);

/** Rounds in the same direction for negative amounts. */
export function floorTo(micros: Micros, unit: Micros): Micros {
  const rest = micros % unit;
  return micros - (rest < 0n ? rest + unit : rest);
}

/** Rounds in the same direction for negative amounts. */
export const ceilTo = (micros: Micros, unit: Micros): Micros => -floorTo(-micros, unit);

/** Rounded down to the millionth. */
export const shareOf = (amount: Micros, share: number): Micros =>
  (amount * BigInt(Math.floor(share * 1e9))) / 1_000_000_000n;
