import { openTerminal } from '../../commands/kit/command.js';
import { systemClock } from '../../core/time.js';
import { runBacktestCommand } from '../lab/backtest/command.js';

process.exitCode = await runBacktestCommand({ ...openTerminal(), clock: systemClock });
