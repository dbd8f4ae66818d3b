import type { Logger } from 'pino';
import type { Clock } from '../clock.js';
import type { Database, Statement } from '../db/client.js';

const recordUse: Statement = {
  name: 'api_keys_record_use',
  text: `
update api_keys k set last_used_at = u.at
from (select hashed_secret, at from unnest($1::text[], $2::timestamptz[]) as u (hashed_secret, at) order by hashed_secret) u
where k.hashed_secret = u.hashed_secret and (k.last_used_at is null or k.last_used_at < u.at)`,
};

/** Remembers when keys were last used and writes it from time to time: no write per request, at most a minute behind. */
export interface KeyUse {
  touch(hashedSecret: string): void;
  /** True if the key was good the last time it was seen here. A hint for the order of the work, never a decision. */
  hasSeen(hashedSecret: string): boolean;
  /** Writes what has gathered. A failure keeps it for the next time. */
  flush(): Promise<void>;
}

const MAX_SEEN = 50_000;

export function createKeyUse({ db, clock, log }: { db: Database; clock: Clock; log: Logger }): KeyUse {
  let pending = new Map<string, number>();
  const seen = new Set<string>();
  return {
    touch(hashedSecret) {
      pending.set(hashedSecret, clock.now());
      if (seen.size >= MAX_SEEN) seen.clear();
      seen.add(hashedSecret);
    },
    hasSeen: (hashedSecret) => seen.has(hashedSecret),
    async flush() {
      if (pending.size === 0) return;
      const writing = pending;
      pending = new Map();
      try {
        await db.run(recordUse, [
          [...writing.keys()],
          [...writing.values()].map((ms) => new Date(ms).toISOString()),
        ]);
      } catch (error) {
        for (const [key, at] of writing) pending.set(key, Math.max(at, pending.get(key) ?? 0));
        log.warn({ err: error }, 'the last use of API keys could not be written; it is kept');
      }
    },
  };
}
