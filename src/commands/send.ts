import { runSendCommand } from '../send/command.js';

const interrupt = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // The first signal lets requests in flight finish and keeps the progress; the second ends at once.
    if (interrupt.signal.aborted) process.exit(130);
    interrupt.abort();
  });
}

const { argv, env, stdin, stdout, stderr } = process;
// Nobody reads on, as with `| head`: that is no reason to stop sending.
for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
try {
  process.exitCode = await runSendCommand({
    args: argv.slice(2),
    env,
    stdin,
    stdout,
    stderr,
    interrupt: interrupt.signal,
  });
} catch (error) {
  console.error(error);
  process.exitCode = 2;
}
