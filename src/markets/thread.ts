import { readlinkSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { Database } from '../core/db/client.js';
import { embeddedDatabase } from '../core/db/embedded.js';
import { connectPglite } from '../core/db/pglite-port.js';
import { openPostgres } from '../core/db/postgres.js';
import { createLifecycle } from '../core/http/context.js';
import { useProxies } from '../core/http/proxy.js';
import { createLogger } from '../core/log/log.js';
import { collectGarbage } from '../core/memory.js';
import { connectThread } from '../core/threads.js';
import { systemClock } from '../core/time.js';
import type { FitBook } from './learning/fits.js';
import { createWorld } from './venue/simulation/weather.js';
import { createCalibrationStore } from './snapshot/snapshot.js';
import { createBackground } from './background/background.js';
import type { ThreadCalls, ThreadData, ThreadEvents } from './background/start-thread.js';

/** Entry point of the thread that runs the background work. */
const { config, databasePort, learned, ...options } = workerData as ThreadData;
giveWay();
await useProxies();
const stopping = new AbortController();
const running = new Set<Promise<unknown>>();

/** Once the thread is stopping, no work starts and no failure is reported. */
async function track(work: () => Promise<void>): Promise<void> {
  if (stopping.signal.aborted) return;
  const run = work().catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error;
  });
  running.add(run);
  await run.finally(() => running.delete(run));
  // This thread will now be idle for minutes or hours.
  if (running.size === 0) collectGarbage();
}

const main = connectThread<ThreadEvents, ThreadCalls>(parentPort!, {
  learn: (news) => track(() => background.learn(news)),
  cleanUp: () => track(() => background.cleanUp()),
  judge: () => track(() => background.judge()),
  fillPast: () => track(() => background.fillPast()),
  fillDemo: (nowMs, trading) =>
    track(async () => {
      // Orders and settlement, which only a demo's first start needs here, are half of what this thread could load.
      const { seedDemoTrading } = await import('./demo/trading.js');
      const context = { config, db, log, clock: { now: () => nowMs }, lifecycle: createLifecycle() };
      const useFits = (fits: FitBook) => calibration.replace({ fits });
      await seedDemoTrading(context, { keys: { trading } }, useFits, stopping.signal);
    }),
  async stop() {
    stopping.abort();
    await background.stop();
    await Promise.allSettled(running);
    await db.close();
    setImmediate(() => parentPort!.close());
  },
});

const log = createLogger(config.logLevel, { write: (line) => void main.log.asEvent(line) }, config.secrets);
const db: Database = databasePort
  ? {
      ...embeddedDatabase(connectPglite(databasePort), () => databasePort.close()),
      close: async () => databasePort.close(),
    }
  : openPostgres(config.databaseUrl!, log);
const store = createCalibrationStore(learned);
const calibration = {
  get current() {
    return store.current;
  },
  replace(part: Parameters<typeof store.replace>[0]) {
    store.replace(part);
    void main.calibrate.asEvent(part);
  },
};
const background = createBackground({ db, log, calibration, clock: systemClock }, options, createWorld());

/** Requests and the database take priority on a busy machine. Only Linux can lower one thread's priority. */
function giveWay(): void {
  try {
    const id = readlinkSync('/proc/thread-self').split('/').at(-1);
    setPriority(Number(id), constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // Without this, all threads keep the same priority.
  }
}
