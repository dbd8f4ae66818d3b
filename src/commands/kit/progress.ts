import { SingleBar } from 'cli-progress';

export interface Screen {
  write(text: string): unknown;
  isTTY?: boolean;
}

export interface Progress {
  /** @param share from 0 to 1; undefined if the total is unknown */
  show(share: number | undefined, text: string): void;
  note(text: string): void;
  stop(): void;
}

export const noProgress: Progress = {
  show: () => undefined,
  note: () => undefined,
  stop: () => undefined,
};

/**
 * A bar on a terminal, lines in a file or pipe.
 * @param linesEveryMs default: no lines
 */
export function createProgress(screen: Screen, linesEveryMs = Infinity): Progress {
  const describe = createDescription();
  const bar = screen.isTTY ? createBar(screen) : undefined;
  let lineAt = performance.now();
  let isShown = false;
  let isCleared = false;
  /** When the bar stops, it clears the line at the saved cursor, so save the cursor again after other output. */
  function saveCursor(): void {
    if (isCleared) screen.write('\u001B7');
    isCleared = false;
  }
  return {
    show(share, text) {
      if (bar) {
        const texts = { text: describe(share, text) };
        if (!isShown) bar.start(1, 0, texts);
        isShown = true;
        saveCursor();
        bar.update(Math.min(1, share ?? 0), texts);
      } else if (performance.now() - lineAt >= linesEveryMs) {
        lineAt = performance.now();
        screen.write(`${describe(share, text)}\n`);
      }
    },
    note(text) {
      screen.write(`${isShown ? '\r\u001B[K' : ''}${text}\n`);
      isCleared = isShown;
    },
    stop() {
      saveCursor();
      if (isShown) bar?.stop();
      isShown = false;
    },
  };
}

const createBar = (screen: Screen): SingleBar =>
  new SingleBar({
    stream: screen as NodeJS.WriteStream,
    format: '{bar} {text}',
    barsize: 24,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    // Ctrl-C must leave the terminal usable.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
    gracefulExit: false,
    fps: 8,
  });

/** An earlier run may have done part of the work, so only progress since the first call counts. */
function createDescription() {
  let first: { share: number; at: number } | undefined;
  return (share: number | undefined, text: string): string => {
    if (share === undefined) return `– · ${text}`;
    const now = performance.now();
    first ??= { share, at: now };
    const own = share - first.share;
    const left = own > 0 ? ` · about ${duration(((now - first.at) / 1000) * ((1 - share) / own))} left` : '';
    return `${Math.floor(Math.min(1, share) * 100)}% · ${text}${left}`;
  };
}

/** `4.2 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
