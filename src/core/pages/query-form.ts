import type { Request, Response } from 'express';
import type { z } from 'zod';
import { AppError } from '../errors.js';
import { beginProblem } from '../http/problem.js';
import { parseInput } from '../http/validate.js';
import { fieldError, newForm, toFormState, type FormFields, type FormState } from './form.js';

/** The fields of a form that is sent in the address. A field that was left empty was not filled in. */
export const readQuery = (req: Request): FormFields =>
  Object.fromEntries(Object.entries(req.query as FormFields).filter(([, value]) => value !== ''));

/** @throws AppError invalid_request for a field that is given more than once */
export function requireOnce(query: object): void {
  const repeated = Object.entries(query).find(([, value]) => Array.isArray(value));
  if (repeated) throw fieldError(repeated[0], 'must be given once');
}

/** @throws AppError invalid_request for a field that does not fit or is given more than once */
export function parseQueryForm<T extends z.ZodType>(schema: T, query: FormFields): z.output<T> {
  requireOnce(query);
  return parseInput(schema, query);
}

/**
 * What a page with such a form shows: what was asked for, or the form with what is wrong beside the field and the
 * status of that.
 */
export async function tryQuery<T>(
  res: Response,
  query: FormFields,
  work: () => Promise<T>,
): Promise<{ form: FormState; result: T | undefined }> {
  try {
    return { form: newForm(query), result: await work() };
  } catch (thrown) {
    const isForField = thrown instanceof AppError && thrown.errors !== undefined;
    if (!isForField || !['invalid_request', 'not_found'].includes(thrown.code)) throw thrown;
    beginProblem(res, thrown);
    return { form: toFormState(query, thrown), result: undefined };
  }
}
