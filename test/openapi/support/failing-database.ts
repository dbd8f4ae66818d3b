import type { Database, Orm } from '../../../src/core/db/client.js';
import { oneShardGroup } from '../../../src/core/db/shards.js';

/** Wraps a database so that every statement fails with the error. */
export function failingDatabase(db: Database, error: Error): Database {
  const fail = () => Promise.reject(error);
  // Awaiting any chain of builder calls fails.
  const chain: object = new Proxy(() => undefined, {
    get: (_target, name) =>
      name === 'then' ? (_resolve: unknown, reject: (e: Error) => void) => reject(error) : chain,
    apply: () => chain,
  });
  return {
    ...db,
    orm: chain as Orm,
    run: fail,
    transaction: fail,
    dryRun: fail,
    shards: oneShardGroup({ orm: chain as Orm, parallel: 1, run: fail, dryRun: fail }),
    ping: fail,
    close: () => Promise.resolve(),
  };
}

export const connectionRefused = () =>
  Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' });
