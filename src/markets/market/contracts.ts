import { z } from 'zod';
import type { Micros } from './money.js';

export const MIN_CONTRACTS = 0.01;
export const MAX_CONTRACTS = 100_000;

/** What one order may be for, in words that follow the field's name. */
export const ORDER_SIZE = `must be a number of contracts from ${MIN_CONTRACTS} to ${MAX_CONTRACTS.toLocaleString('en')} with at most two decimals`;

export const isOrderSize = (contracts: number): boolean =>
  isCount(contracts) && contracts >= MIN_CONTRACTS && contracts <= MAX_CONTRACTS;

/** The same, as a form has it. */
export const contractsText = z
  .string()
  .refine((text) => /^\d{0,6}(\.\d{1,2})?$/.test(text) && isOrderSize(Number(text)), ORDER_SIZE);

export const contractsField = (description: string) =>
  z.number().meta({ description: `${description} With at most two decimals.` });

/**
 * Counts of contracts. The venue trades hundredths of one, so a count is always the number nearest to a multiple of 0.01, and whatever
 * is computed with counts goes through whole hundredths here: floats never add up.
 */

const HUNDREDTHS = 100;

/** What a market's book, a position or an order can have at the most: its hundredths are far from where doubles lose whole numbers. */
const MAX_COUNT = 9_999_999_999.99;

/** `2.5` as 250. What is not a count is rounded to the nearest one. */
export const toHundredths = (contracts: number): number => Math.round(contracts * HUNDREDTHS);

export const fromHundredths = (hundredths: number): number => hundredths / HUNDREDTHS;

/** True for a multiple of 0.01 that is not beyond what is ever counted. */
export const isCount = (value: number): boolean =>
  Math.abs(value) <= MAX_COUNT && fromHundredths(toHundredths(value)) === value;

/**
 * `2.50`, `48`, `-3.1` as the venue and the database write them.
 * @throws RangeError for anything else, also for more than two decimals that are not zeros
 */
export function parseCount(text: string): number {
  if (!/^-?\d{1,12}(\.\d{1,2}0{0,6})?$/.test(text))
    throw new RangeError(`${JSON.stringify(text)} is not a number of contracts with up to two decimals`);
  return Number(text);
}

/** With two decimals, as the venue writes counts. */
export const formatContracts = (contracts: number): string => contracts.toFixed(2);

export const addCounts = (a: number, b: number): number => fromHundredths(toHundredths(a) + toHundredths(b));

export const subtractCounts = (a: number, b: number): number => addCounts(a, -b);

export const sumCounts = (counts: Iterable<number>): number => {
  let hundredths = 0;
  for (const contracts of counts) hundredths += toHundredths(contracts);
  return fromHundredths(hundredths);
};

/**
 * What contracts cost or bring at a price each. Exact for prices of whole hundredths of a cent, which all ticks are; else
 * down to the millionth, the finest that the venue's own amounts have.
 */
export const valueOf = (price: Micros, contracts: number): Micros => partOf(price, contracts, 1);

/** What each of some contracts has cost or brought, down to the millionth. */
export const perContract = (value: Micros, contracts: number): Micros => partOf(value, 1, contracts);

/** The part of an amount that some of the contracts have in it, down to the millionth. */
export function partOf(amount: Micros, some: number, contracts: number): Micros {
  const [scaled, whole] = [amount * BigInt(toHundredths(some)), BigInt(toHundredths(contracts))];
  const quotient = scaled / whole;
  return scaled % whole !== 0n && scaled < 0n !== whole < 0n ? quotient - 1n : quotient;
}

/** What is compared with the venue, and what is stored of others' contracts, are whole hundredths. */
export const parseHundredths = (text: string): number => toHundredths(parseCount(text));

export const formatHundredths = (hundredths: number): string => formatContracts(fromHundredths(hundredths));
