import { openTerminal } from '../src/commands/kit/command.js';
import { runEvaluateCommand } from './evaluate/command.js';

process.exitCode = await runEvaluateCommand(openTerminal());
