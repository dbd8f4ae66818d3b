import { z } from 'zod';
import type { Micros } from './money.js';

export const MIN_CONTRACTS = 0.01;
export const MAX_CONTRACTS = 100_000;

export const ORDER_SIZE = `must be a number of contracts from ${MIN_CONTRACTS} to ${MAX_CONTRACTS.toLocaleString('en')} with at most two decimals`;

export const isOrderSize = (contracts: number): boolean =>
  isCount(contracts) && contracts >= MIN_CONTRACTS && contracts <= MAX_CONTRACTS;

export const contractsText = z
  .string()
  .refine((text) => /^\d{0,6}(\.\d{1,2})?$/.test(text) && isOrderSize(Number(text)), ORDER_SIZE);

export const contractsField = (description: string) =>
  z.number().meta({ description: `${description} At most two decimals.` });

/** Sums of doubles drift, so arithmetic uses whole hundredths. */

const HUNDREDTHS = 100;

/** Its hundredths are still exact in a double. */
const MAX_COUNT = 9_999_999_999.99;

/** `2.5` becomes 250. */
export const toHundredths = (contracts: number): number => Math.round(contracts * HUNDREDTHS);

export const fromHundredths = (hundredths: number): number => hundredths / HUNDREDTHS;

export const isCount = (value: number): boolean =>
  Math.abs(value) <= MAX_COUNT && fromHundredths(toHundredths(value)) === value;

/**
 * `2.50`, `48` or `-3.1`.
 * @throws RangeError for anything else, including nonzero digits after the second decimal
 */
export function parseCount(text: string): number {
  if (!/^-?\d{1,12}(\.\d{1,2}0{0,6})?$/.test(text))
    throw new RangeError(`${JSON.stringify(text)} is not a number of contracts with up to two decimals`);
  return Number(text);
}

export const formatContracts = (contracts: number): string => contracts.toFixed(2);

export const addCounts = (a: number, b: number): number => fromHundredths(toHundredths(a) + toHundredths(b));

export const subtractCounts = (a: number, b: number): number => addCounts(a, -b);

export const sumCounts = (counts: Iterable<number>): number => {
  let hundredths = 0;
  for (const contracts of counts) hundredths += toHundredths(contracts);
  return fromHundredths(hundredths);
};

/** Exact for prices in whole hundredths of a cent, as all ticks are; otherwise rounded down to the millionth. */
export const valueOf = (price: Micros, contracts: number): Micros => partOf(price, contracts, 1);

/** Rounded down to the millionth. */
export const perContract = (value: Micros, contracts: number): Micros => partOf(value, 1, contracts);

/** The amount times `some / contracts`, rounded down to the millionth. */
export function partOf(amount: Micros, some: number, contracts: number): Micros {
  const [scaled, whole] = [amount * BigInt(toHundredths(some)), BigInt(toHundredths(contracts))];
  const quotient = scaled / whole;
  return scaled % whole !== 0n && scaled < 0n !== whole < 0n ? quotient - 1n : quotient;
}

/** For comparisons with the venue and for positions made outside Gauge. */
export const parseHundredths = (text: string): number => toHundredths(parseCount(text));

export const formatHundredths = (hundredths: number): string => formatContracts(fromHundredths(hundredths));
