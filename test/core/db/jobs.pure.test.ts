import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createLease, startJobs, type Job } from '../../../src/core/db/jobs.js';
import type { Orm } from '../../../src/core/db/client.js';
import { createLifecycle } from '../../../src/core/http/context.js';
import { createMetrics } from '../../../src/core/metrics.js';

const lines: Record<string, unknown>[] = [];
const log = pino(
  { level: 'info' },
  { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
);
const consoleMethods = ['log', 'info', 'warn', 'error'] as const;
let written = 0;

beforeEach(() => {
  lines.length = 0;
  written = 0;
  vi.useFakeTimers({ now: Date.parse('2026-11-22T10:00:01Z') });
  for (const method of consoleMethods) vi.spyOn(console, method).mockImplementation(() => void written++);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

async function withJob(
  run: Job['run'],
  work: () => Promise<void>,
  lifecycle = createLifecycle(),
): Promise<Record<string, number>> {
  const metrics = createMetrics([], { ofProcess: false });
  const job = { name: 'a-job', schedule: '*/30 * * * * *', run };
  const stop = startJobs([job], { log, metrics, lifecycle });
  await work();
  await stop();
  const { values } = await metrics.jobRuns.get();
  return Object.fromEntries(values.map(({ labels, value }) => [labels.outcome, value]));
}

it('a clock that jumps a year ahead and back costs one run and no log line, and the schedule continues from there', async () => {
  let runs = 0;
  await withJob(
    () => Promise.resolve(runs++),
    async () => {
      await vi.advanceTimersByTimeAsync(60_000);
      expect(runs).toBe(2);
      vi.setSystemTime(Date.parse('2027-11-22T10:00:05Z'));
      await vi.advanceTimersByTimeAsync(60_000);
      expect(runs).toBeGreaterThanOrEqual(4);
      expect(runs).toBeLessThanOrEqual(5);
      const ahead = runs;
      vi.setSystemTime(Date.parse('2026-11-22T10:05:00Z'));
      await vi.advanceTimersByTimeAsync(120_000);
      expect(runs).toBeGreaterThanOrEqual(ahead + 3);
      expect(runs).toBeLessThanOrEqual(ahead + 5);
    },
  );
  expect(lines).toEqual([]);
  expect(written).toBe(0);
});

it('no job runs while the instance must not answer, and each runs again afterwards', async () => {
  const lifecycle = createLifecycle();
  lifecycle.refusal = { code: 'unavailable', detail: 'This version of Gauge is too old for the database.' };
  let runs = 0;
  const counted = await withJob(
    () => Promise.resolve(runs++),
    async () => {
      await vi.advanceTimersByTimeAsync(60_000);
      expect(runs).toBe(0);
      lifecycle.refusal = undefined;
      await vi.advanceTimersByTimeAsync(30_000);
      expect(runs).toBe(1);
    },
    lifecycle,
  );
  expect(counted).toEqual({ succeeded: 1, failed: 0, skipped: 2 });
  expect(lines).toEqual([]);
});

it('a job that overruns its interval runs once at a time, and logs it once', async () => {
  let running = 0;
  let most = 0;
  let finish = () => undefined as void;
  const counted = await withJob(
    () => {
      most = Math.max(most, ++running);
      return new Promise<void>((resolve) => (finish = resolve)).finally(() => running--);
    },
    async () => {
      await vi.advanceTimersByTimeAsync(600_000);
      finish();
    },
  );
  expect(most).toBe(1);
  expect(counted).toEqual({ succeeded: 1, failed: 0, skipped: 19 });
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({ level: 40, job: 'a-job' });
  expect(written).toBe(0);
});

it('a failing job logs once until it succeeds, and a database outage is logged without a stack', async () => {
  const outage = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' });
  let error: Error | undefined = outage;
  const counted = await withJob(
    () => (error ? Promise.reject(error) : Promise.resolve()),
    async () => {
      await vi.advanceTimersByTimeAsync(300_000);
      expect(lines).toMatchObject([{ level: 50, job: 'a-job', reason: 'the database cannot be reached' }]);
      expect(JSON.stringify(lines)).not.toContain('    at ');
      error = undefined;
      await vi.advanceTimersByTimeAsync(60_000);
      expect(lines).toHaveLength(2);
      expect(lines[1]).toMatchObject({ level: 30, job: 'a-job' });
      error = new TypeError('a defect');
      await vi.advanceTimersByTimeAsync(300_000);
      expect(lines).toHaveLength(3);
      expect(lines[2]).toMatchObject({
        err: { message: 'a defect', stack: expect.stringContaining('at ') as string },
      });
    },
  );
  expect(counted).toEqual({ succeeded: 2, failed: 20, skipped: 0 });
});

it('a job that throws synchronously stops nothing', async () => {
  await withJob(
    () => {
      throw new Error('at once');
    },
    () => vi.advanceTimersByTimeAsync(60_000).then(() => undefined),
  );
  expect(lines).toMatchObject([{ err: { message: 'at once' } }]);
});

it('a lease that cannot be returned is logged and fails nobody', async () => {
  const execute = vi
    .fn()
    .mockResolvedValueOnce({ rows: [{}] })
    .mockRejectedValue(new Error('gone'));
  const db = { orm: { execute } as unknown as Orm };
  const lease = createLease({ db, lifecycle: createLifecycle(), log }, 'a-job', { lengthSeconds: 60 });
  expect(await lease.hold()).toBe(true);
  await lease.release();
  expect(lines).toMatchObject([{ name: 'a-job', err: { message: 'gone' } }]);
});
