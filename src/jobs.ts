import cron from 'node-cron';
import type { Logger } from 'pino';

export interface Job {
  name: string;
  /** A cron expression with seconds. */
  schedule: string;
  run: () => Promise<unknown>;
}

/** Runs the jobs on their schedules, each at most once at a time. Resolves the returned function when the last has ended. */
export function startJobs(jobs: Job[], log: Logger): () => Promise<void> {
  const running = new Set<Promise<unknown>>();
  const tasks = jobs.map(({ name, schedule, run }) => {
    const once = () => {
      const work = run()
        .catch((error: unknown) =>
          log.error({ err: error, job: name }, 'a job failed; it runs again on its schedule'),
        )
        .finally(() => running.delete(work));
      running.add(work);
      return work;
    };
    return cron.schedule(schedule, once, { name, noOverlap: true });
  });
  return async () => {
    for (const task of tasks) await task.destroy();
    await Promise.all(running);
  };
}
