import { z } from 'zod';
import { isCount } from './contracts.js';

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

/** A count in an answer. */
export const contractsField = (description: string) =>
  z.number().meta({ description: `${description} With at most two decimals.` });
