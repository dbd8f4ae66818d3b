import type { RequestHandler } from 'express';
import type { Context } from './context.js';
import { AppError } from '../errors.js';
import { addressOf, countByAddress, secondsUntil, setHeaders } from './rate-limit.js';

export interface PerAddressLimitOptions {
  name: string;
  perMinute: number;
  /** What is limited, for people; the name if left out. */
  calls?: string;
}

/**
 * Limits the calls a minute of each address, for routes that need no credential. Every answer says what is left.
 * Counted in this process, which it protects: asking Redis would cost more than what is counted.
 */
export function perAddressLimit(
  { clock }: Pick<Context, 'clock'>,
  { name, perMinute, calls = name }: PerAddressLimitOptions,
): RequestHandler {
  const counts = countByAddress(clock);
  return (req, res, next) => {
    const { count, resetsAt } = counts.add(addressOf(req));
    const seconds = secondsUntil(resetsAt, clock.now());
    setHeaders(res, { name, quota: perMinute, remaining: perMinute - count, seconds });
    if (count <= perMinute) {
      next();
      return;
    }
    const detail = `Your address may make ${perMinute} ${calls} a minute. Try again in ${seconds} s.`;
    next(new AppError('rate_limited', detail, { retryAfterSeconds: seconds }));
  };
}
