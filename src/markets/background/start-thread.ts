import { once } from 'node:events';
import { Worker, type MessagePort } from 'node:worker_threads';
import pino, { type DestinationStream } from 'pino';
import type { ServiceConfig } from '../../core/config.js';
import type { Context } from '../../core/http/context.js';
import { connectThread, type Remote } from '../../core/threads.js';
import type { Calibration } from '../snapshot/snapshot.js';
import { createWorld } from '../venue/simulation/weather.js';
import {
  createBackground,
  type Background,
  type BackgroundDeps,
  type BackgroundOptions,
} from './background.js';

export interface ThreadData extends BackgroundOptions {
  config: ServiceConfig;
  /** Port to the embedded database. Undefined if the thread opens its own connections to Postgres. */
  databasePort: MessagePort | undefined;
  /** Calibration at the time the thread starts. */
  learned: Calibration;
}

export interface ThreadEvents {
  calibrate(part: Partial<Calibration>): void;
  log(line: string): void;
}

/** Calls from the server to the thread. */
export interface ThreadCalls extends Omit<Background, 'load'> {
  /** Paper-trades the demo's past with the given key, up to `nowMs` (Unix time in milliseconds). */
  fillDemo(nowMs: number, tradingKey: string): Promise<void>;
}

/** MB. Only a safeguard: a thread that runs out of memory fails, and so does its training. */
const MAX_HEAP_MB = 512;

/**
 * Runs the background work in a thread, so that it neither delays requests nor fills the server's heap. The thread
 * starts on the first call, and on the next call after a failure. Until then, loading and judging run on the calling
 * thread: before the service is ready they delay nobody, and loading the thread's code takes more time than both.
 */
export function startBackgroundThread(
  { config }: Pick<Context, 'config'>,
  deps: BackgroundDeps,
  options: BackgroundOptions,
): ThreadCalls & Pick<Background, 'load'> {
  const { db, log, calibration } = deps;
  const early = createBackground(deps, options, createWorld());
  let running: { remote: Remote<ThreadCalls, ThreadEvents>; worker: Worker } | undefined;
  let isStopped = false;

  function start() {
    const databasePort = db.openPort?.();
    const data: ThreadData = { ...options, config, databasePort, learned: calibration.current };
    const worker = new Worker(new URL('../thread.js', import.meta.url), {
      workerData: data,
      transferList: databasePort ? [databasePort] : [],
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB, maxYoungGenerationSizeMb: 16 },
    });
    const lines = (log as unknown as Record<symbol, DestinationStream>)[pino.symbols.streamSym]!;
    const remote = connectThread<ThreadCalls, ThreadEvents>(worker, {
      calibrate: (part) => calibration.replace(part),
      log: (line) => lines.write(line),
    });
    worker.on('error', (error) =>
      log.error({ err: error }, 'the thread for training failed; it starts again'),
    );
    worker.on('exit', () => {
      running = undefined;
      remote.$close(new Error('The thread for training has ended.'));
    });
    return { remote, worker };
  }

  const call = async (work: (remote: Remote<ThreadCalls, ThreadEvents>) => Promise<void>): Promise<void> => {
    if (!isStopped) await work((running ??= start()).remote);
  };

  return {
    load: () => early.load(),
    learn: (news) => call((remote) => remote.learn(news)),
    cleanUp: () => call((remote) => remote.cleanUp()),
    judge: () => (running ? call((remote) => remote.judge()) : early.judge()),
    fillPast: () => call((remote) => remote.fillPast()),
    fillDemo: (nowMs, tradingKey) => call((remote) => remote.fillDemo(nowMs, tradingKey)),
    /** Ends calls in progress early; they still resolve. */
    async stop() {
      isStopped = true;
      await early.stop();
      if (!running) return;
      const ended = once(running.worker, 'exit');
      // A failing thread has already logged the error and exits on its own.
      await Promise.all([ended, running.remote.stop().catch(() => undefined)]);
    },
  };
}
