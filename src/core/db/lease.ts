import { sql } from 'drizzle-orm';
import { v4 as uuid } from 'uuid';
import type { Orm } from './client.js';
import { selectRows } from './sql.js';

/** The right to do some work for all instances: one of them has it at a time. */
export interface Lease {
  /** Takes the lease, or keeps it for longer. False if another instance has it. */
  hold(): Promise<boolean>;
  /** Lets another instance take it at once. Does nothing if this one does not have it. */
  release(): Promise<void>;
}

/**
 * A lease ends by itself when its holder is gone. The time is the database's: clocks of instances differ.
 *
 * A slow process may find itself without the lease in the middle of its work, while another has begun the same. So the
 * work must be safe to be done twice; the lease only saves it from being done twice all the time.
 */
export function createLease(orm: Orm, name: string, { lengthSeconds }: { lengthSeconds: number }): Lease {
  const holder = uuid();
  let mayHold = false;
  return {
    async hold() {
      // Before the answer is known: if it gets lost, the lease may be held.
      mayHold = true;
      const taken = await selectRows(
        orm,
        sql`insert into job_leases (name, holder, until)
        values (${name}, ${holder}::uuid, now() + ${lengthSeconds} * interval '1 second')
        on conflict (name) do update set holder = excluded.holder, until = excluded.until
          where job_leases.holder = excluded.holder or job_leases.until < now()
        returning name`,
      );
      mayHold = taken.length > 0;
      return mayHold;
    },
    async release() {
      if (!mayHold) return;
      await orm.execute(sql`delete from job_leases where name = ${name} and holder = ${holder}::uuid`);
      mayHold = false;
    },
  };
}
