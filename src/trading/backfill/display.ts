import { SingleBar } from 'cli-progress';
import type { BackfillProgress } from './backfill.js';

/** Where a person watches; a terminal or not. */
export interface Screen {
  write(text: string): unknown;
  isTTY?: boolean;
}

export interface BackfillDisplay extends BackfillProgress {
  /** A line that stays. */
  note(text: string): void;
  stop(): void;
}

/** A bar where a person watches, a line for each answer where the output is kept. */
export const createBackfillDisplay = (out: Screen): BackfillDisplay =>
  out.isTTY ? createBar(out) : createLines(out);

function createBar(out: Screen): BackfillDisplay {
  const bar = new SingleBar({
    stream: out as NodeJS.WriteStream,
    format: '{bar} {percentage}% · {value} of {total} days · {what}',
    barsize: 24,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    // A second Ctrl-C ends the command at once: the terminal must be as it was.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
    gracefulExit: false,
  });
  let isShown = false;
  return {
    start(total) {
      isShown = total > 0;
      if (isShown) bar.start(total, 0, { what: '' });
    },
    advance: (days, what) => bar.increment(days, { what }),
    note(text) {
      // Makes room for the line; the next step draws the bar again below it.
      out.write(isShown ? `\r\u001B[K${text}\n` : `${text}\n`);
    },
    stop() {
      if (isShown) bar.stop();
    },
  };
}

function createLines(out: Screen): BackfillDisplay {
  let done = 0;
  let all = 0;
  return {
    start(total) {
      all = total;
    },
    advance(days, what) {
      done += days;
      out.write(`${Math.floor((done / all) * 100)}% · ${done} of ${all} days · ${what}\n`);
    },
    note: (text) => void out.write(`${text}\n`),
    stop: () => undefined,
  };
}
