import { Cron } from 'croner';
import type { Logger } from 'pino';
import { describeOutage } from './db/outage.js';

export interface Job {
  name: string;
  /** A cron expression with seconds. */
  schedule: string;
  run: () => Promise<unknown>;
}

/**
 * Runs the jobs on their schedules, each at most once at a time. The next run is found from the clock as it is then:
 * what a jump of the clock passed over is not made up for. A failure, or a run that takes longer than its turn, is logged
 * once until that is over. Resolves the returned function when the last has ended.
 */
export function startJobs(jobs: Job[], log: Logger): () => Promise<void> {
  const running = new Set<Promise<unknown>>();
  const tasks = jobs.map(({ name, schedule, run }) => {
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
    const once = () => {
      const work = (async () => run())()
        .then(succeed, fail)
        .finally(() => {
          running.delete(work);
          isLate = false;
        });
      running.add(work);
      return work;
    };
    const onOverlap = () => {
      if (!isLate) log.warn({ job: name }, 'a job takes longer than its turn: the next ones are left out');
      isLate = true;
    };
    return new Cron(schedule, { protect: onOverlap }, once);
  });
  return async () => {
    for (const task of tasks) task.stop();
    await Promise.all(running);
  };
}
