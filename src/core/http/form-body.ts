import express, { type Request, type Response } from 'express';
import { AppError } from '../errors.js';

export const MAX_FORM_BYTES = 16 * 1024;
const parse = express.urlencoded({ extended: false, limit: MAX_FORM_BYTES, parameterLimit: 100 });

/** True for a form, and for a request without a body, which is a form without fields. */
export const isForm = (req: Request): boolean => req.is('application/x-www-form-urlencoded') !== false;

/**
 * The fields of a form as the browser posts them: text, or a list of texts where a name repeats.
 * @throws AppError unsupported_media_type, body_too_large, invalid_request
 */
export async function readForm(req: Request, res: Response): Promise<unknown> {
  if (!isForm(req)) {
    throw new AppError(
      'unsupported_media_type',
      'Send the form with `Content-Type: application/x-www-form-urlencoded`.',
    );
  }
  await new Promise<void>((resolve, reject) => {
    parse(req, res, (error?: unknown) => (error ? reject(error) : resolve()));
  }).catch((error: unknown) => {
    throw (error as { status?: unknown }).status === 413
      ? new AppError('body_too_large', `A form holds at most ${MAX_FORM_BYTES.toLocaleString('en')} bytes.`)
      : error;
  });
  return (req.body as unknown) ?? {};
}
