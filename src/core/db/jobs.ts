import { createTask, type ScheduledTask } from 'node-cron';
import type { Logger } from 'pino';
import { sql } from 'drizzle-orm';
import { v4 as uuid } from 'uuid';
import { describeOutage } from './outage.js';
import type { Orm } from './client.js';
import type { Metrics } from '../metrics.js';
import { queryRows } from './sql.js';

export interface Job {
  name: string;
  /** Cron expression with seconds. */
  schedule: string;
  run: () => Promise<unknown>;
}

const outcomes = ['succeeded', 'failed', 'skipped'] as const;

/** Maximum sleep between checks of the clock, in ms, because the clock may be set back. */
const MAX_WAIT_MS = 30_000;

/**
 * Runs the jobs on their schedules, with at most one run of each at a time. The time of the next run is computed from
 * the current time, so runs skipped by a clock jump are not made up for; the scheduler's own timers would run all of
 * them. No run starts while the instance must not answer, because its version or its clock is wrong. Repeated failures
 * or overruns are counted, but logged only once. The returned function stops the jobs and
 * resolves when the last run has ended.
 */
export function startJobs(
  jobs: Job[],
  {
    log,
    metrics,
    lifecycle,
  }: { log: Logger; metrics: Pick<Metrics, 'jobRuns'>; lifecycle: { refusal?: unknown } },
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
      if (failure !== undefined) log.info({ job: name }, 'a job that had failed succeeded again');
      failure = undefined;
    };
    const fail = (error: unknown) => {
      count('failed');
      const outage = describeOutage(error);
      const reason = outage ?? (error instanceof Error ? error.message : String(error));
      if (reason === failure) return;
      failure = reason;
      // A database outage is not a bug in the job, so it is logged without a stack.
      const what = outage === undefined ? { err: error } : { reason };
      log.error({ ...what, job: name }, 'a job failed; it runs again on its schedule');
    };
    const start = () => {
      if (lifecycle.refusal) {
        count('skipped');
        return;
      }
      if (current) {
        count('skipped');
        if (!isLate)
          log.warn(
            { job: name },
            'a job is still running at its next start; starts are skipped until it finishes',
          );
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
      timer = setTimeout(beat, Math.max(0, Math.min(due - Date.now(), MAX_WAIT_MS)));
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

export interface Lease {
  /** False if another instance holds it, and while this instance must not answer. */
  hold(): Promise<boolean>;
  /** If the database is unreachable, the lease expires. */
  release(): Promise<void>;
}

/** Uses the database's time. A slow holder may lose the lease while working, so the work must be safe to do twice. */
export function createLease(
  { db: { orm }, lifecycle, log }: { db: { orm: Orm }; lifecycle: { refusal?: unknown }; log: Logger },
  name: string,
  { lengthSeconds }: { lengthSeconds: number },
): Lease {
  const holder = uuid();
  let mayHold = false;
  return {
    async hold() {
      if (lifecycle.refusal) return false;
      // Set before the query, because the lease may be held even if the response is lost.
      mayHold = true;
      const taken = await queryRows(orm)`insert into job_leases (name, holder, until)
        values (${name}, ${holder}::uuid, now() + ${lengthSeconds} * interval '1 second')
        on conflict (name) do update set holder = excluded.holder, until = excluded.until
          where job_leases.holder = excluded.holder or job_leases.until < now()
        returning name`;
      mayHold = taken.length > 0;
      return mayHold;
    },
    async release() {
      if (!mayHold) return;
      try {
        await orm.execute(sql`delete from job_leases where name = ${name} and holder = ${holder}::uuid`);
        mayHold = false;
      } catch (error) {
        log.warn({ err: error, name }, 'the lease of a job could not be returned; it will expire');
      }
    },
  };
}
