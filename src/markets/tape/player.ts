import { setTimeout as sleep } from 'node:timers/promises';
import { MINUTE_MS } from '../../core/time.js';
import { buildSnapshot, buildSnapshotInSteps } from '../snapshot/build-snapshot.js';
import type { MarketSource } from '../market/source.js';
import type { RefreshDeps, Refresher } from '../snapshot/refresh.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { inSlices } from '../../core/steps.js';
import { readTape, TapeError, type TapeEntry } from './reader.js';

/** Longer gaps are skipped. */
const LONGEST_GAP_MS = 2 * MINUTE_MS;

export type TapePlayer = Awaited<ReturnType<typeof openTapePlayer>>;

export interface TapePlayerOptions {
  path: string;
  /** Seconds of tape per second; Infinity is as fast as possible. */
  speed: number;
  from?: Date | undefined;
}

/**
 * Builds each snapshot with the live code, at the tape's time.
 * @throws TapeError if the file is not a tape or has nothing after `from`
 */
export async function openTapePlayer({ path, speed, from }: TapePlayerOptions) {
  const entries = readTape(path);
  const first = await findFirst(entries, from);
  if (!first) throw new TapeError(`${path}: there is nothing on this tape after ${from?.toISOString()}`);
  const clock = createTapeClock(first.inputs.at.getTime(), speed);
  const stopping = new AbortController();
  let resolveEnded = () => undefined as void;
  const ended = new Promise<void>((resolve) => (resolveEnded = resolve));

  async function play({ store, model, log }: PlayDeps): Promise<void> {
    // The service needs a snapshot to start.
    store.replace(buildSnapshot(first!.inputs, { ...first!.header, model }, store.current, log));
    clock.start();
    for await (const entry of entries) {
      await clock.waitFor(entry.inputs.at.getTime(), stopping.signal);
      if (stopping.signal.aborted) return;
      const { header, inputs } = entry;
      store.replace(await inSlices(buildSnapshotInSteps(inputs, { ...header, model }, store.current, log)));
    }
    clock.freeze();
    log.info({ tape: path }, 'the tape has ended; the last snapshot stays');
  }

  return {
    /** Constant before the start and after the end. */
    clock: { now: clock.now },
    marketSource: first.header.marketSource,
    ended,
    /** `refresh` only waits until playback has started. */
    createRefresher(deps: PlayDeps): Refresher {
      let playing: Promise<void> | undefined;
      return {
        refresh: async () => {
          playing ??= play(deps)
            .catch((error: unknown) => {
              clock.freeze();
              deps.log.error({ err: error }, 'playback of the tape failed; the last snapshot stays');
            })
            .finally(resolveEnded);
          await Promise.resolve();
        },
        readMinutes: () => Promise.resolve(),
        async stop() {
          stopping.abort();
          await playing;
          // Closes the file if playback never began.
          await entries.return(undefined);
        },
      };
    },
  };
}

type PlayDeps = Pick<RefreshDeps, 'store' | 'model' | 'log'>;

async function findFirst(entries: AsyncGenerator<TapeEntry>, from: Date | undefined) {
  for (;;) {
    const { value, done } = await entries.next();
    if (done) return undefined;
    if (!from || value.inputs.at >= from) return value;
  }
}

export const tapedMarkets = (name: string, store: Pick<SnapshotStore, 'current'>): MarketSource => ({
  name,
  read: () => Promise.reject(new Error('a tape cannot be read on request')),
  find: (tickers) => Promise.resolve(tickers.flatMap((ticker) => store.current?.markets.get(ticker) ?? [])),
});

function createTapeClock(startMs: number, speed: number) {
  /** At the same moment; undefined while the clock is stopped. */
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
      // The machine's clock was set, or another tape was appended.
      if (speed === Infinity || Math.abs(tapeMs - now()) > LONGEST_GAP_MS) set(tapeMs);
      const waitMs = (tapeMs - now()) / speed;
      if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    },
  };
}
