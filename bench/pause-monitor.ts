/**
 * Loaded into the measured server: on SIGUSR2, writes the longest event-loop pause since the previous signal to
 * PAUSE_FILE.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const RESOLUTION_MS = 1;
const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delays.enable();
const file = process.env.PAUSE_FILE!;

process.on('SIGUSR2', () => {
  // A pause in progress still counts.
  setTimeout(() => {
    writeFileSync(`${file}.new`, String(Math.max(0, delays.max / 1e6 - RESOLUTION_MS)));
    renameSync(`${file}.new`, file);
    delays.reset();
  }, 5);
});
