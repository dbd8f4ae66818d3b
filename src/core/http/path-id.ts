import type { Request } from 'express';
import { AppError } from '../errors.js';

const shape = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** True for what a uuid column takes: anything else would be an error of the database. */
export const isUuid = (value: unknown): value is string => typeof value === 'string' && shape.test(value);

/**
 * An id in the address, in lower case. One that cannot be an id is as unknown as any other.
 * @throws AppError not_found, saying that there is no such thing
 */
export function readPathId(req: Request, name: string, thing: string): string {
  const id = req.params[name];
  if (!isUuid(id)) throw new AppError('not_found', `There is no such ${thing}.`);
  return id.toLowerCase();
}
