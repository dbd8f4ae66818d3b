import type { Logger } from 'pino';
import type { RequestHandler } from 'express';
import type { Clock } from '../time.js';
import type { ServiceConfig } from '../config.js';
import type { Database } from '../db/client.js';
import type { LimitStores } from './limit-store.js';
import type { Metrics } from '../metrics.js';
import { AppError } from '../errors.js';

export interface Context<Config extends ServiceConfig = ServiceConfig> {
  config: Config;
  db: Database;
  clock: Clock;
  log: Logger;
  accessLog: Logger;
  metrics: Metrics;
  lifecycle: Lifecycle;
  limitStores: LimitStores;
}

export type WorkContext = Pick<Context, 'config' | 'db' | 'clock' | 'log' | 'metrics' | 'lifecycle'>;

export interface Lifecycle {
  state: 'starting' | 'ready' | 'draining';
  /** Why this instance must answer nothing and begin no background work at the moment; undefined if it may. */
  refusal?: { code: 'unavailable' | 'clock_off'; detail: string } | undefined;
}

export function createLifecycle(): Lifecycle {
  return { state: 'starting' };
}

/** Only an operator ends a refusal, so callers need not hurry. */
const REFUSED_SECONDS = 5;

export const refused = ({ code, detail }: NonNullable<Lifecycle['refusal']>, cause?: unknown): AppError =>
  new AppError(code, detail, { cause, retryAfterSeconds: REFUSED_SECONDS });

/** Admitted requests are always finished. */
export function requireReady(lifecycle: Lifecycle): RequestHandler {
  return (_req, res, next) => {
    const { state, refusal } = lifecycle;
    if (state === 'ready' && !refusal) {
      next();
      return;
    }
    // Closes the connection, so that the client's next request can reach another instance.
    res.setHeader('Connection', 'close');
    const detail = state === 'draining' ? 'This instance is shutting down.' : 'The service is starting.';
    next(refusal ? refused(refusal) : new AppError('unavailable', detail, { retryAfterSeconds: 1 }));
  };
}
