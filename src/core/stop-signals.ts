/** Under npm, Ctrl-C arrives twice: from the terminal and from npm. */
const SAME_REQUEST_MS = 2_000;

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
