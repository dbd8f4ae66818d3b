import { openTerminal } from '../../commands/kit/command.js';
import { runEvaluateCommand } from '../lab/evaluate/command.js';

process.exitCode = await runEvaluateCommand(openTerminal());
