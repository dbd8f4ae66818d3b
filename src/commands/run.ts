import { systemClock } from '../core/time.js';
import { runBacktestCommand } from '../markets/lab/backtest/command.js';
import { runEvaluateCommand } from '../markets/lab/evaluate/command.js';
import { listenForInterrupt, openTerminal, type Terminal } from './kit/command.js';
import { runSendCommand } from '../metering/commands/send/command.js';

const commands: Record<string, (terminal: Terminal) => Promise<number>> = {
  send: (terminal) => runSendCommand({ ...terminal, env: process.env, interrupt: listenForInterrupt() }),
  evaluate: runEvaluateCommand,
  backtest: (terminal) => runBacktestCommand({ ...terminal, clock: systemClock }),
};

const terminal = openTerminal();
const [name = '', ...args] = terminal.args;
const run = commands[name];
if (!run) throw new Error(`The first argument is one of ${Object.keys(commands).join(', ')}.`);
process.exitCode = await run({ ...terminal, args });
