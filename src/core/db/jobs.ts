import { createTask, type ScheduledTask } from 'node-cron';
import type { Logger } from 'pino';
import { sql } from 'drizzle-orm';
import { v4 as uuid } from 'uuid';
import { describeOutage } from './outage.js';
import type { Orm } from './client.js';
import type { Metrics } from '../metrics.js';
import { selectRows } from './sql.js';

export interface Job {
  name: string;
  /** A cron expression with seconds. */
  schedule: string;
  run: () => Promise<unknown>;
}

const outcomes = ['succeeded', 'failed', 'skipped'] as const;

/** Looked at the clock at least this often: it may have been set back. */
const LONGEST_WAIT_MS = 30_000;

/**
 * Runs the jobs on their schedules, each at most once at a time. The next run is found from the clock as it is then: what a
 * jump of the clock passed over is not made up for, so the schedule's own timers, which go through all of that, are not used.
 * A failure, or a run that takes longer than its turn, is counted, and logged once until that is over. Resolves the returned
 * function when the last has ended.
 */
export function startJobs(
  jobs: Job[],
  { log, metrics }: { log: Logger; metrics: Pick<Metrics, 'jobRuns'> },
): () => Promise<void> {
  const running = new Set<Promise<unknown>>();
  const stops = jobs.map(({ name, schedule, run }) => {
    const task = createTask(schedule, () => undefined, { name });
    let due = nextOf(task);
    let timer: NodeJS.Timeout;
    let current: Promise<unknown> | undefined;
    let failure: string | undefined;
    let isLate = false;
    const count = (outcome: (typeof outcomes)[number], times = 1) =>
      metrics.jobRuns.inc({ job: name, outcome }, times);
    for (const outcome of outcomes) count(outcome, 0);
    const succeed = () => {
      count('succeeded');
      if (failure !== undefined) log.info({ job: name }, 'a job that had failed succeeds again');
      failure = undefined;
    };
    const fail = (error: unknown) => {
      count('failed');
      const outage = describeOutage(error);
      const reason = outage ?? (error instanceof Error ? error.message : String(error));
      if (reason === failure) return;
      failure = reason;
      // An outage is no bug of the job's, and has no place in the code.
      const what = outage === undefined ? { err: error } : { reason };
      log.error({ ...what, job: name }, 'a job failed; it runs again on its schedule');
    };
    const start = () => {
      if (current) {
        count('skipped');
        if (!isLate) log.warn({ job: name }, 'a job takes longer than its turn: the next ones are left out');
        isLate = true;
        return;
      }
      const work = (async () => run())()
        .then(succeed, fail)
        .finally(() => {
          running.delete(work);
          current = undefined;
          isLate = false;
        });
      current = work;
      running.add(work);
    };
    const wait = () => {
      timer = setTimeout(beat, Math.max(0, Math.min(due - Date.now(), LONGEST_WAIT_MS)));
    };
    const beat = () => {
      if (Date.now() >= due) start();
      due = nextOf(task);
      wait();
    };
    wait();
    return () => clearTimeout(timer);
  });
  return async () => {
    for (const stop of stops) stop();
    await Promise.all(running);
  };
}

const nextOf = (task: ScheduledTask): number => task.getNextRuns(1)[0]!.getTime();

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
