/**
 * Dollars as whole millionths (`bigint`), which is the finest that the venue writes. No amount is ever a float: sums
 * are exact, and text goes in and out digit by digit.
 */
export type Micros = bigint;

export const DOLLAR: Micros = 1_000_000n;
export const CENT: Micros = 10_000n;
/** Balances move in steps of $0.0001, which is how finely the venue keeps them for its direct members. */
export const BALANCE_STEP: Micros = 100n;

/**
 * `0.5600`, `12`, `-3.5` as millionths.
 * @throws RangeError for anything else, also for more than six decimals that are not zeros
 */
export function parseDollars(text: string): Micros {
  const [, sign, whole, fraction = ''] = /^(-?)(\d{1,15})(?:\.(\d{1,12}))?$/.exec(text) ?? [];
  if (whole === undefined || /[1-9]/.test(fraction.slice(6)))
    throw new RangeError(`${JSON.stringify(text)} is not an amount in dollars with up to six decimals`);
  const micros = BigInt(whole) * DOLLAR + BigInt(fraction.slice(0, 6).padEnd(6, '0'));
  return sign === '-' ? -micros : micros;
}

/** With four decimals, as the venue writes prices, and more only where they are needed. */
export function formatDollars(micros: Micros): string {
  const digits = String(micros < 0n ? -micros : micros).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0{1,2}$/, '');
  return `${micros < 0n ? '-' : ''}${digits.slice(0, -6)}.${fraction}`;
}

export const dollarsOrNull = (micros: Micros | null): string | null =>
  micros === null ? null : formatDollars(micros);

/** The next multiple of `unit` at or below, also for what is negative. */
export function floorTo(micros: Micros, unit: Micros): Micros {
  const rest = micros % unit;
  return micros - (rest < 0n ? rest + unit : rest);
}

/** The next multiple of `unit` at or above, also for what is negative. */
export const ceilTo = (micros: Micros, unit: Micros): Micros => -floorTo(-micros, unit);

/** A share of an amount, rounded down to the millionth. */
export const shareOf = (amount: Micros, share: number): Micros =>
  (amount * BigInt(Math.floor(share * 1e9))) / 1_000_000_000n;
