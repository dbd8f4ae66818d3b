import { runBacktestCommand } from '../backtest/command.js';
import { systemClock } from '../core/clock.js';

const { argv, stdout, stderr } = process;
// Nobody reads on, as with `| head`: the exit status still counts.
for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
process.exitCode = await runBacktestCommand({ args: argv.slice(2), clock: systemClock, stdout, stderr });
