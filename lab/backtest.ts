import { openTerminal } from '../src/commands/kit/command.js';
import { systemClock } from '../src/core/time.js';
import { runBacktestCommand } from './backtest/command.js';

process.exitCode = await runBacktestCommand({ ...openTerminal(), clock: systemClock });
