import { pino } from 'pino';
import { expect, it } from 'vitest';
import { readConfig } from '../../../src/config.js';
import { systemClock } from '../../../src/core/time.js';
import { startBackgroundThread } from '../../../src/markets/background/start-thread.js';
import { createCalibrationStore } from '../../../src/markets/snapshot/snapshot.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();

// Threads load compiled files only, so every thread fails at startup here.
const startThread = () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line) => void lines.push(line) });
  const deps = { db: database.db, clock: systemClock, log, calibration: createCalibrationStore() };
  const names = { marketSource: 'simulated', forecastSource: 'simulated' };
  const thread = startBackgroundThread({ config: readConfig({}) }, deps, {
    names,
    furtherModels: undefined,
    pastDays: undefined,
  });
  return { thread, lines };
};

it('loads and judges at startup without the thread', async () => {
  const { thread, lines } = startThread();
  await thread.load();
  await thread.judge();
  expect(lines).toEqual([]);
  await thread.stop();
});

it('rejects the calls of a thread that fails, logs why, and starts another for the next call', async () => {
  const { thread, lines } = startThread();
  for (let turn = 1; turn <= 2; turn++) {
    await expect(thread.cleanUp()).rejects.toThrow('The thread for training has ended.');
    expect(lines).toHaveLength(turn);
    expect(lines.at(-1)).toMatch(/the thread for training failed; it starts again.*|thread\.js/);
  }
  await thread.stop();
  await thread.cleanUp();
  expect(lines).toHaveLength(2);
});
