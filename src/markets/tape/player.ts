import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { MINUTE_MS, type Clock } from '../../core/time.js';
import { buildSnapshot, buildSnapshotInSteps } from '../snapshot/build-snapshot.js';
import type { ForecastModel } from '../learning/forecast.js';
import type { MarketSource } from '../market/source.js';
import type { Refresher } from '../snapshot/refresh.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { inSlices } from '../../core/steps.js';
import { readTape, TapeError, type TapeEntry } from './reader.js';

/** Hours in which nothing was taped are skipped. */
const LONGEST_GAP_MS = 2 * MINUTE_MS;

export interface TapePlayer {
  /** What time it is on the tape. It stands still before the start, and at the end. */
  clock: Clock;
  marketSource: string;
  forecastSource: string;
  /** In place of the refresher of live sources: its `refresh` waits until the tape has been started, and does nothing else. */
  createRefresher(deps: { store: SnapshotStore; model: ForecastModel; log: Logger }): Refresher;
  /** Resolves when the tape is at its end, or was stopped. */
  ended: Promise<void>;
}

export interface TapePlayerOptions {
  path: string;
  /** 2: two seconds of the tape in one. Infinity: as fast as it goes. */
  speed: number;
  /** What was taped before is skipped. */
  from?: Date | undefined;
}

/**
 * Plays a tape: each snapshot is made of the inputs that were taped, by the same code, at the time of the tape.
 * @throws TapeError for a file that is no tape, or has nothing on it after `from`
 */
export async function openTapePlayer({ path, speed, from }: TapePlayerOptions): Promise<TapePlayer> {
  const entries = readTape(path);
  const first = await findFirst(entries, from);
  if (!first) throw new TapeError(`${path}: there is nothing on this tape after ${from?.toISOString()}`);
  const clock = createTapeClock(first.inputs.at.getTime(), speed);
  const stopping = new AbortController();
  let tellEnd = () => undefined as void;
  const ended = new Promise<void>((resolve) => (tellEnd = resolve));

  async function play({ store, model, log }: Parameters<TapePlayer['createRefresher']>[0]): Promise<void> {
    // The first one at once: the service begins with it.
    store.replace(buildSnapshot(first!.inputs, { ...first!.header, model }, store.current, log));
    clock.start();
    for await (const entry of entries) {
      await clock.waitFor(entry.inputs.at.getTime(), stopping.signal);
      if (stopping.signal.aborted) return;
      const { header, inputs } = entry;
      store.replace(await inSlices(buildSnapshotInSteps(inputs, { ...header, model }, store.current, log)));
    }
    clock.freeze();
    log.info({ tape: path }, 'the tape is at its end: the last snapshot stays');
  }

  return {
    clock,
    marketSource: first.header.marketSource,
    forecastSource: first.header.forecastSource,
    ended,
    createRefresher(deps) {
      let playing: Promise<void> | undefined;
      return {
        refresh: async () => {
          playing ??= play(deps)
            .catch((error: unknown) => {
              clock.freeze();
              deps.log.error({ err: error }, 'the tape cannot be played on: the last snapshot stays');
            })
            .finally(tellEnd);
          await Promise.resolve();
        },
        async stop() {
          stopping.abort();
          await playing;
        },
      };
    },
  };
}

async function findFirst(
  entries: AsyncGenerator<TapeEntry>,
  from: Date | undefined,
): Promise<TapeEntry | undefined> {
  for (;;) {
    const { value, done } = await entries.next();
    if (done) return undefined;
    if (!from || value.inputs.at >= from) return value;
  }
}

/** Markets as the tape has them at the moment: it knows none but those. */
export const tapedMarkets = (name: string, store: Pick<SnapshotStore, 'current'>): MarketSource => ({
  name,
  read: () => Promise.reject(new Error('a tape is not asked: it plays')),
  find: (tickers) => Promise.resolve(tickers.flatMap((ticker) => store.current?.markets.get(ticker) ?? [])),
});

function createTapeClock(startMs: number, speed: number) {
  /** The tape's time and the process's at the same moment; undefined while it stands still. */
  let running: { tapeMs: number; processMs: number } | undefined;
  let pausedAtMs = startMs;
  const now = () =>
    running && speed !== Infinity
      ? Math.floor(running.tapeMs + (performance.now() - running.processMs) * speed)
      : pausedAtMs;
  const set = (tapeMs: number) => {
    pausedAtMs = tapeMs;
    running = { tapeMs, processMs: performance.now() };
  };
  return {
    now,
    start: () => set(startMs),
    freeze() {
      pausedAtMs = now();
      running = undefined;
    },
    async waitFor(tapeMs: number, signal: AbortSignal): Promise<void> {
      // Far back: the clock of the machine was set, or another tape was appended.
      if (speed === Infinity || Math.abs(tapeMs - now()) > LONGEST_GAP_MS) set(tapeMs);
      const waitMs = (tapeMs - now()) / speed;
      if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    },
  };
}
