import type { Response } from 'express';
import { AppError } from '../errors.js';

/** Aborted when the caller hangs up before the answer. Its reason is an error that nobody will be told. */
export function hangUpSignal(res: Response): AbortSignal {
  const gone = new AbortController();
  res.once('close', () => {
    if (!res.writableEnded)
      gone.abort(new AppError('invalid_request', 'The connection ended before the answer.'));
  });
  return gone.signal;
}
