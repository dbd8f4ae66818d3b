/**
 * One Ctrl-C reaches a process twice when npm started it: the terminal signals the whole group, and npm passes its own signal on.
 * Repeats within this time are the same request.
 */
const SAME_REQUEST_MS = 2_000;

/** Calls `stop` on the first SIGINT or SIGTERM, and `abandon` when a person asks again. */
export function onStopSignal(stop: (signal: NodeJS.Signals) => void, abandon: () => void): void {
  let askedAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (askedAt === undefined) {
        askedAt = performance.now();
        stop(signal);
      } else if (performance.now() - askedAt >= SAME_REQUEST_MS) abandon();
    });
}
