import { createTask, type ScheduledTask } from 'node-cron';
import type { Logger } from 'pino';
import { describeOutage } from './outage.js';

export interface Job {
  name: string;
  /** A cron expression with seconds. */
  schedule: string;
  run: () => Promise<unknown>;
}

/** Looked at the clock at least this often: it may have been set back. */
const LONGEST_WAIT_MS = 30_000;

/**
 * Runs the jobs on their schedules, each at most once at a time. The next run is found from the clock as it is then: what a
 * jump of the clock passed over is not made up for, so the schedule's own timers, which go through all of that, are not used.
 * A failure, or a run that takes longer than its turn, is logged once until that is over. Resolves the returned function
 * when the last has ended.
 */
export function startJobs(jobs: Job[], log: Logger): () => Promise<void> {
  const running = new Set<Promise<unknown>>();
  const stops = jobs.map(({ name, schedule, run }) => {
    const task = createTask(schedule, () => undefined, { name });
    let due = nextOf(task);
    let timer: NodeJS.Timeout;
    let current: Promise<unknown> | undefined;
    let failure: string | undefined;
    let isLate = false;
    const succeed = () => {
      if (failure !== undefined) log.info({ job: name }, 'a job that had failed succeeds again');
      failure = undefined;
    };
    const fail = (error: unknown) => {
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
