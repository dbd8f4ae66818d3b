import { SingleBar } from 'cli-progress';

/** Where a person watches; a terminal or not. */
export interface Screen {
  write(text: string): unknown;
  isTTY?: boolean;
}

export interface ProgressBar {
  /** @param share of the task that is done, 0 to 1 */
  update(share: number): void;
  stop(): void;
}

const EVERY_MS = 125;

/** A bar on a terminal, nothing where the output is kept. */
export function createProgressBar(screen: Screen, task: string): ProgressBar {
  if (!screen.isTTY) return { update: () => undefined, stop: () => undefined };
  const bar = new SingleBar({
    stream: screen as NodeJS.WriteStream,
    format: '{task} {bar} {percentage} %',
    barsize: 24,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    // Ctrl-C ends the command at once, in the middle of a fit: the terminal must be as it was.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
    gracefulExit: false,
    // Fits do not let timers run.
    synchronousUpdate: true,
    fps: 1000 / EVERY_MS,
  });
  bar.start(1, 0, { task });
  return { update: (share) => bar.update(Math.min(1, share)), stop: () => bar.stop() };
}
