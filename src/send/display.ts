import { MultiBar } from 'cli-progress';
import { count, duration, rate } from './numbers.js';

export interface Progress {
  records: number;
  /** Bytes of the input, and of them those whose records are done. */
  position: number;
  size: number | undefined;
}

/** Where a person watches; a terminal or not. */
export interface Screen {
  write(text: string): unknown;
  isTTY?: boolean;
}

/** Tells a person how far a run is, on standard error. */
export interface Display {
  note(text: string): void;
  stop(): void;
}

const LINE_EVERY_MS = 5_000;

export const silent: Display = { note: () => undefined, stop: () => undefined };

/** A bar where a person watches, a line every few seconds where the output is kept. */
export function createDisplay(out: Screen, read: () => Progress, done: number): Display {
  return out.isTTY ? createBar(out, read, done) : createLines(out, read, done);
}

function createBar(out: Screen, read: () => Progress, done: number): Display {
  const describe = createDescription(read, done);
  const bars = new MultiBar({
    stream: out as NodeJS.WriteStream,
    format: '{bar} {share} · {records} · {rate}/s · {left}',
    barsize: 24,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
    gracefulExit: false,
    fps: 8,
  });
  const bar = bars.create(1, 0, describe());
  const timer = setInterval(() => {
    const texts = describe();
    bar.update(texts.part, texts);
  }, 125);
  return {
    note: (text) => {
      bars.log(`${text}\n`);
      bars.update();
    },
    stop() {
      clearInterval(timer);
      bars.stop();
    },
  };
}

function createLines(out: Screen, read: () => Progress, done: number): Display {
  const describe = createDescription(read, done);
  const timer = setInterval(() => {
    const { share, records, rate, left } = describe();
    out.write(`${share} · ${records} · ${rate}/s · ${left}\n`);
  }, LINE_EVERY_MS);
  return { note: (text) => void out.write(`${text}\n`), stop: () => clearInterval(timer) };
}

/** @param done records that an earlier run had dealt with: they and their bytes say nothing about this run's rate */
function createDescription(read: () => Progress, done: number) {
  const startedAt = performance.now();
  let skipped = done === 0 ? 0 : undefined;
  return () => {
    const { records, position, size } = read();
    const seconds = (performance.now() - startedAt) / 1000;
    const part = size === undefined || size === 0 ? 0 : Math.min(position / size, 1);
    if (part > 0) skipped ??= part;
    const own = part - (skipped ?? part);
    return {
      part,
      share: size === undefined ? '–' : `${Math.floor(part * 100)}%`,
      records: count(records, 'record'),
      rate: rate(records - done, seconds),
      left: own > 0 ? `about ${duration((seconds * (1 - part)) / own)} left` : 'time left unknown',
    };
  };
}
