import { MultiBar, type SingleBar } from 'cli-progress';
import { duration, rate, whole } from './numbers.js';

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
  const startedAt = performance.now();
  const bars = new MultiBar({
    stream: out as NodeJS.WriteStream,
    format: '{bar} {share} · {records} records · {rate}/s · {left}',
    barsize: 24,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
    gracefulExit: false,
    fps: 8,
  });
  const { size } = read();
  const bar: SingleBar = bars.create(size ?? 1, 0, texts(read(), startedAt, done));
  const update = () => {
    const progress = read();
    bar.update(size === undefined ? 0 : Math.min(progress.position, size), texts(progress, startedAt, done));
  };
  const timer = setInterval(update, 125);
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
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const { share, records, rate, left } = texts(read(), startedAt, done);
    out.write(`${share} · ${records} records · ${rate}/s · ${left}\n`);
  }, LINE_EVERY_MS);
  return { note: (text) => void out.write(`${text}\n`), stop: () => clearInterval(timer) };
}

/** @param done records that an earlier run had dealt with: they say nothing about this run's rate */
function texts({ records, position, size }: Progress, startedAt: number, done: number) {
  const seconds = (performance.now() - startedAt) / 1000;
  const part = size === undefined || size === 0 ? 0 : Math.min(position / size, 1);
  const isKnown = part > 0 && records > done;
  return {
    share: size === undefined ? '–' : `${Math.floor(part * 100)}%`,
    records: whole(records),
    rate: rate(records - done, seconds),
    left: isKnown ? `about ${duration((seconds * (1 - part)) / part)} left` : 'time left unknown',
  };
}
